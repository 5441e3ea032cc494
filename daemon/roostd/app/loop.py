"""The task that owns the engine. Everybody else puts events on its queue."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Protocol

import structlog

from roost_engine.domain.actions import (
    Action,
    LetGo,
    Place,
    PolicyFailed,
    Preempt,
    Wait,
    WakeAt,
)
from roost_engine.domain.errors import UnknownJob
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
from roost_engine.job_record import JobRecord
from roostd.app.recorder import Recorder
from roostd.ops import failpoint
from roostd.ops.metrics import Metrics
from roostd.slurm.request import difference
from roostd.state import DaemonState

_log = structlog.get_logger(__name__)

_TURN_EVENTS = 200  # after so many, callers of the gRPC services get their turn


class ActionSink(Protocol):
    """Carries out what the engine asks for."""

    def submit(self, action: Place | LetGo | Wait | Preempt, ticket: int) -> None:
        """Take an action at once; `ticket` is its place in the journal."""

    def forget(self, job_id: JobId) -> None:
        """The job started or ended."""

    def came_back(self, job_id: JobId) -> None:
        """The job ran and waits again."""


class DecisionLoop:
    """Feeds events to the engine, records each step, and hands the answers on.

    Nothing is awaited between a step and the bookkeeping of its actions. Load is taken from the
    board right before it can matter: the engine sees the newest of every node, once.

    Args:
        state: holds the engine; a reload replaces it there.
        recorder: the journal.
        sink: carries actions out.
        metrics: counts.
        beat_s: between two heartbeats.
        beat: called at each; only this loop calls it, so it stops when the loop does.
    """

    def __init__(
        self,
        state: DaemonState,
        recorder: Recorder,
        sink: ActionSink,
        metrics: Metrics,
        beat_s: float,
        beat: Callable[[], None],
    ) -> None:
        self._state, self._recorder, self._sink, self._metrics = state, recorder, sink, metrics
        self._beat_s, self._beat = beat_s, beat
        self._events: deque[Event] = deque()
        self._heard: deque[tuple[Event, asyncio.Event]] = deque()  # in the order of the events
        self._wake = asyncio.Event()
        self._wake_at_s = float("inf")
        self._next_beat_s = 0.0
        self._last_at_s = 0.0

    def put(self, event: Event) -> None:
        """Queue an event."""
        self._events.append(event)
        self._wake.set()

    async def say(self, event: Event) -> None:
        """Queue an event and wait until the engine has taken it in."""
        heard = asyncio.Event()
        self._heard.append((event, heard))
        self.put(event)
        await heard.wait()

    async def run(self) -> None:
        """Turn until cancelled."""
        while True:
            self._beat_if_due()
            if not self._events:
                await self._something()
            self._turn()
            await asyncio.sleep(0)

    def restart(self, events: Iterable[Event]) -> None:
        """A fresh engine took over: forget the old one's alarm, tell the new one all there is."""
        self._wake_at_s = float("inf")
        told = [event for event, _ in self._heard]  # by people, not by the world
        self._events.clear()
        for event in events:
            self._step(event)
        self._events.extend(told)

    def _turn(self) -> None:
        """Give the engine what has come in, and the time if it asked for it."""
        now_s = self._state.clock.now_s()
        if self._wake_at_s <= now_s:
            self._wake_at_s = float("inf")
            self._events.append(Tick(at_s=now_s))
        batch = [self._events.popleft() for _ in range(min(len(self._events), _TURN_EVENTS))]
        self._metrics.queue_length.set(len(self._events))
        if self._may_place(batch):
            for load in self._state.board.take_loads():
                self._step(load)
        for event in batch:
            self._step(event)
            while self._heard and self._heard[0][0] is event:
                self._heard.popleft()[1].set()

    def _may_place(self, batch: list[Event]) -> bool:
        """Whether the engine may look at load in this turn."""
        if any(isinstance(event, JobQueued | JobChanged) for event in batch):
            return True
        return bool(batch) and bool(self._state.engine.waiting())

    def _step(self, event: Event) -> None:
        if event.at_s < self._last_at_s:
            event = replace(event, at_s=self._last_at_s)  # told later than what happened later
        self._last_at_s = event.at_s
        came_back = isinstance(event, JobQueued) and self._has_run(event.job.job_id)
        began_s = time.perf_counter()
        actions = self._state.engine.step(event)
        took_s = time.perf_counter() - began_s
        self._metrics.events.labels(type(event).__name__).inc()
        if any(isinstance(action, Place) for action in actions):
            self._metrics.decision_s.observe(took_s)
            failpoint.reach("after_decide")
        ticket = self._recorder.append(event, actions)
        if isinstance(event, JobQueued) and came_back:
            self._sink.came_back(event.job.job_id)
        for action in actions:
            self._hand_on(action, ticket)
        if isinstance(event, JobStarted | JobEnded):
            self._sink.forget(event.job_id)
        if isinstance(event, JobStarted):
            self._verify(event)
        elif isinstance(event, NodeSeen):
            for told in self._state.board.introduce(event.node.name):
                self._step(told)

    def _has_run(self, job_id: JobId) -> bool:
        try:
            return self._state.engine.record(job_id).is_on_gpus
        except UnknownJob:
            return False

    def _hand_on(self, action: Action, ticket: int) -> None:
        match action:
            case WakeAt():
                self._wake_at_s = min(self._wake_at_s, action.at_s)
            case Place():
                self._count(action)
                self._sink.submit(action, ticket)
            case LetGo():
                self._metrics.let_go.inc()
                _log.info("job_let_go", job_id=action.job_id, reason=action.reason)
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
        """Compare what Slurm allocated with what was decided, and tell people."""
        record = self._state.engine.find(event.job_id)
        if not isinstance(record, JobRecord) or not record.is_binding or record.placement is None:
            return
        differs = difference(record.placement, event.shares)
        if differs is None:
            _log.info("job_started", job_id=event.job_id, as_planned=True)
            return
        self._metrics.mismatches.inc()
        _log.warning("job_started", job_id=event.job_id, as_planned=False, difference=differs)

    def _beat_if_due(self) -> None:
        now_s = self._state.clock.now_s()
        if now_s >= self._next_beat_s:
            self._next_beat_s = now_s + self._beat_s
            self._beat()

    async def _something(self) -> None:
        """Wait for an event, the engine's alarm or the next heartbeat."""
        now_s = self._state.clock.now_s()
        due_s = max(min(self._wake_at_s, self._next_beat_s) - now_s, 0.0)
        try:
            async with asyncio.timeout(due_s):
                await self._wake.wait()
        except TimeoutError:
            return
        finally:
            self._wake.clear()
