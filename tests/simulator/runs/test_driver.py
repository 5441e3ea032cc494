"""The driver: events in the right order, jobs that end when they should."""

import math
from collections.abc import Iterable
from itertools import count

import pytest
from tests.simulator.simulated import arrival, cluster, new_driver, result, simulate, times

from roost_engine.domain.actions import Action
from roost_engine.domain.events import Event, JobEnded, JobQueued, JobStarted, Tick
from roost_engine.domain.model import JobId
from roost_engine.engine import Engine, EngineConfig
from roost_engine.plugins.plugins import Policies
from roost_engine.policies.protocols import Allow, Defer, GateVerdict, Offer, WaitEnded
from roost_engine.testing.builders import shape
from roost_sim.runs.driver import Driver
from roost_sim.worlds.world import Change, Ended, FullSpeed, Started


class RecordingEngine(Engine):
    """The engine, remembering what it was fed."""

    def __init__(self, policies: Policies | None = None) -> None:
        super().__init__(EngineConfig(), policies or Policies())
        self.events: list[Event] = []

    def step(self, event: Event) -> tuple[Action, ...]:
        self.events.append(event)
        return super().step(event)


class SharedSpeed:
    """Jobs share one machine's speed: each of n runs at rate 1/n."""

    def __init__(self) -> None:
        self.running: list[JobId] = []

    def rates_after(self, change: Change) -> Iterable[tuple[JobId, float]]:
        if isinstance(change, Started):
            self.running.append(change.job_id)
        else:
            self.running.remove(change.job_id)
        return [(job_id, 1 / len(self.running)) for job_id in self.running]


class ConstantSpeed:
    """Every job runs at one rate."""

    def __init__(self, rate: float) -> None:
        self.rate = rate

    def rates_after(self, change: Change) -> Iterable[tuple[JobId, float]]:
        return () if isinstance(change, Ended) else ((change.job_id, self.rate),)


class WaitsFor:
    """A gate that refuses every offer until a job has waited so long."""

    def __init__(self, patience_s: float) -> None:
        self.patience_s = patience_s

    def decide(self, offer: Offer) -> GateVerdict:
        if offer.waited_s >= self.patience_s:
            return Allow()
        return Defer(until_s=offer.at_s - offer.waited_s + self.patience_s, reason="waits")

    def note(self, outcome: WaitEnded) -> None:
        pass


def test_runs_each_job_for_its_work() -> None:
    outcome = simulate(cluster(1), arrival("1", 0, 100, 4), arrival("2", 10, 50, 4))
    assert times(outcome) == {"1": (0, 100), "2": (10, 60)}


def test_job_that_does_not_fit_starts_when_it_does() -> None:
    outcome = simulate(cluster(1), arrival("1", 0, 100, 8), arrival("2", 10, 50, 8))
    assert times(outcome) == {"1": (0, 100), "2": (100, 150)}


def test_a_run_may_be_advanced_moment_by_moment() -> None:
    jobs = [arrival("1", 0, 100, 8), arrival("2", 10, 50, 8)]
    driver = new_driver()
    driver.begin(cluster(1), jobs)
    seen = []
    while driver.advance():
        seen.append((driver.now_s, driver.arrived_count, driver.active_count))
    # At 110 s the engine looks whether job 2 has started.
    assert seen == [(0, 1, 1), (10, 2, 2), (100, 2, 1), (110, 2, 1), (150, 2, 0)]
    assert not driver.advance()
    assert times(driver.finish()) == times(simulate(cluster(1), *jobs))


def test_an_event_from_the_caller_is_carried_out_at_once() -> None:
    driver = new_driver()
    driver.begin(cluster(1), [arrival("1", 0, 100, 8)])
    while driver.advance():
        pass
    driver.feed(Tick(at_s=driver.now_s))
    alone = simulate(cluster(1), arrival("1", 0, 100, 8))
    assert driver.finish().event_count == alone.event_count + 1


def test_an_end_frees_gpus_for_an_arrival_of_the_same_instant() -> None:
    outcome = simulate(
        cluster(1),
        arrival("1", 0, 100, 8),
        arrival("2", 100, 10, 8),
    )
    assert times(outcome)["2"] == (100, 110)


def test_a_job_of_no_work_ends_when_it_starts() -> None:
    assert times(simulate(cluster(1), arrival("1", 5, 0)))["1"] == (5, 5)


def test_rates_change_the_end_of_jobs_that_run() -> None:
    # 1 runs alone for 10 s; then both share until 1 has done 100 s of work: 10 + 2 * 90.
    # 2 has then done 90 of 100 and finishes alone.
    outcome = simulate(cluster(2), arrival("1", 0, 100), arrival("2", 10, 100), world=SharedSpeed())
    assert times(outcome) == {"1": (0, 190), "2": (10, 200)}


def test_a_slow_world_makes_jobs_longer() -> None:
    outcome = simulate(cluster(1), arrival("1", 0, 100), world=ConstantSpeed(0.25))
    assert times(outcome)["1"] == (0, 400)


