"""Feeds the one engine from a heap of moments, and plays Slurm and the jobs for it.

At one instant jobs that end come first, then jobs that start late, then what happens to nodes and
jobs from outside, then arrivals; within each, who was scheduled earlier. So the same trace gives
the same events, byte for byte.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from heapq import heappop, heappush
from itertools import count
from math import inf, isfinite
from typing import TypeAlias, assert_never

from roost_engine.cluster.link_table import mask_of
from roost_engine.domain.actions import (
    Action,
    LetGo,
    Place,
    PolicyFailed,
    Preempt,
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
from roost_sim.information.progress import Progress, ProgressBook
from roost_sim.traces.arrival import Arrival
from roost_sim.worlds.world import Change, Ended, Started, World

RestartCost: TypeAlias = Callable[[JobId, int], float]
HoldSeen: TypeAlias = Callable[[tuple[NodeShare, ...], float, float], None]


def no_restart_cost(job_id: JobId, gpu_count: int) -> float:
    """A stopped job runs on at once, as several published simulators have it."""
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
        run_since_s: start of the present run.
        stopped: at which instant it was stopped, and on what, until it starts again.
        due: number of the moment at which it starts or ends; older moments of it are void.
    """

    result: JobResult
    due: int = -1
    placement: Placement | None = None
    run_since_s: float = 0.0
    stopped: tuple[float, tuple[NodeShare, ...]] | None = None


_Moment: TypeAlias = tuple[float, _Kind, int, "_Job | Arrival | Event"]


