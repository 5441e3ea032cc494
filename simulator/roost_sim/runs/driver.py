"""The driver: feeds the engine from a heap of moments, and takes the place of Slurm and the jobs.

The same trace gives the same events, byte for byte: see `moments` for their order at one instant.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from heapq import heappop
from math import inf
from typing import TypeAlias, assert_never

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
from roost_sim.information.progress import ProgressTable
from roost_sim.runs.moments import Moments
from roost_sim.runs.simulated_job import SimulatedJob
from roost_sim.traces.arrival import Arrival
from roost_sim.worlds.restart_cost import RestartCost, no_restart_cost
from roost_sim.worlds.world import Change, Ended, Started, World

HoldObserver: TypeAlias = Callable[[tuple[NodeShare, ...], float, float], None]


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
    _moments: Moments = field(default_factory=Moments)
    _active: dict[JobId, SimulatedJob] = field(default_factory=dict)
    _running: dict[JobId, tuple[NodeShare, ...]] = field(default_factory=dict)
    _events: deque[Event] = field(default_factory=deque)  # that wait for the present one
    _is_feeding: bool = False
    _unreported: dict[JobId, None] = field(default_factory=dict)
    _results: list[JobResult] = field(default_factory=list)
    _decision_s: list[float] = field(default_factory=list)
    _standing: dict[JobId, Placement] = field(default_factory=dict)
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
        moments, advance = self._moments.heap, self._advance
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
            self.feed(event)
        self._moments.begin(arrivals, outside, self._now_s)

    def advance(self) -> bool:
        """Advance a run by one moment. Returns whether there was one."""
        if self._moments.heap or self._advance_idle():
            self._advance()
            return True
        return False

    @property
    def has_moments(self) -> bool:
        """Whether something happens later that does not depend on the engine's next decision."""
        return bool(self._moments.heap)

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
        moments = self._moments.heap
        if self._wake_s < moments[0][0]:
            self.feed(Tick(at_s=self._wake_s))
            return
        at_s, _, number, subject = heappop(moments)
        self._now_s = at_s
        if isinstance(subject, SimulatedJob):
            if subject.due == number:
                self._end(subject, at_s) if subject.is_running else self._start(subject, at_s)
        elif isinstance(subject, Arrival):
            self._moments.schedule_arrival(at_s)
            self._arrive(subject, at_s)
        else:
            self._moments.schedule_outside()
            self._apply_outside(subject)

    def finish(self) -> Outcome:
        """Return the results of a run; jobs that are not finished say why."""
        for job in self._active.values():
            reason = self.engine.record(job.result.job_id).reason
            job.result.left_out = reason or "stands still: its rate stays 0"
        return Outcome(
            jobs=tuple(self._results),
            event_count=self._event_count,
            decision_s=tuple(self._decision_s),
            update_count=self._update_count,
            standing_count=self._standing_count,
        )

    # -- what happens to jobs --------------------------------------------------------------

    def _apply_outside(self, event: Event) -> None:
        """Apply an event that no job of the trace causes."""
        if isinstance(event, JobChanged):
            job = self._active.get(event.job.job_id)
            if job is None or self.engine.record(event.job.job_id).state is not JobState.WAITING:
                return
        elif isinstance(event, JobEnded) and event.job_id in self._active:
            self._cancel(self._active[event.job_id], event.at_s)
            return
        self.feed(event)

    def _cancel(self, job: SimulatedJob, at_s: float) -> None:
        self._moments.cancel(job)
        if job.result.job_id in self._running:
            self._end(job, at_s)
            return
        del self._active[job.result.job_id], self.progress.jobs[job.result.job_id]
        job.result.left_out = "cancelled before it could start"
        self.feed(JobEnded(at_s=at_s, job_id=job.result.job_id))

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
        job = SimulatedJob(
            work_s=work_s,
            remaining_s=work_s,
            user_id=spec.user_id,
            gpu_count=gpu_count,
            result=result,
        )
        self.progress.jobs[job_id] = self._active[job_id] = job
        self.feed(JobQueued(at_s=at_s, job=spec))

    def _start(self, job: SimulatedJob, at_s: float) -> None:
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
        self.feed(JobStarted(at_s=at_s, job_id=job_id, shares=shares))

    def _stop(self, job_ids: list[JobId], at_s: float) -> None:
        """Preempt running jobs; they lose no work, only the time of their restart."""
        for job_id in job_ids:
            job = self._active[job_id]
            job.advance(at_s)
            self._moments.cancel(job)
            job.rate = 0.0
            job.stopped = at_s, self._release(job, at_s)
            self._change_rates(Ended(job_id), at_s)
        self.feed(JobsStopped(at_s=at_s, job_ids=tuple(job_ids)))

    def _end(self, job: SimulatedJob, at_s: float) -> None:
        job_id = job.result.job_id
        job.result.ended_s = at_s
        self._release(job, at_s)
        del self._active[job_id], self.progress.jobs[job_id]
        self.progress.past.append(job.result)
        self._change_rates(Ended(job_id), at_s)
        self.feed(JobEnded(at_s=at_s, job_id=job_id))

    def _release(self, job: SimulatedJob, at_s: float) -> tuple[NodeShare, ...]:
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
            end_s = job.change_rate(rate, at_s)
            if rate > 0:
                self._moments.schedule_end(job, end_s)
            else:
                self._moments.cancel(job)
            if self.reports_speed:
                self._unreported[job_id] = None

    # -- the engine ------------------------------------------------------------------------

    def feed(self, event: Event) -> None:
        """Feed the engine an event at the present time and carry its actions out.

        Carrying out an action causes further events. They are fed in order, and never while the
        actions of an earlier event are still being carried out.
        """
        events, step, clock = self._events, self.engine.step, self.clock
        if self._is_feeding:
            events.append(event)
            return
        self._is_feeding = True
        while True:
            at_s = self._now_s = event.at_s
            if self._wake_s <= at_s:
                self._wake_s = inf
            self._event_count += 1
            began_s = clock()
            actions = step(event)
            if actions:
                self._carry_out(actions, at_s, clock() - began_s)
            if self._unreported and not events:
                self._report_speeds(at_s)
            if not events:
                break
            event = events.popleft()
        self._is_feeding = False

    def _report_speeds(self, at_s: float) -> None:
        """Report changed speeds, after the events that caused them."""
        for job_id in self._unreported:
            if job_id in self._running:
                rate = self._active[job_id].rate
                self._events.append(SpeedSeen(at_s=at_s, job_id=job_id, speed_frac=rate))
        self._unreported.clear()

    def _carry_out(self, actions: tuple[Action, ...], at_s: float, took_s: float) -> None:
        placed: list[SimulatedJob] = []
        stopped: list[JobId] = []
        for action in actions:
            # The frequent actions, not as cases: CPython makes a list for each case that matches.
            if isinstance(action, Place):
                job = self._active[action.job_id]
                job.note_placement(action, self.engine.cluster)
                placed.append(job)
                continue
            if isinstance(action, WakeAt):
                self._wake_s = action.at_s
                continue
            match action:
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
                case ReleaseToSlurm():
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

    def _end_standing(self, job_id: JobId) -> None:
        """Give up the standing pin of a job, if it has one and the engine no longer wants it."""
        if job_id in self._standing and self.engine.record(job_id).standing is None:
            del self._standing[job_id]
            self._update_count += 1

    def _start_or_wait(self, job: SimulatedJob, at_s: float) -> None:
        """Start a placed job, after the delay that Slurm needs unless it waits there already."""
        pinned = self._standing.pop(job.result.job_id, None) if self._standing else None
        is_waiting_there = pinned is not None and pinned == job.placement
        self._update_count += not is_waiting_there
        if not self.start_delay_s or is_waiting_there:
            self._start(job, at_s)
            return
        self._moments.schedule_start(job, at_s + self.start_delay_s)

    def _advance_idle(self) -> bool:
        """Advance the time while only the engine's own wake-ups could start a job.

        Returns:
            Whether a moment is left.
        """
        while not self._moments.heap:
            waiting_count = len(self.engine.waiting())
            if not waiting_count:
                return False
            if self._wake_s < inf:
                self.feed(Tick(at_s=self._wake_s))
                continue
            # A pass tries `window_count` jobs and leaves the others to the next event.
            for _ in range(1 + waiting_count // self.engine.config.window_count):
                self.feed(Tick(at_s=self._now_s))
            if not self._moments.heap and self._wake_s == inf:
                return False
        return True
