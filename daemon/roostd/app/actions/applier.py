"""Carries out the engine's actions in Slurm, and reports refusals back to the engine."""

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import structlog

from roost_engine.domain.actions import PinStanding, Place, Preempt, ReleaseToSlurm, Unpin, Wait
from roost_engine.domain.errors import SlurmError
from roost_engine.domain.events import Event, PlacementRefused
from roost_engine.domain.model import JobId, Placement
from roost_engine.job_record import JobState, StandingPin
from roostd.app.actions.job_tasks import JobTasks
from roostd.app.actions.late_pins import LatePins
from roostd.app.actions.lease_renewal import LeaseRenewal
from roostd.app.actions.old_credentials import OldCredentials
from roostd.app.actions.preempting import Preempting
from roostd.app.actions.releases import Releases
from roostd.app.actions.slurm_refusals import logged
from roostd.app.actions.unstarted_pins import UnstartedPins
from roostd.app.actions.wait_reasons import WaitReasons
from roostd.app.decision.recorder import Recorder
from roostd.config.config import Mode
from roostd.ops import failpoint
from roostd.ops.metrics import Metrics
from roostd.ops.slices import Slices
from roostd.slurm.port import JobNotWaiting, NodeClosed, SlurmPort
from roostd.slurm.request import without_gpus
from roostd.state import DaemonState

_log = structlog.get_logger(__name__)


