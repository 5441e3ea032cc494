"""The driver: feeds the engine from a heap of moments, and takes the place of Slurm and the jobs.

At one instant ends of jobs come first, then delayed starts, then events from outside, then
arrivals; within each kind, in the order in which they were scheduled. So the same trace gives the
same events, byte for byte.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from heapq import heappop, heappush
from itertools import count
from math import inf
from typing import TypeAlias, assert_never

from roost_engine.cluster.link_table import mask_of
from roost_engine.domain.actions import (
    Action,
    LetGo,
    PinStanding,
    Place,
    PolicyFailed,
    Preempt,
    Unpin,
    Wait,
    WakeAt,
)
from roost_engine.domain.events import (
    Event,
    JobChanged,
    JobEnded,
    JobQueued,
    JobsStopped,
    JobStarted,
    SpeedSeen,
    Tick,
)
from roost_engine.domain.model import JobId, NodeShare, Placement
from roost_engine.engine import Engine
from roost_engine.job_record import JobState, shares_of
from roost_sim.errors import SimError
from roost_sim.figures.outcome import JobResult, Outcome
from roost_sim.information.progress import Progress, ProgressTable
from roost_sim.traces.arrival import Arrival
from roost_sim.worlds.world import Change, Ended, Started, World

RestartCost: TypeAlias = Callable[[JobId, int], float]
HoldObserver: TypeAlias = Callable[[tuple[NodeShare, ...], float, float], None]


def no_restart_cost(job_id: JobId, gpu_count: int) -> float:
    """See RestartCost: a preempted job resumes at once, as in several published simulators."""
    return 0.0


class _Kind(IntEnum):
    END = 0
    START = 1
    OUTSIDE = 2
    ARRIVAL = 3


@dataclass(slots=True, eq=False, kw_only=True)
class _Job(Progress):
    """A job in the simulation.

    Attributes:
        result: filled while the job runs.
        due: number of the moment at which it starts or ends; its older moments are void.
        placement: its latest placement; None: none yet.
        run_since_s: start of the present run.
        stopped: when it was preempted and what it held then; None: not preempted since its start.
    """

    result: JobResult
    due: int = -1
    placement: Placement | None = None
    run_since_s: float = 0.0
    stopped: tuple[float, tuple[NodeShare, ...]] | None = None


_Moment: TypeAlias = tuple[float, _Kind, int, "_Job | Arrival | Event"]


@dataclass(slots=True)
class Driver:
    """One run of one engine; each run needs a new driver.

    Attributes:
        engine: configured, without jobs.
        world: how fast jobs run.
        start_delay_s: time that Slurm needs from a decision to the start; below the engine's
            start_timeout_s. None passes for a job that waits in Slurm for just these GPUs.
        restart_s: (job, GPUs) to seconds that a preempted job needs before it makes progress again.
        reports_speed: whether the speed of jobs is reported to the engine; only some policies need
            it.
        progress: the progress of jobs, for policies that read it.
        on_hold: called with each interval for which a job held GPUs: shares, begin, end.
        clock: seconds, for decision times; these never influence the run.
    """

    engine: Engine
    world: World
    start_delay_s: float = 0.0
    restart_s: RestartCost = no_restart_cost
    reports_speed: bool = False
    progress: ProgressTable = field(default_factory=ProgressTable)
    on_hold: HoldObserver | None = None
    clock: Callable[[], float] = time.perf_counter
    _moments: list[_Moment] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=count)
    _active: dict[JobId, _Job] = field(default_factory=dict)
    _running: dict[JobId, tuple[NodeShare, ...]] = field(default_factory=dict)
    _events: deque[Event] = field(default_factory=deque)
    _unreported: dict[JobId, None] = field(default_factory=dict)
    _results: list[JobResult] = field(default_factory=list)
    _decision_s: list[float] = field(default_factory=list)
    _standing: dict[JobId, Placement] = field(default_factory=dict)
    _arrivals: Iterator[Arrival] = field(default_factory=lambda: iter(()))
    _outside: Iterator[Event] = field(default_factory=lambda: iter(()))
    _event_count: int = 0
    _update_count: int = 0
    _standing_count: int = 0
    _wake_s: float = inf
    _now_s: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.start_delay_s < self.engine.config.start_timeout_s:
            limit_s = self.engine.config.start_timeout_s
            raise ValueError(f"start delay {self.start_delay_s:g} s; want 0 to below {limit_s:g} s")

    def run(
        self,
        cluster: Iterable[Event],
        arrivals: Iterable[Arrival],
        outside: Iterable[Event] = (),
    ) -> Outcome:
        """Simulate until no event is left.

        Args:
            cluster: events that describe the nodes, at or before the first arrival.
            arrivals: in the order in which the engine receives them.
            outside: other events in order of time: of nodes; of jobs that are not among the
                arrivals; the end of an arrival that its user cancels; a change to an arrival,
                which is ignored if the job does not wait at that time.

        Raises:
            ValueError: an arrival comes before its predecessor, or its id is in use.
        """
        self.begin(cluster, arrivals, outside)
        moments, advance = self._moments, self._advance
        while moments or self._advance_idle():
            advance()
        return self.finish()

    def begin(
        self,
        cluster: Iterable[Event],
        arrivals: Iterable[Arrival],
        outside: Iterable[Event] = (),
    ) -> None:
        """Prepare a run that is advanced moment by moment; see `run`."""
        for event in cluster:
            self._step(event)
        self._arrivals, self._outside = iter(arrivals), iter(outside)
        self._schedule_arrival(self._arrivals)
        self._schedule_outside(self._outside)

    def advance(self) -> bool:
        """Advance a run by one moment. Returns whether there was one."""
        if self._moments or self._advance_idle():
            self._advance()
            return True
        return False

    def feed(self, event: Event) -> None:
        """Feed the engine an event at the present time and carry its actions out."""
        self._step(event)

    @property
    def has_moments(self) -> bool:
        """Whether something happens later that does not depend on the engine's next decision."""
        return bool(self._moments)

    @property
    def now_s(self) -> float:
        """Engine time of the run."""
        return self._now_s

    @property
    def arrived_count(self) -> int:
        """How many jobs have arrived."""
        return len(self._results)

    @property
    def active_count(self) -> int:
        """How many jobs have arrived and have not ended."""
        return len(self._active)

    def _advance(self) -> None:
        moments = self._moments
        if self._wake_s < moments[0][0]:
            self._step(Tick(at_s=self._wake_s))
            return
        at_s, kind, number, subject = heappop(moments)
        self._now_s = at_s
        if isinstance(subject, _Job):
            if subject.due == number:
                self._start(subject, at_s) if kind is _Kind.START else self._end(subject, at_s)
        elif isinstance(subject, Arrival):
            self._schedule_arrival(self._arrivals)
            self._arrive(subject, at_s)
        else:
            self._schedule_outside(self._outside)
            self._apply_outside(subject)

    def finish(self) -> Outcome:
        """Return the results of a run; jobs that are not finished say why."""
        self._explain_unfinished()
        return Outcome(
            jobs=tuple(self._results),
            event_count=self._event_count,
            decision_s=tuple(self._decision_s),
            update_count=self._update_count,
            standing_count=self._standing_count,
        )

    # -- what happens to jobs --------------------------------------------------------------

    def _schedule_arrival(self, queue: Iterator[Arrival]) -> None:
        """Keep one arrival in the heap: a trace may not fit into memory."""
        arrival = next(queue, None)
        if arrival is not None:
            at_s = arrival.at_s
            if at_s < self._now_s:
                job_id = arrival.spec.job_id
                raise ValueError(f"job {job_id} comes at {at_s:g} s, after {self._now_s:g} s")
            heappush(self._moments, (at_s, _Kind.ARRIVAL, next(self._numbers), arrival))

    def _schedule_outside(self, events: Iterator[Event]) -> None:
        event = next(events, None)
        if event is not None:
            heappush(self._moments, (event.at_s, _Kind.OUTSIDE, next(self._numbers), event))

    def _apply_outside(self, event: Event) -> None:
        """Apply an event that no job of the trace causes."""
        if isinstance(event, JobChanged):
            job = self._active.get(event.job.job_id)
            if job is None or self.engine.record(event.job.job_id).state is not JobState.WAITING:
                return
        elif isinstance(event, JobEnded) and event.job_id in self._active:
            self._cancel(self._active[event.job_id], event.at_s)
            return
        self._step(event)

    def _cancel(self, job: _Job, at_s: float) -> None:
        job.due = next(self._numbers)  # voids its end or its delayed start
        if job.result.job_id in self._running:
            self._end(job, at_s)
            return
        del self._active[job.result.job_id], self.progress.jobs[job.result.job_id]
        job.result.left_out = "cancelled before it could start"
        self._step(JobEnded(at_s=at_s, job_id=job.result.job_id))

    def _arrive(self, arrival: Arrival, at_s: float) -> None:
        spec, work_s, gpu_count = arrival.spec, arrival.work_s, arrival.gpu_count
        job_id = spec.job_id
        if job_id in self._active:
            raise ValueError(f"job {job_id} comes twice; ids are used once")
        result = JobResult(
            job_id=job_id,
            submit_s=spec.submit_s,
            work_s=work_s,
            gpu_count=gpu_count,
            user_id=spec.user_id,
        )
        self._results.append(result)
        job = _Job(
            work_s=work_s,
            remaining_s=work_s,
            user_id=spec.user_id,
            gpu_count=gpu_count,
            result=result,
        )
        self.progress.jobs[job_id] = self._active[job_id] = job
        self._step(JobQueued(at_s=at_s, job=spec))

    def _start(self, job: _Job, at_s: float) -> None:
        assert job.placement is not None
        result = job.result
        job_id = result.job_id
        # The engine's shares are equal to the placement's, and already built.
        shares = self.engine.cluster.shares(job_id) or shares_of(job.placement)
        job.run_since_s = job.since_s = job.stands_until_s = at_s
        if result.started_s is None:
            result.started_s = at_s
        if job.stopped is not None and job.stopped != (at_s, shares):
            result.preempted_count += 1
            job.stands_until_s = at_s + self.restart_s(job_id, result.gpu_count)
        job.stopped, job.is_running = None, True
        self._running[job_id] = shares
        self._change_rates(Started(job_id, shares), at_s)
        self._step(JobStarted(at_s=at_s, job_id=job_id, shares=shares))

    def _stop(self, job_ids: list[JobId], at_s: float) -> None:
        """Preempt running jobs; they lose no work, only the time of their restart."""
        for job_id in job_ids:
            job = self._active[job_id]
            job.advance(at_s)
            job.due, job.rate = -1, 0.0
            job.stopped = at_s, self._release(job, at_s)
            self._change_rates(Ended(job_id), at_s)
        self._step(JobsStopped(at_s=at_s, job_ids=tuple(job_ids)))

    def _end(self, job: _Job, at_s: float) -> None:
        job_id = job.result.job_id
        job.result.ended_s = at_s
        self._release(job, at_s)
        del self._active[job_id], self.progress.jobs[job_id]
        self.progress.past.append(job.result)
        self._change_rates(Ended(job_id), at_s)
        self._step(JobEnded(at_s=at_s, job_id=job_id))

    def _release(self, job: _Job, at_s: float) -> tuple[NodeShare, ...]:
        shares = self._running.pop(job.result.job_id)
        job.is_running = False
        job.result.ran_s += at_s - job.run_since_s
        if self.on_hold is not None:
            self.on_hold(shares, job.run_since_s, at_s)
        return shares

    def _change_rates(self, change: Change, at_s: float) -> None:
        for job_id, rate in self.world.rates_after(change):
            if not 0.0 <= rate < inf:
                raise ValueError(f"job {job_id} has rate {rate:g}; want a finite one, at least 0")
            job = self._active[job_id]
            job.advance(at_s)
            job.rate, job.due = rate, next(self._numbers)
            if rate > 0:
                heappush(self._moments, (job.ends_at(at_s), _Kind.END, job.due, job))
            if self.reports_speed:
                self._unreported[job_id] = None

    # -- the engine ------------------------------------------------------------------------

    def _step(self, event: Event) -> None:
        """Feed an event to the engine and carry its actions out, until no event is left.

        Carrying out an action causes further events. They are fed in order, and never while the
        actions of an earlier event are still being carried out.
        """
        events, clock = self._events, self.clock
        events.append(event)
        if len(events) > 1:
            return
        while events:
            event = events[0]
            at_s = self._now_s = event.at_s
            if self._wake_s <= at_s:
                self._wake_s = inf
            self._event_count += 1
            began_s = clock()
            actions = self.engine.step(event)
            if actions:
                self._carry_out(actions, at_s, clock() - began_s)
            events.popleft()
            if self._unreported and not events:
                self._report_speeds(at_s)

    def _report_speeds(self, at_s: float) -> None:
        """Report changed speeds, after the events that caused them."""
        for job_id in self._unreported:
            if job_id in self._running:
                rate = self._active[job_id].rate
                self._events.append(SpeedSeen(at_s=at_s, job_id=job_id, speed_frac=rate))
        self._unreported.clear()

    def _carry_out(self, actions: tuple[Action, ...], at_s: float, took_s: float) -> None:
        placed: list[_Job] = []
        stopped: list[JobId] = []
        for action in actions:
            match action:
                case Place():
                    placed.append(self._note_placement(action))
                case WakeAt():
                    self._wake_s = action.at_s
                case PinStanding():
                    self._standing[action.job_id] = action.placement
                    self._update_count += 1
                    self._standing_count += 1
                case Unpin() | Wait():
                    self._end_standing(action.job_id)
                case Preempt():
                    stopped.append(action.job_id)
                case PolicyFailed():
                    raise SimError(f"the {action.slot} {action.policy} failed: {action.reason}")
                case LetGo():
                    self._end_standing(action.job_id)
                    self._active.pop(action.job_id).result.left_out = action.reason
                    del self.progress.jobs[action.job_id]
                case _:
                    assert_never(action)
        if placed:
            each_s = took_s / len(placed)
            for job in placed:
                self._decision_s.append(each_s)
                self._start_or_wait(job, at_s)
        if stopped:
            self._stop(stopped, at_s)

    def _note_placement(self, action: Place) -> _Job:
        job, placement = self._active[action.job_id], action.placement
        result = job.result
        job.placement = placement
        result.held_gpu_count = placement.shape.gpu_count
        result.tier = placement.tier
        if not placement.gpu_indices:  # scattered
            decision = action.decision.get()
            result.link_score = int(decision.link_scores[0])
            result.best_link_score = decision.best_link_score
            return job
        # Looked up in the cluster: faster than computing the lazy decision.
        cluster, mask = self.engine.cluster, mask_of(placement.gpu_indices)
        tables, groups, index_of = cluster.tables, cluster.groups, cluster.index_of
        size, link_score, best_link_score = placement.shape.gpus_per_node, 0, 0
        for node in placement.nodes:
            table = tables[groups[index_of[node]].kind]
            link_score += table.score_by_set[mask]
            best_link_score += table.best_by_size[size]
        result.link_score, result.best_link_score = link_score, best_link_score
        return job

    def _end_standing(self, job_id: JobId) -> None:
        """Give up the standing pin of a job, if it has one and the engine no longer wants it."""
        if (
            self._standing
            and job_id in self._standing
            and self.engine.record(job_id).standing is None
        ):
            del self._standing[job_id]
            self._update_count += 1

    def _start_or_wait(self, job: _Job, at_s: float) -> None:
        """Start a placed job, after the delay that Slurm needs unless it waits there already."""
        pinned = self._standing.pop(job.result.job_id, None) if self._standing else None
        is_waiting_there = pinned is not None and pinned == job.placement
        self._update_count += not is_waiting_there
        if not self.start_delay_s or is_waiting_there:
            self._start(job, at_s)
            return
        job.due = next(self._numbers)
        heappush(self._moments, (at_s + self.start_delay_s, _Kind.START, job.due, job))

    def _advance_idle(self) -> bool:
        """Advance the time while only the engine's own wake-ups could start a job.

        Returns:
            Whether a moment is left.
        """
        while not self._moments:
            waiting_count = len(self.engine.waiting())
            if not waiting_count:
                return False
            if self._wake_s < inf:
                self._step(Tick(at_s=self._wake_s))
                continue
            # A pass tries `window_count` jobs and leaves the others to the next event.
            for _ in range(1 + waiting_count // self.engine.config.window_count):
                self._step(Tick(at_s=self._now_s))
            if not self._moments and self._wake_s == inf:
                return False
        return True

    def _explain_unfinished(self) -> None:
        for job in self._active.values():
            reason = self.engine.record(job.result.job_id).reason
            job.result.left_out = reason or "stands still: its rate stays 0"
