"""The driver: what happens to nodes and jobs that no job of the trace brings about."""

from dataclasses import replace

from tests.simulator.simulated import arrival, cluster, new_driver, result, times

from roost_engine.domain.events import JobChanged, JobEnded, JobStarted, NodeLost, NodeSeen
from roost_engine.domain.model import JobId, NodeName
from roost_engine.testing.builders import job, node, share
from roost_sim.figures.outcome import Outcome


def test_an_outsider_holds_its_gpus_until_it_ends() -> None:
    driver = new_driver()
    outside = (
        JobStarted(at_s=0.0, job_id=JobId("other"), shares=(share("n0", *range(8)),)),
        JobEnded(at_s=30.0, job_id=JobId("other")),
    )
    outcome = driver.run(cluster(1), [arrival("1", 5.0, 10.0, 8)], outside)
    assert times(outcome) == {"1": (30.0, 40.0)}


def test_a_node_that_comes_and_goes() -> None:
    driver = new_driver()
    outside = (
        NodeSeen(at_s=20.0, node=node("late")),
        NodeLost(at_s=25.0, name=NodeName("late")),
    )
    jobs = [arrival("1", 1.0, 100.0, 8), arrival("2", 2.0, 10.0, 8), arrival("3", 26.0, 10.0, 8)]
    outcome = driver.run(cluster(1), jobs, outside)
    # Job 2 takes the new node; job 3 comes after that is gone and waits for job 1.
    assert times(outcome) == {"1": (1.0, 101.0), "2": (20.0, 30.0), "3": (101.0, 111.0)}


def test_a_running_job_that_is_cancelled_ends_then() -> None:
    outcome = _cancelled_at(7.0)
    assert times(outcome) == {"1": (0.0, 7.0), "2": (7.0, 17.0)}


def test_a_waiting_job_that_is_cancelled_never_starts() -> None:
    outcome = new_driver().run(
        cluster(1),
        [arrival("1", 0.0, 50.0, 8), arrival("2", 1.0, 10.0, 8)],
        [JobEnded(at_s=9.0, job_id=JobId("2"))],
    )
    assert times(outcome) == {"1": (0.0, 50.0), "2": (None, None)}
    assert result(outcome, "2").left_out == "cancelled before it could start"


def test_a_job_that_is_cancelled_on_its_way_to_the_start_holds_nothing() -> None:
    driver = new_driver(start_delay_s=4.0)
    jobs = [arrival("1", 0.0, 50.0, 8), arrival("2", 1.0, 10.0, 8)]
    outcome = driver.run(cluster(1), jobs, [JobEnded(at_s=2.0, job_id=JobId("1"))])
    assert times(outcome) == {"1": (None, None), "2": (6.0, 16.0)}
    driver.engine.check_invariants()


def test_a_change_counts_while_the_job_waits_and_comes_too_late_afterwards() -> None:
    first, second, third = (arrival(str(n), 0.0, 10.0, 8) for n in (1, 2, 3))
    outside = (
        JobChanged(at_s=5.0, job=replace(third.spec, priority=9)),
        JobChanged(at_s=12.0, job=job("1", gpus=1)),  # ended
        JobChanged(at_s=12.0, job=job("3", gpus=1)),  # runs
    )
    outcome = new_driver().run(cluster(1), [first, second, third], outside)
    assert times(outcome) == {"1": (0.0, 10.0), "3": (10.0, 20.0), "2": (20.0, 30.0)}


def test_a_job_that_the_engine_hears_of_late_keeps_its_time_of_submission() -> None:
    late = replace(arrival("1", 3.0, 10.0), reported_s=8.0)
    outcome = new_driver().run(cluster(1), [late])
    found = result(outcome, "1")
    assert (found.submit_s, found.started_s) == (3.0, 8.0)


def _cancelled_at(at_s: float) -> Outcome:
    jobs = [arrival("1", 0.0, 50.0, 8), arrival("2", 1.0, 10.0, 8)]
    return new_driver().run(cluster(1), jobs, [JobEnded(at_s=at_s, job_id=JobId("1"))])
