"""The driver and jobs that are stopped: what is told in which order, and what a restart costs."""

from collections.abc import Iterable, Sequence
from math import inf

import pytest
from tests.simulator.simulated import arrival, cluster, result, simulate, times

from roost_engine.domain.actions import Action
from roost_engine.domain.events import Event, JobEnded, JobsStopped, JobStarted, SpeedSeen
from roost_engine.domain.model import JobId
from roost_engine.engine import Engine, EngineConfig
from roost_engine.job_record import JobRecord
from roost_engine.plugins.plugins import Policies
from roost_sim.runs.driver import Driver
from roost_sim.worlds.world import Change, Ended, Started


class YoungestFirst:
    """A later job displaces an earlier one that has run for a lease."""

    renews_leases = False

    def __init__(self, lease_s: float = 0.0) -> None:
        self._lease_s = lease_s

    def lease_s(self, job: JobRecord) -> float:
        return self._lease_s

    def first_to_go(self, running: Sequence[JobRecord], at_s: float) -> Sequence[JobRecord]:
        return sorted(running, key=lambda job: int(job.job_id))

    def displaces(self, job: JobRecord, victim: JobRecord, at_s: float) -> bool:
        return int(job.job_id) > int(victim.job_id)

    def review_s(self, at_s: float) -> float:
        return inf


class SharedSpeed:
    """Each of n running jobs goes at rate 1/n."""

    def __init__(self) -> None:
        self.running: list[JobId] = []

    def rates_after(self, change: Change) -> Iterable[tuple[JobId, float]]:
        if isinstance(change, Started):
            self.running.append(change.job_id)
        else:
            assert isinstance(change, Ended)
            self.running.remove(change.job_id)
        return [(job_id, 1 / len(self.running)) for job_id in self.running]


class RecordingEngine(Engine):
    """The engine, remembering what it was fed."""

    def __init__(self, policies: Policies) -> None:
        super().__init__(EngineConfig(), policies)
        self.events: list[Event] = []

    def step(self, event: Event) -> tuple[Action, ...]:
        self.events.append(event)
        return super().step(event)


def test_a_stopped_job_keeps_its_work_and_pays_for_the_restart() -> None:
    # 1 runs 0-10, 2 takes its GPUs 10-40, 1 loads its checkpoint 40-47 and has 90 s left.
    driver = Driver(
        Engine(EngineConfig(), Policies(preemption=YoungestFirst())),
        SharedSpeed(),
        restart_s=lambda job_id, gpu_count: 7.0,
    )
    outcome = driver.run(cluster(1), [arrival("1", 0, 100, 8), arrival("2", 10, 30, 8)])
    driver.engine.check_invariants()
    assert times(outcome) == {"1": (0.0, 137.0), "2": (10.0, 40.0)}
    assert result(outcome, "1").preempted_count == 1
    assert result(outcome, "1").ran_s == 10 + 97
    assert result(outcome, "2").preempted_count == 0


def test_a_restart_that_is_free_costs_nothing() -> None:
    outcome = simulate(
        cluster(1),
        arrival("1", 0, 100, 8),
        arrival("2", 10, 30, 8),
        policies=Policies(preemption=YoungestFirst()),
    )
    assert times(outcome) == {"1": (0.0, 130.0), "2": (10.0, 40.0)}


def test_the_engine_hears_of_speeds_after_what_brought_them_about() -> None:
    engine = RecordingEngine(Policies(preemption=YoungestFirst()))
    driver = Driver(engine, SharedSpeed(), reports_speed=True)
    driver.run(
        cluster(2), [arrival("1", 0, 100, 8), arrival("2", 0, 100, 8), arrival("3", 10, 30, 8)]
    )
    engine.check_invariants()
    told = [event for event in engine.events if isinstance(event, SpeedSeen | JobEnded)]
    at_10 = [type(event) for event in engine.events if event.at_s == 10]
    assert at_10.index(JobsStopped) < at_10.index(JobStarted) < at_10.index(SpeedSeen)
    # 2 and 3 run at half speed until 3 ends at 70; then 1 is back.
    assert [(e.job_id, e.speed_frac) for e in told if e.at_s == 0 and isinstance(e, SpeedSeen)] == [
        ("1", 1.0),
        ("1", 0.5),
        ("2", 0.5),
    ]
    last = told[-1]
    assert isinstance(last, JobEnded)


@pytest.mark.parametrize("reports_speed", [False, True])
def test_a_crowd_that_displaces_each_other_at_one_instant_comes_to_rest(
    reports_speed: bool,
) -> None:
    jobs = [arrival(str(number), 5.0 * (number > 4), 60, 1 + number % 3) for number in range(1, 30)]
    engine = Engine(EngineConfig(), Policies(preemption=YoungestFirst(lease_s=3.0)))
    driver = Driver(engine, SharedSpeed(), reports_speed=reports_speed)
    outcome = driver.run(cluster(2, 4), jobs)
    engine.check_invariants()
    assert all(job.ended_s is not None for job in outcome.jobs)
    assert not driver.progress.jobs
    assert len(driver.progress.past) == len(jobs)


def test_the_progress_table_has_the_work_that_a_job_has_done() -> None:
    seen: list[float] = []

    class Peeking(YoungestFirst):
        def first_to_go(self, running: Sequence[JobRecord], at_s: float) -> Sequence[JobRecord]:
            seen.append(driver.progress.done_s(JobId("1"), at_s))
            return super().first_to_go(running, at_s)

    driver = Driver(Engine(EngineConfig(), Policies(preemption=Peeking())), SharedSpeed())
    driver.run(cluster(1), [arrival("1", 0, 100, 8), arrival("2", 10, 30, 8)])
    assert seen[0] == 10.0
    assert driver.progress.done_s(JobId("1"), 0.0) == 0.0