def test_a_job_that_stands_still_is_named() -> None:
    outcome = simulate(cluster(1), arrival("1", 0, 100), world=ConstantSpeed(0.0))
    assert result(outcome, "1").ended_s is None
    assert "rate" in result(outcome, "1").left_out


@pytest.mark.parametrize("rate", [-1.0, math.nan, math.inf])
def test_refuses_a_rate_that_is_none(rate: float) -> None:
    with pytest.raises(ValueError, match="job 1 has rate"):
        simulate(cluster(1), arrival("1", 0, 100), world=ConstantSpeed(rate))


def test_jobs_start_after_the_delay() -> None:
    outcome = simulate(
        cluster(1), arrival("1", 0, 100, 8), arrival("2", 10, 50, 8), start_delay_s=2.0
    )
    assert times(outcome) == {"1": (2, 102), "2": (104, 154)}


@pytest.mark.parametrize("delay_s", [-1.0, 10.0])
def test_refuses_a_delay_that_the_engine_takes_for_a_failed_start(delay_s: float) -> None:
    with pytest.raises(ValueError, match="start delay"):
        new_driver(start_delay_s=delay_s)


def test_a_job_larger_than_the_cluster_is_left_out_with_the_reason() -> None:
    outcome = simulate(cluster(2), arrival("1", 0, 100, 8, shape(8, 3)), arrival("2", 1, 10, 8))
    left_out = result(outcome, "1")
    assert (left_out.started_s, left_out.ended_s) == (None, None)
    assert "no placement could ever hold it" in left_out.left_out
    assert times(outcome)["2"] == (1, 11)


def test_without_nodes_every_job_is_left_out() -> None:
    outcome = simulate([], arrival("1", 0, 100))
    assert "waits for 1 GPU on one node" in result(outcome, "1").left_out


def test_a_gate_is_woken_when_its_deadline_comes() -> None:
    policies = Policies(gate=WaitsFor(30.0))
    outcome = simulate(cluster(1), arrival("1", 0, 100), policies=policies)
    assert times(outcome)["1"] == (30, 130)


def test_a_gate_is_woken_between_other_events() -> None:
    policies = Policies(gate=WaitsFor(30.0))
    outcome = simulate(cluster(1), arrival("1", 0, 100), arrival("2", 50, 1), policies=policies)
    assert times(outcome) == {"1": (30, 130), "2": (80, 81)}


def test_jobs_past_the_window_of_a_pass_are_served_all_the_same() -> None:
    jobs = [arrival(str(number), 0, 10, 1) for number in range(1, 9)]
    outcome = simulate(cluster(1), *jobs, config=EngineConfig(window_count=1))
    assert all(job.ended_s is not None for job in outcome.jobs)


def test_feeds_the_engine_what_slurm_would_report() -> None:
    engine = RecordingEngine()
    Driver(engine, FullSpeed()).run(cluster(1), [arrival("1", 5, 100, 8), arrival("2", 6, 1, 8)])
    told = [
        event for event in engine.events if isinstance(event, JobQueued | JobStarted | JobEnded)
    ]
    assert [(type(event).__name__, event.at_s) for event in told] == [
        ("JobQueued", 5),
        ("JobStarted", 5),
        ("JobQueued", 6),
        ("JobEnded", 105),
        ("JobStarted", 105),
        ("JobEnded", 106),
    ]


def test_time_never_runs_backwards_and_ticks_come_when_asked_for() -> None:
    engine = RecordingEngine(Policies(gate=WaitsFor(30.0)))
    driver = Driver(engine, FullSpeed())
    jobs = [arrival(str(number), 7.0 * number, 40.0, 4) for number in range(20)]
    driver.run(cluster(1), jobs)
    seconds = [event.at_s for event in engine.events]
    assert seconds == sorted(seconds)
    assert any(isinstance(event, Tick) for event in engine.events)


def test_refuses_an_id_twice() -> None:
    with pytest.raises(ValueError, match="job 1 comes twice"):
        simulate(cluster(1), arrival("1", 0, 10), arrival("1", 5, 1))


def test_decisions_are_timed_by_the_clock_given() -> None:
    seconds = count()
    engine = Engine(EngineConfig(), Policies())
    driver = Driver(engine, FullSpeed(), clock=lambda: float(next(seconds)))
    outcome = driver.run(
        cluster(1), [arrival("1", 0, 10, 8), arrival("2", 1, 5, 4), arrival("3", 2, 5, 4)]
    )
    # The step at which 1 ends places 2 and 3: they share its second.
    assert outcome.decision_s == (1.0, 0.5, 0.5)


def test_the_same_jobs_give_the_same_outcome() -> None:
    jobs = [arrival(str(n), n // 3, 17.0 * (n % 5), 1 + n % 8) for n in range(60)]
    one, other = (simulate(cluster(2), *jobs) for _ in range(2))
    assert one.jobs == other.jobs
