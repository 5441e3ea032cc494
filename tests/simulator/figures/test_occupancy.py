import pytest
from tests.simulator.simulated import arrival, cluster, simulate

from roost_engine.domain.model import JobId, NodeName, NodeShare
from roost_sim.figures.occupancy import Holds, occupancy_of
from roost_sim.figures.outcome import JobResult

NODE = NodeName("n0")


def test_idle_gpus_that_a_waiting_job_asked_for_are_lost() -> None:
    # 5 of 8 GPUs are held from 0 to 100; a job of 4 comes at 20, waits until 100 for want of one
    # GPU, runs to 150. Lost: 3 GPUs for 80 s. Afterwards 4 idle, but no job waits.
    outcome = simulate(cluster(1), arrival("1", 0, 100, 5), arrival("2", 20, 50, 4))
    found = occupancy_of(outcome.jobs, Holds.of_jobs(outcome.jobs), 8)
    assert found is not None
    assert found.held_frac == pytest.approx((5 * 100 + 4 * 50) / (8 * 150))
    assert found.lost_frac == pytest.approx(3 * 80 / (8 * 150))


def test_no_more_is_lost_than_was_asked_for() -> None:
    # A job of 1 waits 10 s beside 6 idle GPUs: one GPU of them is lost.
    outcome = simulate(cluster(1), arrival("1", 0, 100, 2), arrival("2", 0, 40))
    late = outcome.jobs[1]
    late.started_s, late.ended_s = 10, 50
    found = occupancy_of(outcome.jobs, Holds.of_jobs(outcome.jobs), 8)
    assert found is not None
    assert found.lost_frac == pytest.approx(10 / (8 * 100))


def test_a_stopped_job_waits_again() -> None:
    # Holds 4 of 8 GPUs in 0..10 and 30..40; in between they idle while it waits.
    holds = Holds()
    for begin_s in (0.0, 30.0):
        holds((NodeShare(NODE, (0, 1, 2, 3)),), begin_s, begin_s + 10)
    job = JobResult(
        job_id=JobId("1"), submit_s=0, work_s=20, gpu_count=4, started_s=0, ended_s=40,
        held_gpu_count=4,
    )  # fmt: skip
    found = occupancy_of([job], holds, 8)
    assert found is not None
    assert (found.held_frac, found.lost_frac) == pytest.approx((80 / 320, 80 / 320))


def test_nothing_ended_means_no_figure() -> None:
    assert occupancy_of([], Holds(), 8) is None


def test_a_gpu_that_two_jobs_share_is_held_once() -> None:
    # One GPU of two: a job from 0 to 40, another beside it from 10 to 30; a third waits from 20.
    holds = Holds(is_shared=True)
    holds((NodeShare(NODE, (0,), seat=1),), 10.0, 30.0)
    holds((NodeShare(NODE, (0,)),), 0.0, 40.0)
    holds((NodeShare(NODE, (0,)),), 40.0, 50.0)
    times = (("1", 0, 0, 40), ("2", 10, 10, 30), ("3", 20, 40, 50))
    jobs = [
        JobResult(
            job_id=JobId(name), submit_s=came, work_s=1, gpu_count=1, started_s=began, ended_s=left,
            held_gpu_count=1,
        )
        for name, came, began, left in times
    ]  # fmt: skip
    found = occupancy_of(jobs, holds, 2)
    assert found is not None
    assert found.held_frac == pytest.approx(50 / 100)
    # The other GPU is idle all the time, and the third job wants it from 20 to 40.
    assert found.lost_frac == pytest.approx(20 / 100)