class Applier:
    """Pins jobs, releases them to Slurm, writes advice and renews leases.

    The actions of one job run one after the other, each once the journal has it on disk.

    Args:
        slurm: the cluster.
        state: has the engine; an action that the engine has dropped by its turn is skipped.
        recorder: the journal.
        metrics: counts.
        emit: takes PlacementRefused and PreemptionRefused events.
        poll: schedules polls of the queue; called after Slurm was asked to start a job, or to do
            anything else: None.
        poll_nodes: has the nodes read again; called where a chosen node is closed by now.
        concurrent_count: jobs that are worked on at the same time.
    """

    def __init__(
        self,
        slurm: SlurmPort,
        state: DaemonState,
        recorder: Recorder,
        metrics: Metrics,
        emit: Callable[[Event], None],
        poll: Callable[[JobId | None], None],
        poll_nodes: Callable[[], None],
        concurrent_count: int,
    ) -> None:
        self._slurm, self._state, self._recorder, self._metrics = slurm, state, recorder, metrics
        self._emit, self._poll, self._poll_nodes = emit, poll, poll_nodes
        self._tasks = JobTasks(concurrent_count, metrics)
        self._leases = LeaseRenewal(slurm, state, metrics)
        # None: of an earlier daemon, or of a run that was stopped.
        self._pinned: dict[JobId, Placement | None] = {}
        self._eligible: set[JobId] = set()  # wait in Slurm by a standing pin, without a lease
        self._undecided: set[JobId] = set()  # pinned by an earlier daemon; until the first renewal
        self._late_pins = LatePins(state, self._pinned)
        self._unstarted = UnstartedPins(state)
        self._reasons = WaitReasons(slurm, state, metrics)
        self._credentials = OldCredentials(state)
        self._preempting = Preempting(slurm, state, recorder, metrics, emit, poll)
        self._releases = Releases(
            slurm,
            state,
            recorder,
            metrics,
            self._tasks,
            self._leases,
            self._pinned,
            self._eligible,
        )
        self.open_jobs, self.close_jobs = self._releases.open_jobs, self._releases.close_jobs
        self._is_draining = False

    @property
    def is_idle(self) -> bool:
        """Whether no action is being carried out."""
        return self._tasks.is_idle

    def submit(
        self, action: Place | PinStanding | Unpin | ReleaseToSlurm | Wait | Preempt, ticket: int
    ) -> None:
        """Carry out an action; see loop.ActionSink. A draining daemon ignores it."""
        if self._is_draining:
            return
        match action:
            case Place():
                self._submit_place(action, ticket)
            case PinStanding():
                self._tasks.add(action.job_id, lambda: self._pin_standing(action, ticket))
            case Unpin():
                self._tasks.add(action.job_id, lambda: self._unpin(action.job_id))
            case ReleaseToSlurm() if self._state.engine.record(action.job_id).is_binding:
                self._releases.release(action, ticket)
            case Wait():
                self._submit_wait(action)
            case Preempt():
                self._tasks.add(action.job_id, lambda: self._preempting.stop(action, ticket))

    def adopt(self, pinned: Iterable[JobId], eligible: Iterable[JobId]) -> None:
        """Take over what an earlier daemon has left in Slurm, before the engine decides.

        A job that the engine pins keeps its age; any other pinned job gets its own request back
        and a lease: as soon as the engine lets it wait, at the second renewal at the latest.

        Args:
            pinned: waiting jobs that have the request of a pin.
            eligible: waiting jobs without a lease.
        """
        self._pinned |= dict.fromkeys(pinned)
        self._undecided |= self._pinned.keys()
        self._eligible |= set(eligible)
        if self._pinned:
            _log.info("pins_found", count=len(self._pinned))

    def requeued(self, job_id: JobId) -> None:
        """Restore the user's request of a job that ran and waits again, and lease the job.

        Slurm keeps the job's pin, and would start the job by itself on just those GPUs.
        """
        if not self._is_draining and self._state.engine.record(job_id).is_binding:
            self._pinned.setdefault(job_id, None)
            self._tasks.add(job_id, lambda: self._restore_request(job_id))

    def forget(self, job_id: JobId) -> None:
        """Drop the pin and the reason of a job that started or ended."""
        self._reasons.forget(job_id)
        self._pinned.pop(job_id, None)
        self._late_pins.forget(job_id)
        self._unstarted.forget(job_id)
        self._eligible.discard(job_id)
        self._releases.forget(job_id)
        self._leases.forget(job_id)
        if (known := self._state.engine.known(job_id)) is not None:
            self._credentials.note(job_id, known)

    async def renew(self, leased: Sequence[JobId]) -> None:
        """Renew the leases of all waiting jobs that are due: see LeasePlan.

        A job that waits with a pin that the engine does not want gets its own request back, and its
        lease with it: also where the engine dropped the pin without an Unpin, with a job's changed
        request, and where Slurm refused to take the pin back before, as of a held job.

        Args:
            leased: jobs that only their lease keeps from starting, by the last poll; those that
                Slurm would start first before the others.
        """
        async with self._tasks.alone(self._slurm.queue if leased else None):
            self._releases.retry()
            self._releases.forget_opened(leased)
            waiting = [one async for one in Slices().over(leased) if self._is_waiting(one)]
            for job_id in waiting:
                if job_id not in self._pinned or job_id in self._undecided:
                    continue
                if self._is_waiting(job_id):  # another task may have begun work on it meanwhile
                    self._tasks.add(job_id, partial(self._unpin, job_id))
            self._undecided.clear()
            # Work that has begun on one of these meanwhile waits for `renewal`, and wins.
            job_ids = [job_id for job_id in waiting if job_id not in self._pinned]
            if job_ids:
                self._eligible.difference_update(job_ids)
                await self._leases.renew(job_ids)

    def forget_leases(self) -> None:
        """Have the next call of `renew` renew all of them: the wall clock was set."""
        self._leases.forget_all()

    async def renew_first(self, leased: Iterable[JobId]) -> None:
        """Give the jobs a lease of full length that have their first, short one.

        Args:
            leased: jobs that only their lease keeps from starting, by the last poll.
        """
        new = [job_id for job_id in leased if self._leases.is_new(job_id)]
        if not new:
            return
        async with self._tasks.alone(self._slurm.queue):
            job_ids = [
                job_id for job_id in new if self._is_waiting(job_id) and job_id not in self._pinned
            ]
            if job_ids:
                await self._leases.renew_first(job_ids)

    def release_needless(self, needless: Sequence[JobId]) -> None:
        """Release jobs to Slurm that have a lease although Roost will not place them. Each once.

        Args:
            needless: all of them, by the last poll.
        """
        if not self._is_draining:
            self._releases.end_needless(needless)

    async def drain(self, patience_s: float) -> None:
        """Ignore new actions and finish those under way; cancel what takes longer than allowed."""
        self._is_draining = True
        await self._tasks.finish(patience_s)

    def _is_waiting(self, job_id: JobId) -> bool:
        """Whether Slurm has not been asked to start the job since the last poll."""
        if job_id in self._tasks or self._releases.has(job_id):
            return False
        record = self._state.engine.managed(job_id)
        if record is None:
            return True  # the engine need not know a job that is held or depends on another
        return record.state is not JobState.PLACING and record.standing is None

    def _submit_wait(self, action: Wait) -> None:
        if self._state.engine.record(action.job_id).is_binding:
            self._reasons.add(action)
        if self._state.engine.record(action.job_id).standing is not None:
            return  # it waits in Slurm
        if action.job_id in self._pinned:
            self._tasks.add(action.job_id, lambda: self._unpin(action.job_id))

    async def announce(self) -> None:
        """Write the reasons of waits that began or changed since the last call into Slurm."""
        async with self._tasks.alone(self._slurm.queue if self._reasons.are_due else None):
            due = self._reasons.take()
            self._reasons.keep({one: why for one, why in due.items() if one in self._tasks})
            waiting = {job_id: reason for job_id, reason in due.items() if self._is_waiting(job_id)}
            if waiting and not self._is_draining:
                await self._reasons.announce(waiting)

    def foretell(self, job_id: JobId, text: str) -> None:
        """Write when a waiting job is expected to start into Slurm, after all else for the job."""
        if not self._is_draining:
            self._tasks.add(job_id, lambda: self._foretell(job_id, text))

    async def _foretell(self, job_id: JobId, text: str) -> None:
        record = self._state.engine.managed(job_id)
        if record is not None and record.state is JobState.WAITING:
            with logged(self._metrics, "foretell"):
                await self._slurm.foretell(job_id, text)

    def _submit_place(self, action: Place, ticket: int) -> None:
        record = self._state.engine.record(action.job_id)
        if record.spec.binding:
            late = self._late_pins.beside(action.job_id, action.placement)
            workers = [task for job_id in late if (task := self._tasks.of(job_id)) is not None]
            if workers:
                self._tasks.spawn(self._pin_after(workers, action, ticket))
            else:
                self._tasks.add(action.job_id, lambda: self._pin(action, ticket))
        elif self._state.config.mode_of(record.spec.partition) is Mode.ADVISE:
            self._tasks.add(action.job_id, lambda: self._advise(action))

    async def _pin_after(
        self, workers: Sequence[asyncio.Task[None]], action: Place, ticket: int
    ) -> None:
        """Pin a job once other jobs' pins to the other seats of its GPUs are taken back."""
        await asyncio.wait(workers)
        self._tasks.add(action.job_id, lambda: self._pin(action, ticket))

    async def _pin(self, action: Place, ticket: int) -> None:
        await self._recorder.wait_durable(ticket)
        failpoint.reach("after_journal")
        await asyncio.sleep(self._credentials.settle_delay_s(action))
        if not self._is_current(action):
            return
        is_waiting_there = action.job_id in self._eligible
        if is_waiting_there and self._pinned.get(action.job_id) == action.placement:
            self._unstarted.note_pin(action)
            self._poll(action.job_id)  # Slurm starts it by itself
            return
        if late := self._late_pins.beside(action.job_id, action.placement):
            why = f"job {late[0]} may start on the other seat of its GPUs"
            self._refuse(action.job_id, "refused", why)
            self._poll(action.job_id)
            return
        if await self._ask_for(action.job_id, action.placement, "pinned"):
            self._unstarted.note_pin(action)
            failpoint.reach("after_pin")
        self._poll(action.job_id)

    async def _pin_standing(self, action: PinStanding, ticket: int) -> None:
        """Let a job wait in Slurm for GPUs that other jobs hold."""
        await self._recorder.wait_durable(ticket)
        pin = self._standing_pin(action.job_id)
        if pin is None or pin.placement != action.placement:
            return
        if await self._ask_for(action.job_id, action.placement, "standing"):
            self._eligible.add(action.job_id)
        self._poll(action.job_id)

    def _standing_pin(self, job_id: JobId) -> StandingPin | None:
        record = self._state.engine.managed(job_id)
        return None if record is None else record.standing

    async def _ask_for(self, job_id: JobId, placement: Placement, outcome: str) -> bool:
        """Ask Slurm for a placement, and report a refusal. Returns whether Slurm accepted it."""
        began_s = time.perf_counter()
        is_eligible = job_id in self._eligible
        self._leases.note_short(job_id)
        asked = self._without_unsure_gpus(job_id, placement)
        try:
            async with self._tasks.beside_others():
                with self._late_pins.asking(job_id, placement):
                    await self._pin_in_slurm(job_id, placement, asked, is_eligible=is_eligible)
        except SlurmError as error:
            outcome = "gone" if isinstance(error, JobNotWaiting) else "refused"
            if isinstance(error, NodeClosed):
                self._poll_nodes()
            self._refuse(job_id, outcome, str(error))
            return False
        self._pinned[job_id] = placement
        self._metrics.pins.labels(outcome).inc()
        self._metrics.pin_s.observe(time.perf_counter() - began_s)
        _log.info("job_pinned", job_id=job_id, standing=outcome == "standing")
        return True

    async def _pin_in_slurm(
        self, job_id: JobId, placement: Placement, asked: Placement, *, is_eligible: bool
    ) -> None:
        lease_s = round(self._state.config.slurm.lease_s)
        if asked is not placement and job_id in self._pinned:
            await self._slurm.unpin(job_id, lease_s)  # a pin to nodes would keep the types
            is_eligible = False
        partners = self._partners(job_id)
        await self._slurm.pin(
            job_id, asked, lease_s=lease_s, is_eligible=is_eligible, beside=partners
        )

    def _partners(self, job_id: JobId) -> Sequence[JobId]:
        seats = self._state.engine.cluster.seats
        return () if seats is None else seats.partners(job_id)

    def _without_unsure_gpus(self, job_id: JobId, placement: Placement) -> Placement:
        """Return what to ask for: nodes alone, where any of their GPUs may be reserved.

        Slurm then keeps the job off these GPUs, which it does not do for exact ones.
        """
        if self._state.unsure_nodes.isdisjoint(placement.nodes):
            return placement
        if not placement.is_exact or self._state.engine.record(job_id).spec.shares_gpus:
            return placement
        return without_gpus(placement)

    def _refuse(self, job_id: JobId, outcome: str, why: str) -> None:
        self._metrics.pins.labels(outcome).inc()
        _log.warning("job_not_pinned", job_id=job_id, outcome=outcome, error=why)
        at_s = self._state.clock.now_s()
        self._emit(PlacementRefused(at_s=at_s, job_id=job_id, reason=why))

    def _is_current(self, action: Place) -> bool:
        """Whether the engine still wants this placement: events since may have changed it."""
        record = self._state.engine.managed(action.job_id)
        if record is None or record.state is not JobState.PLACING:
            return False
        return record.placement == action.placement

    async def _unpin(self, job_id: JobId) -> None:
        """Take back the pin of a job that Slurm did not start, and lease the job again.

        Where Slurm does not answer, the next renewal of the leases tries again.
        """
        if job_id not in self._pinned or self._standing_pin(job_id) is not None:
            return  # it never had one, or it is pinned again already
        lease_s = round(self._state.config.slurm.lease_s)
        self._eligible.discard(job_id)
        with logged(self._metrics, "unpin"):
            try:
                reason = await self._slurm.unpin(job_id, lease_s)
            except JobNotWaiting as error:
                if not error.is_held:  # once it waits again it still has the pin
                    self._late_pins.note_moved_on(job_id)
                    self._pinned.pop(job_id, None)
                raise
            self._pinned.pop(job_id, None)
            self._unstarted.note_unpin(job_id, reason)
            _log.warning("job_unpinned", job_id=job_id, slurm_reason=reason)

    async def _restore_request(self, job_id: JobId) -> None:
        lease_s = round(self._state.config.slurm.lease_s)
        with logged(self._metrics, "return"):
            await self._slurm.unpin(job_id, lease_s)
            self._pinned.pop(job_id, None)
            _log.info("job_returned", job_id=job_id)
            failpoint.reach("after_return")

    async def _advise(self, action: Place) -> None:
        gpus = ",".join(map(str, action.placement.gpu_indices))
        text = f"nodes={','.join(action.placement.nodes)} gpus={gpus}"
        with logged(self._metrics, "advise"):
            await self._slurm.advise(action.job_id, text)