@dataclass(slots=True)
class Driver:
    """One run of one engine; use a new one for the next.

    Attributes:
        engine: already configured, knowing no job.
        world: how fast jobs run.
        start_delay_s: between the decision and the start, as Slurm needs; below the engine's
            start_timeout_s.
        restart_s: what it takes a stopped job to run on, from (job, GPUs).
        tells_speed: whether the engine hears how fast jobs run; only some policies ask.
        book: how far jobs have come, for policies that are told.
        hold_seen: told of each stretch for which a job held GPUs: which, from when, until when.
        clock: seconds for decision times; they never influence the run.
    """

    engine: Engine
    world: World
    start_delay_s: float = 0.0
    restart_s: RestartCost = no_restart_cost
    tells_speed: bool = False
    book: ProgressBook = field(default_factory=ProgressBook)
    hold_seen: HoldSeen | None = None
    clock: Callable[[], float] = time.perf_counter
    _moments: list[_Moment] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=count)
    _active: dict[JobId, _Job] = field(default_factory=dict)
    _running: dict[JobId, tuple[NodeShare, ...]] = field(default_factory=dict)
    _news: deque[Event] = field(default_factory=deque)
    _untold: dict[JobId, None] = field(default_factory=dict)
    _results: list[JobResult] = field(default_factory=list)
    _decision_s: list[float] = field(default_factory=list)
    _event_count: int = 0
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
        """Simulate until nothing is left to happen.

        Args:
            cluster: events that describe the nodes, at or before the first arrival.
            arrivals: in the order in which the engine hears of them.
            outside: what else happens, in order of time: to nodes; to jobs that are no arrivals;
                the end of an arrival that its owner cancels; a change to one, which comes too
                late if it does not wait then.

        Raises:
            ValueError: an arrival comes before its predecessor, or its id is in use.
        """
        for event in cluster:
            self._step(event)
        source, happenings = iter(arrivals), iter(outside)
        self._schedule_next(source)
        self._schedule_outside(happenings)
        moments = self._moments
        while moments or self._rouse():
            if self._wake_s < moments[0][0]:
                self._step(Tick(at_s=self._wake_s))
                continue
            at_s, kind, number, subject = heappop(moments)
            self._now_s = at_s
            if isinstance(subject, _Job):
                if subject.due == number:
                    self._start(subject, at_s) if kind is _Kind.START else self._end(subject, at_s)
            elif isinstance(subject, Arrival):
                self._schedule_next(source)
                self._arrive(subject, at_s)
            else:
                self._schedule_outside(happenings)
                self._happen(subject)
        self._explain_the_rest()
        return Outcome(
            jobs=tuple(self._results),
            event_count=self._event_count,
            decision_s=tuple(self._decision_s),
        )

    # -- what happens to jobs --------------------------------------------------------------

    def _schedule_next(self, source: Iterator[Arrival]) -> None:
        """Keep one arrival in the heap: traces may be longer than memory is large."""
        arrival = next(source, None)
        if arrival is not None:
            at_s = arrival.at_s
            if at_s < self._now_s:
                job_id = arrival.spec.job_id
                raise ValueError(f"job {job_id} comes at {at_s:g} s, after {self._now_s:g} s")
            heappush(self._moments, (at_s, _Kind.ARRIVAL, next(self._numbers), arrival))

    def _schedule_outside(self, happenings: Iterator[Event]) -> None:
        event = next(happenings, None)
        if event is not None:
            heappush(self._moments, (event.at_s, _Kind.OUTSIDE, next(self._numbers), event))

    def _happen(self, event: Event) -> None:
        """Take in what no job of the trace brings about."""
        if isinstance(event, JobChanged):
            job = self._active.get(event.job.job_id)
            if job is None or self.engine.record(event.job.job_id).state is not JobState.WAITING:
                return
        elif isinstance(event, JobEnded) and event.job_id in self._active:
            self._cancel(self._active[event.job_id], event.at_s)
            return
        self._step(event)

    def _cancel(self, job: _Job, at_s: float) -> None:
        job.due = next(self._numbers)  # void: its end or, where it is about to, its start
        if job.result.job_id in self._running:
            self._end(job, at_s)
            return
        del self._active[job.result.job_id], self.book.jobs[job.result.job_id]
        job.result.left_out = "cancelled before it could start"
        self._step(JobEnded(at_s=at_s, job_id=job.result.job_id))

    def _arrive(self, arrival: Arrival, at_s: float) -> None:
        spec, work_s, gpu_count = arrival.spec, arrival.work_s, arrival.gpu_count
        job_id = spec.job_id
        if job_id in self._active:
            raise ValueError(f"job {job_id} comes twice; ids are used once")
        result = JobResult(
            job_id=job_id, submit_s=spec.submit_s, work_s=work_s, gpu_count=gpu_count
        )
        self._results.append(result)
        job = _Job(
            work_s=work_s,
            remaining_s=work_s,
            user_id=spec.user_id,
            gpu_count=gpu_count,
            result=result,
        )
        self.book.jobs[job_id] = self._active[job_id] = job
        self._step(JobQueued(at_s=at_s, job=spec))

    def _start(self, job: _Job, at_s: float) -> None:
        assert job.placement is not None
        result = job.result
        job_id = result.job_id
        # What the engine holds for it is the same, and need not be made again.
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
        """Stop running jobs, which lose nothing but the time that they will need to start again."""
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
        del self._active[job_id], self.book.jobs[job_id]
        self.book.past.append(job.result)
        self._change_rates(Ended(job_id), at_s)
        self._step(JobEnded(at_s=at_s, job_id=job_id))

    def _release(self, job: _Job, at_s: float) -> tuple[NodeShare, ...]:
        shares = self._running.pop(job.result.job_id)
        job.is_running = False
        job.result.ran_s += at_s - job.run_since_s
        if self.hold_seen is not None:
            self.hold_seen(shares, job.run_since_s, at_s)
        return shares

    def _change_rates(self, change: Change, at_s: float) -> None:
        for job_id, rate in self.world.rates_after(change):
            if not (isfinite(rate) and rate >= 0):
                raise ValueError(f"job {job_id} has rate {rate:g}; want a finite one, at least 0")
            job = self._active[job_id]
            job.advance(at_s)
            job.rate, job.due = rate, next(self._numbers)
            if rate > 0:
                heappush(self._moments, (job.ends_at(at_s), _Kind.END, job.due, job))
            if self.tells_speed:
                self._untold[job_id] = None

    # -- the engine ------------------------------------------------------------------------

    def _step(self, event: Event) -> None:
        """Feed the engine and do what it asks for, and so on until it asks for nothing more.

        What is done about its answers is news in turn. It is told in order and never while the
        engine's answer to something earlier is still being carried out.
        """
        news = self._news
        news.append(event)
        if len(news) > 1:
            return
        while news:
            self._tell(news[0])
            news.popleft()
            if self._untold and not news:
                self._tell_speeds(event.at_s)

    def _tell_speeds(self, at_s: float) -> None:
        """Tell of new speeds, after what brought them about."""
        for job_id in self._untold:
            if job_id in self._running:
                rate = self._active[job_id].rate
                self._news.append(SpeedSeen(at_s=at_s, job_id=job_id, speed_frac=rate))
        self._untold.clear()

    def _tell(self, event: Event) -> None:
        at_s = self._now_s = event.at_s
        if self._wake_s <= at_s:
            self._wake_s = inf
        began_s = self.clock()
        actions = self.engine.step(event)
        took_s = self.clock() - began_s
        self._event_count += 1
        if actions:
            self._carry_out(actions, at_s, took_s)

    def _carry_out(self, actions: tuple[Action, ...], at_s: float, took_s: float) -> None:
        placed: list[_Job] = []
        stopped: list[JobId] = []
        for action in actions:
            match action:
                case Place():
                    placed.append(self._note_placement(action))
                case WakeAt():
                    self._wake_s = action.at_s
                case Wait():
                    pass
                case Preempt():
                    stopped.append(action.job_id)
                case PolicyFailed():
                    raise SimError(f"the {action.slot} {action.policy} failed: {action.reason}")
                case LetGo():
                    self._active.pop(action.job_id).result.left_out = action.reason
                    del self.book.jobs[action.job_id]
                case _:
                    assert_never(action)
        if placed:
            self._decision_s += [took_s / len(placed)] * len(placed)
            self._start_all(placed, at_s)
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
        # From the cluster: quicker than computing the decision.
        cluster, mask = self.engine.cluster, mask_of(placement.gpu_indices)
        size, link_score, best_link_score = placement.shape.gpus_per_node, 0, 0
        for node in placement.nodes:
            table = cluster.tables[cluster.free_as(cluster.row[node])[0]]
            link_score += table.score_by_set[mask]
            best_link_score += table.best_by_size[size]
        result.link_score, result.best_link_score = link_score, best_link_score
        return job

    def _start_all(self, placed: list[_Job], at_s: float) -> None:
        for job in placed:
            if not self.start_delay_s:
                self._start(job, at_s)
                continue
            job.due = next(self._numbers)
            heappush(self._moments, (at_s + self.start_delay_s, _Kind.START, job.due, job))

    def _rouse(self) -> bool:
        """Let time pass while nothing but the engine's own alarms could make a job start.

        Returns:
            Whether anything is left to happen.
        """
        while not self._moments:
            waiting_count = len(self.engine.waiting())
            if not waiting_count:
                return False
            if self._wake_s < inf:
                self._step(Tick(at_s=self._wake_s))
                continue
            # A pass tries so many jobs and leaves the rest for the next event.
            for _ in range(1 + waiting_count // self.engine.config.window_count):
                self._step(Tick(at_s=self._now_s))
            if not self._moments and self._wake_s == inf:
                return False
        return True

    def _explain_the_rest(self) -> None:
        for job in self._active.values():
            reason = self.engine.record(job.result.job_id).reason
            job.result.left_out = reason or "stands still: its rate stays 0"
