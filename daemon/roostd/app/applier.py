"""Carries out in Slurm what the engine decided, and tells it when Slurm will not."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from functools import partial
from math import inf

import structlog

from roost_engine.domain.actions import LetGo, Place, Preempt, Wait
from roost_engine.domain.errors import SlurmError, UnknownJob
from roost_engine.domain.events import Event, PlacementRefused, PreemptionRefused
from roost_engine.domain.model import JobId, NodeName, Placement
from roost_engine.job_record import JobState
from roost_slurm.limits import LAST_EPOCH_S
from roostd.app.recorder import Recorder
from roostd.config.config import Mode
from roostd.ops import failpoint
from roostd.ops.metrics import Metrics
from roostd.slurm.port import JobNotWaiting, SlurmPort
from roostd.state import DaemonState

_log = structlog.get_logger(__name__)

_LONGEST_REASON = 160
# When a job that it killed starts again, slurmd first purges its old credential, but looks for what
# to purge every two seconds at most, and at the end of each job. Where that time falls between the
# two calls of a start (PrologFlags=Alloc), the second waits 20 s for the first, in vain, and the
# start fails: "REQUEST_LAUNCH_PROLOG notification failed". Seen on 22.05. After a pause the first
# call purges. Two minutes after the kill the credential is gone.
_QUIET_S = 2.5
_CREDENTIAL_S = 121.0
_DAY_S = 86_400.0


class Applier:
    """Pins, lets go, advises and renews leases; several jobs at once, one thing at a time per job.

    Nothing is asked of Slurm before the journal has it on disk. A lease is never renewed while
    its job is being pinned: the later of the two calls would win.

    Args:
        slurm: the cluster.
        state: what the engine thinks by the time an action's turn comes.
        recorder: the journal.
        metrics: counts.
        emit: takes PlacementRefused and PreemptionRefused events.
        look: asks for a look at the queue soon; called when Slurm was told to start a job.
        concurrent_count: jobs that are worked on at the same time.
    """

    def __init__(
        self,
        slurm: SlurmPort,
        state: DaemonState,
        recorder: Recorder,
        metrics: Metrics,
        emit: Callable[[Event], None],
        look: Callable[[], None],
        concurrent_count: int,
    ) -> None:
        self._slurm, self._state, self._recorder = slurm, state, recorder
        self._metrics, self._emit, self._look = metrics, emit, look
        self._slots = asyncio.Semaphore(concurrent_count)
        self._gate = asyncio.Lock()
        self._queues: dict[JobId, list[Callable[[], Awaitable[None]]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._pinned: dict[JobId, Placement] = {}
        self._sentences: dict[JobId, str] = {}  # not announced yet
        self._released: set[JobId] = set()
        self._touched_s: dict[NodeName, float] = {}  # when a job last started or ended there
        self._handed_back: set[JobId] = set()
        self._is_draining = False

    @property
    def is_idle(self) -> bool:
        """Whether nothing is being carried out."""
        return not self._queues

    def submit(self, action: Place | LetGo | Wait | Preempt, ticket: int) -> None:
        """Take an action; see loop.ActionSink. A draining daemon takes none."""
        if self._is_draining:
            return
        match action:
            case Place():
                self._submit_place(action, ticket)
            case LetGo() if self._state.engine.record(action.job_id).is_binding:
                self._released.add(action.job_id)
                self._enqueue(action.job_id, lambda: self._let_go(action, ticket))
            case Wait():
                self._submit_wait(action)
            case Preempt():
                self._enqueue(action.job_id, lambda: self._preempt(action, ticket))

    def came_back(self, job_id: JobId) -> None:
        """A job that ran waits again: let it ask for what its user asked for, under a lease.

        Slurm leaves it its pin, and would start it by itself on just those GPUs.
        """
        if not self._is_draining and self._state.engine.record(job_id).is_binding:
            self._enqueue(job_id, lambda: self._return(job_id))

    def forget(self, job_id: JobId) -> None:
        """The job started or ended: its pin is history."""
        self._sentences.pop(job_id, None)
        self._pinned.pop(job_id, None)
        self._released.discard(job_id)
        with contextlib.suppress(UnknownJob):
            now_s = self._state.clock.now_s()
            for share in self._state.engine.find(job_id).shares:
                self._touched_s[share.node] = now_s

    async def renew(self, leased: Iterable[JobId]) -> None:
        """Hold every waiting job for another lease, in one call.

        Args:
            leased: jobs that nothing but their lease keeps from starting, by the last look.
        """
        lease_s = round(self._state.config.slurm.lease_s)
        async with self._gate:
            job_ids = [job_id for job_id in leased if self._is_to_wait(job_id)]
            if not job_ids:
                return
            with self._failing("renew"):
                await self._slurm.renew(job_ids, lease_s)
                self._metrics.lease_renewals.inc(len(job_ids))

    def release(self, held_in_vain: Sequence[JobId]) -> None:
        """Let jobs go whose leases serve nothing: Roost will not place them. Each once.

        Args:
            held_in_vain: all of them, by the last look.
        """
        if self._is_draining:
            return
        self._handed_back.intersection_update(held_in_vain)
        due = [
            job_id
            for job_id in held_in_vain
            if job_id not in self._handed_back and job_id not in self._queues
        ]
        self._handed_back.update(due)
        for job_id in self._pinned.keys() & set(due):
            self._enqueue(job_id, partial(self._take_back, job_id))
        unpinned = [job_id for job_id in due if job_id not in self._pinned]
        if unpinned:
            self._spawn(self._hand_back(unpinned))

    async def _hand_back(self, job_ids: Sequence[JobId]) -> None:
        async with self._gate:  # a renewal that ends later would hold them again
            with self._failing("release"):
                await self._slurm.let_go(job_ids)
                _log.info("leases_ended", count=len(job_ids), first_job_id=job_ids[0])

    async def drain(self, patience_s: float) -> None:
        """Take nothing new, finish what is running; give up on the rest after a while."""
        self._is_draining = True
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=patience_s)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _is_to_wait(self, job_id: JobId) -> bool:
        """Whether nobody has told Slurm to start the job since the last look."""
        if job_id in self._queues or job_id in self._released | self._handed_back:
            return False
        try:
            return self._state.engine.record(job_id).state is not JobState.PLACING
        except UnknownJob:
            return True  # held or depending: the engine need not know it

    def _submit_wait(self, action: Wait) -> None:
        if self._state.engine.record(action.job_id).is_binding:
            self._sentences[action.job_id] = self._sentence(action)
        if action.job_id in self._pinned:
            self._enqueue(action.job_id, lambda: self._unpin(action.job_id))

    def _sentence(self, action: Wait) -> str:
        """What a job waits for and until when, as its admin comment may say it."""
        # A word with = in it would look like one of the keys that scontrol prints.
        reason = action.reason.replace("=", ":")[:_LONGEST_REASON]
        said = "".join(letter for letter in reason if letter.isprintable())
        if action.until_s is None:
            return said
        left_s = action.until_s - self._state.clock.now_s()  # deadlines are not the wall clock's
        ends_s = min(time.time() + left_s, LAST_EPOCH_S)  # localtime() raises far beyond it
        clock = "%H:%M" if left_s < _DAY_S else "%Y-%m-%d %H:%M"
        return f"{said}, until {time.strftime(clock, time.localtime(ends_s))}"

    async def announce(self) -> None:
        """Let Slurm say what jobs wait for that began to do so since the last time."""
        async with self._gate:
            due, self._sentences = self._sentences, {}
            waiting = {job_id: said for job_id, said in due.items() if self._is_to_wait(job_id)}
            if waiting and not self._is_draining:
                with self._failing("announce"):
                    await self._slurm.announce(waiting)

    def _submit_place(self, action: Place, ticket: int) -> None:
        record = self._state.engine.record(action.job_id)
        if record.spec.binding:
            self._enqueue(action.job_id, lambda: self._pin(action, ticket))
        elif self._state.config.mode_of(record.spec.partition) is Mode.ADVISE:
            self._enqueue(action.job_id, lambda: self._advise(action))

    def _enqueue(self, job_id: JobId, work: Callable[[], Awaitable[None]]) -> None:
        """Run after whatever is under way for the same job."""
        if job_id in self._queues:
            self._queues[job_id].append(work)
            return
        self._queues[job_id] = [work]
        self._spawn(self._work_off(job_id))

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _work_off(self, job_id: JobId) -> None:
        queue = self._queues[job_id]
        try:
            async with self._gate:
                pass  # a renewal under way may hold this job; let it finish first
            while queue:
                async with self._slots:
                    await queue[0]()
                queue.pop(0)
        except Exception:  # noqa: BLE001  supervises: one job's trouble must not stop the others
            _log.exception("action_failed", job_id=job_id)
            self._metrics.slurm_failures.labels("unexpected").inc()
        finally:
            del self._queues[job_id]

    async def _pin(self, action: Place, ticket: int) -> None:
        await self._recorder.wait_durable(ticket)
        failpoint.reach("after_journal")
        await asyncio.sleep(self._unquiet_s(action))
        if not self._is_current(action):
            return
        began_s = time.perf_counter()
        try:
            await self._slurm.pin(action.job_id, action.placement)
        except SlurmError as error:
            outcome = "gone" if isinstance(error, JobNotWaiting) else "refused"
            self._metrics.pins.labels(outcome).inc()
            _log.warning("job_not_pinned", job_id=action.job_id, outcome=outcome, error=str(error))
            at_s = self._state.clock.now_s()
            self._emit(PlacementRefused(at_s=at_s, job_id=action.job_id, reason=str(error)))
        else:
            self._pinned[action.job_id] = action.placement
            self._metrics.pins.labels("pinned").inc()
            self._metrics.pin_s.observe(time.perf_counter() - began_s)
            _log.info("job_pinned", job_id=action.job_id)
            failpoint.reach("after_pin")
        self._look()

    def _unquiet_s(self, action: Place) -> float:
        """How long a job that was requeued lately must let its nodes' slurmds rest."""
        now_s = self._state.clock.now_s()
        rest_s = self._state.rests.get(action.job_id)
        if rest_s is None or now_s > rest_s + _CREDENTIAL_S:
            return 0.0
        touched_s = [self._touched_s.get(node, -inf) for node in action.placement.nodes]
        return max(max(touched_s) + _QUIET_S - now_s, 0.0)

    def _is_current(self, action: Place) -> bool:
        """Whether the engine still wants that: it may have learnt better meanwhile."""
        try:
            record = self._state.engine.record(action.job_id)
        except UnknownJob:
            return False
        return record.state is JobState.PLACING and record.placement == action.placement

    async def _unpin(self, job_id: JobId) -> None:
        """Hold again a job that Slurm did not start where it was told to."""
        lease_s = round(self._state.config.slurm.lease_s)
        with self._failing("unpin"):
            reason = await self._slurm.unpin(job_id, lease_s)
            _log.warning("job_unpinned", job_id=job_id, slurm_reason=reason)
        self._pinned.pop(job_id, None)

    async def _preempt(self, action: Preempt, ticket: int) -> None:
        """Ask Slurm to stop a job. That it has, the queue will show: see `came_back`."""
        await self._recorder.wait_durable(ticket)
        failpoint.reach("before_requeue")
        if not self._is_to_stop(action.job_id):
            return
        try:
            await self._slurm.requeue(action.job_id)
        except SlurmError as error:
            self._metrics.preemptions.labels("refused").inc()
            _log.warning("job_not_stopped", job_id=action.job_id, error=str(error))
            at_s = self._state.clock.now_s()
            self._emit(PreemptionRefused(at_s=at_s, job_id=action.job_id, reason=str(error)))
        else:
            self._metrics.preemptions.labels("stopped").inc()
            _log.info("job_stopped", job_id=action.job_id, for_job=action.for_job)
        self._look()

    def _is_to_stop(self, job_id: JobId) -> bool:
        """Whether the engine still wants it stopped: its plan may have been dropped."""
        try:
            return self._state.engine.record(job_id).state is JobState.STOPPING
        except UnknownJob:
            return False

    async def _return(self, job_id: JobId) -> None:
        lease_s = round(self._state.config.slurm.lease_s)
        with self._failing("return"):
            await self._slurm.unpin(job_id, lease_s)
            _log.info("job_returned", job_id=job_id)
            failpoint.reach("after_return")

    async def _let_go(self, action: LetGo, ticket: int) -> None:
        await self._recorder.wait_durable(ticket)
        await self._take_back(action.job_id)

    async def _take_back(self, job_id: JobId) -> None:
        """Let a job go, without its pin if it has one."""
        lease_s = round(self._state.config.slurm.lease_s)
        with self._failing("let_go"):
            if self._pinned.pop(job_id, None) is not None:
                await self._slurm.unpin(job_id, lease_s)
            await self._slurm.let_go([job_id])

    async def _advise(self, action: Place) -> None:
        placement = action.placement
        gpus = ",".join(map(str, placement.gpu_indices))
        text = f"nodes={','.join(placement.nodes)} gpus={gpus}"
        with self._failing("advise"):
            await self._slurm.advise(action.job_id, text)

    @contextlib.contextmanager
    def _failing(self, operation: str) -> Iterator[None]:
        """Log and count what Slurm will not do; the next look at the queue tells the truth."""
        try:
            yield
        except JobNotWaiting as error:
            _log.info("job_moved_on", operation=operation, error=str(error))
        except SlurmError as error:
            self._metrics.slurm_failures.labels(operation).inc()
            _log.warning("slurm_failed", operation=operation, error=str(error))
