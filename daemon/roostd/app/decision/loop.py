"""The task that owns the engine; all other tasks put events on its queue."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import Protocol, TypeAlias

import structlog

from roost_engine.domain.actions import (
    Action,
    PinStanding,
    Place,
    PolicyFailed,
    Preempt,
    ReleaseToSlurm,
    Unpin,
    Wait,
    WakeAt,
)
from roost_engine.domain.events import (
    Event,
    JobChanged,
    JobEnded,
    JobQueued,
    JobStarted,
    NodeSeen,
    Tick,
)
from roost_engine.domain.model import JobId
from roost_engine.job_record import JobRecord, JobState
from roostd.app.decision.earlier_waits import changed_waits, continued
from roostd.app.decision.recorder import Recorder
from roostd.ops import failpoint
from roostd.ops.metrics import Metrics
from roostd.slurm.request import difference
from roostd.state import DaemonState
from roostd.telemetry.board import NodeReport
from roostd.telemetry.load_batch import LoadBatch

_log = structlog.get_logger(__name__)

# After so many events, or so much CPU time, the other tasks may run, among them the gRPC services.
_TURN_EVENTS = 200
_TURN_S = 0.005
_LOADS_TURN_S = 0.0005
_LOADS_PAUSE_S = 0.001  # between two such turns: an answer to an agent takes some eight turns
_LOADS_FRAC = 0.15  # of the time, for which load is read where that takes more than a turn


StepObserver: TypeAlias = Callable[[Event, Sequence[Action]], None]


class ActionSink(Protocol):
    """Carries out the engine's actions."""

    def submit(
        self, action: Place | PinStanding | Unpin | ReleaseToSlurm | Wait | Preempt, ticket: int
    ) -> None:
        """Accept an action without waiting; `ticket` is its place in the journal."""

    def forget(self, job_id: JobId) -> None:
        """Note that the job started or ended."""

    def requeued(self, job_id: JobId) -> None:
        """Note that the job ran and waits again."""


class DecisionLoop:
    """Applies events to the engine, records each step, and dispatches the engine's actions.

    Nothing is awaited between a step and the recording of its actions. Load is read from the board
    only before a step that may place a job: the engine gets the newest load of each node, once.
    That takes 11 us a node, so for a large cluster it takes many turns, for which the step waits,
    and load is then not read again for a while. The nodes of a turn are one event.

    Args:
        state: holds the engine; a reload replaces it there.
        recorder: the journal.
        sink: carries actions out.
        metrics: counts.
        beat_s: seconds between two heartbeats.
        beat: called at each heartbeat; only this loop calls it, so it stops when the loop does.
        observers: called with each step's event and actions; they must return at once.
    """

    def __init__(
        self,
        state: DaemonState,
        recorder: Recorder,
        sink: ActionSink,
        metrics: Metrics,
        beat_s: float,
        beat: Callable[[], None],
        observers: Sequence[StepObserver] = (),
    ) -> None:
        self._state, self._recorder, self._sink, self._metrics = state, recorder, sink, metrics
        self._beat_s, self._beat, self._observers = beat_s, beat, observers
        self._events: deque[Event] = deque()
        self._opening: Iterator[Event] | None = None  # for a fresh engine, before these
        self._put_back: deque[Event] = deque()  # what a turn had no time for, before both
        self._awaited: deque[tuple[Event, asyncio.Event]] = deque()  # in the order of the events
        self._wake = asyncio.Event()
        self._wake_at_s = float("inf")
        self._next_beat_s = 0.0
        self._last_at_s = 0.0
        self._loads: Iterator[NodeReport] | None = None  # those that are being read
        self._loads_at_s = self._loads_cost_s = self._loads_due_s = 0.0

    def put(self, event: Event) -> None:
        """Queue an event."""
        self._events.append(event)
        self._wake.set()

    async def report(self, event: Event) -> None:
        """Queue an event and wait until the engine has applied it."""
        applied = asyncio.Event()
        self._awaited.append((event, applied))
        self.put(event)
        await applied.wait()

    async def run(self) -> None:
        """Apply events until cancelled."""
        while True:
            self._beat_if_due()
            if not self._has_events():
                await self._wait_for_work()
            self._turn()
            await asyncio.sleep(0.0 if self._loads is None else _LOADS_PAUSE_S)

    def restart(self, events: Iterable[Event]) -> None:
        """Bring a fresh engine up to date with the cluster, and drop the old engine's WakeAt.

        Args:
            events: the state of the cluster, made as turns take them; queued events that Slurm or
                a probe reported are dropped for it. Events of `report` are kept: administrators
                wait for them.
        """
        self._wake_at_s = float("inf")
        self._loads = None
        self._put_back.clear()
        self._opening = iter(events)  # thousands: the turns apply them, so that no turn is long
        self._events = deque(event for event, _ in self._awaited)
        self._wake.set()

    def _turn(self) -> None:
        """Apply the queued events, and a Tick if the engine's WakeAt is due."""
        now_s = self._state.clock.now_s()
        if self._wake_at_s <= now_s:
            self._wake_at_s = float("inf")
            self._events.append(Tick(at_s=now_s))
        batch = self._next_events()
        self._metrics.queue_length.set(len(self._put_back) + len(self._events))
        if self._may_place(batch) and not self._read_loads(now_s):
            self._put_back.extendleft(reversed(batch))
            return
        end_s = time.thread_time() + _TURN_S
        for place, event in enumerate(batch):
            if place and time.thread_time() > end_s:
                self._put_back.extendleft(reversed(batch[place:]))
                return
            self._step(event)
            while self._awaited and self._awaited[0][0] is event:
                self._awaited.popleft()[1].set()

    def _has_events(self) -> bool:
        return bool(self._put_back or self._events) or self._opening is not None

    def _next_events(self) -> list[Event]:
        """Take the events of a turn from the queues."""
        queues = _drained(self._put_back), self._opening or (), _drained(self._events)
        batch = list(islice(chain(*queues), _TURN_EVENTS))
        if len(batch) < _TURN_EVENTS:
            self._opening = None
        return batch

    def _read_loads(self, now_s: float) -> bool:
        """Report new load to the engine for a turn; return whether all is reported."""
        if self._loads is None:
            if now_s < self._loads_due_s:
                return True
            self._loads = self._state.board.take_fresh()
            self._loads_at_s, self._loads_cost_s = now_s, 0.0
        began_s, is_whole, batch = time.thread_time(), True, LoadBatch()
        for report in self._loads:
            batch.add(report)
            if time.thread_time() > began_s + _LOADS_TURN_S:
                is_whole = False
                break
        for event in batch.events(self._loads_at_s):
            self._step(event)
        self._loads_cost_s += time.thread_time() - began_s
        if is_whole:
            self._loads = None
            if self._loads_cost_s > _LOADS_TURN_S:
                self._loads_due_s = now_s + self._loads_cost_s / _LOADS_FRAC
        return is_whole

    def _may_place(self, batch: list[Event]) -> bool:
        """Whether the engine may place a job in this turn, for which it reads load."""
        if any(isinstance(event, JobQueued | JobChanged) for event in batch):
            return True
        return bool(batch) and bool(self._state.engine.waiting())

    def _step(self, event: Event) -> None:
        if event.at_s < self._last_at_s:
            event = replace(event, at_s=self._last_at_s)  # a later event was applied before it
        self._last_at_s = event.at_s
        event = continued(event, self._state)
        is_requeue = isinstance(event, JobQueued) and self._has_run(event.job.job_id)
        begins = isinstance(event, JobStarted) and self._note_start(event)
        began_s = time.perf_counter()
        actions = self._state.engine.step(event)
        took_s = time.perf_counter() - began_s
        self._metrics.events.labels(type(event).__name__).inc()
        if any(isinstance(action, Place) for action in actions):
            self._metrics.decision_s.observe(took_s)
            failpoint.reach("after_decide")
        waits = changed_waits(event, actions, self._state.engine)
        ticket = self._recorder.append(event, actions, waits)
        for observe in self._observers:
            observe(event, actions)
        if isinstance(event, JobQueued) and is_requeue:
            self._sink.requeued(event.job.job_id)
        for action in actions:
            self._dispatch(action, ticket)
        if isinstance(event, JobStarted | JobEnded):
            self._sink.forget(event.job_id)
        if isinstance(event, JobStarted) and begins:
            self._verify(event)
        elif isinstance(event, NodeSeen):
            for probed in self._state.board.introduce(event.node.name):
                self._step(probed)

    def _note_start(self, event: JobStarted) -> bool:
        """Return whether a run begins; False: Slurm takes back what a completing job holds."""
        found = self._state.engine.known(event.job_id)
        is_running = found is not None and found.state in (JobState.RUNNING, JobState.STOPPING)
        return self._state.note_start(event.job_id, event.shares, resumes=is_running)

    def _has_run(self, job_id: JobId) -> bool:
        record = self._state.engine.managed(job_id)
        return record is not None and record.is_on_gpus

    def _dispatch(self, action: Action, ticket: int) -> None:
        match action:
            case WakeAt():
                self._wake_at_s = min(self._wake_at_s, action.at_s)
            case Place():
                self._count(action)
                self._sink.submit(action, ticket)
            case PinStanding():
                _log.info(
                    "job_waits_in_slurm",
                    job_id=action.job_id,
                    nodes=",".join(action.placement.nodes),
                    is_preempting=action.is_preempting,
                )
                self._sink.submit(action, ticket)
            case Unpin():
                self._sink.submit(action, ticket)
            case ReleaseToSlurm():
                self._metrics.released.inc()
                self._metrics.hand_overs.labels("engine").inc()
                _log.info("job_let_go", job_id=action.job_id, reason=action.reason)
                self._state.release_reasons[action.job_id] = action.reason
                self._sink.submit(action, ticket)
            case Wait():
                _log.info("job_waits", job_id=action.job_id, reason=action.reason)
                self._sink.submit(action, ticket)
            case PolicyFailed():
                self._metrics.policy_faults.labels(action.slot).inc()
                self._state.policy_failures[action.slot] = action.reason
                _log.warning(
                    "policy_failed", slot=action.slot, policy=action.policy, reason=action.reason
                )
            case Preempt():
                _log.info("job_preempted", job_id=action.job_id, reason=action.reason)
                self._sink.submit(action, ticket)

    def _count(self, action: Place) -> None:
        decision = action.decision.get()
        self._metrics.decisions.labels(decision.policy.partition(":")[0]).inc()
        if decision.fallback_reason:
            self._metrics.fallbacks.inc()
            self._state.policy_failures["score"] = decision.fallback_reason
        _log.info(
            "job_decided",
            job_id=action.job_id,
            nodes=",".join(action.placement.nodes),
            gpus=",".join(map(str, action.placement.gpu_indices)),
            link_score=int(decision.link_scores[0]),
            best_link_score=decision.best_link_score,
            policy=decision.policy,
            fallback_reason=decision.fallback_reason or None,
        )

    def _verify(self, event: JobStarted) -> None:
        """Log and count whether Slurm allocated what was decided."""
        record = self._state.engine.find(event.job_id)
        if not isinstance(record, JobRecord) or record.placement is None:
            return
        if not any(share.gpu_indices for share in event.shares):
            return  # it is completing, and Slurm has its GPUs back
        differs = difference(record.placement, event.shares)
        if not record.is_binding:
            self._count_watched(event.job_id, differs)
            return
        if differs is None:
            _log.info("job_started", job_id=event.job_id, as_planned=True)
            return
        self._metrics.mismatches.inc()
        _log.warning("job_started", job_id=event.job_id, as_planned=False, difference=differs)

    def _count_watched(self, job_id: JobId, differs: str | None) -> None:
        """Count a job that Slurm started while Roost only watched."""
        self._state.watched_start_count += 1
        self._state.watched_elsewhere_count += differs is not None
        self._metrics.watched_starts.labels("chosen" if differs is None else "other").inc()
        _log.info("job_start_watched", job_id=job_id, difference=differs)

    def _beat_if_due(self) -> None:
        now_s = self._state.clock.now_s()
        if now_s >= self._next_beat_s:
            self._next_beat_s = now_s + self._beat_s
            self._beat()

    async def _wait_for_work(self) -> None:
        """Wait for an event, the engine's WakeAt or the next heartbeat."""
        now_s = self._state.clock.now_s()
        due_s = max(min(self._wake_at_s, self._next_beat_s) - now_s, 0.0)
        try:
            async with asyncio.timeout(due_s):
                await self._wake.wait()
        except TimeoutError:
            return
        finally:
            self._wake.clear()


def _drained(events: deque[Event]) -> Iterator[Event]:
    while events:
        yield events.popleft()
