"""The lower bound: known answers, and that no schedule of the engine beats it."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.simulator.simulated import arrival, cluster, simulate

from roost_sim.figures.bound import Demand, average_jct_bound_s, fluid_flow_s
from roost_sim.traces.shapes import tightest_shapes


def flow_s(*jobs: tuple[float, float]) -> float:
    """Total completion time of (submission, machine time) jobs."""
    submit_s, machine_s = zip(*jobs, strict=True)
    return fluid_flow_s(np.array(submit_s, np.float64), np.array(machine_s, np.float64))


def bound_s(gpu_count: int, *jobs: tuple[float, float, int]) -> float | None:
    """The bound for (submission, work, GPUs) jobs."""
    columns = tuple(zip(*jobs, strict=True)) or ((), (), ())
    return average_jct_bound_s(Demand.of(*columns), gpu_count)


def test_one_machine_serves_the_shortest_first() -> None:
    assert flow_s((0, 3), (0, 1), (0, 2)) == 1 + 3 + 6


def test_a_shorter_job_interrupts_a_longer_one() -> None:
    # 0..1 the long one, 1..3 the short one, 3..12 the rest: 12 + 2.
    assert flow_s((0, 10), (1, 2)) == 14


def test_a_longer_job_does_not_interrupt_what_is_nearly_done() -> None:
    assert flow_s((0, 10), (9, 2)) == 10 + 3


def test_the_machine_rests_between_jobs() -> None:
    assert flow_s((0, 1), (100, 1)) == 2


def test_a_job_that_ends_as_another_comes() -> None:
    assert flow_s((0, 5), (5, 1)) == 6


def test_jobs_that_fit_side_by_side_are_bound_by_their_own_work() -> None:
    assert bound_s(8, (0, 100, 4), (0, 100, 4)) == 100


def test_jobs_that_need_every_gpu_are_bound_by_the_queue() -> None:
    assert bound_s(8, (0, 100, 8), (0, 100, 8)) == 150


def test_small_jobs_are_charged_their_own_work_and_large_ones_the_queue() -> None:
    # Fluid for the two whole-cluster jobs (100 + 200), solo for the small ones (60 each): more
    # than fluid for all, in which the small ones take 7.5 s of the cluster each.
    small = [(0.0, 60.0, 1)] * 6
    both = bound_s(8, (0, 100, 8), (0, 100, 8), *small)
    assert both == pytest.approx((100 + 200 + 6 * 60) / 8)


def test_the_order_of_the_columns_does_not_matter() -> None:
    jobs = [(3.0, 10.0, 8), (0.0, 20.0, 8), (1.0, 5.0, 2)]
    assert bound_s(8, *jobs) == bound_s(8, *reversed(jobs))


def test_no_jobs_no_bound() -> None:
    assert average_jct_bound_s(Demand.of([], [], []), 8) is None


JOBS = st.lists(
    st.tuples(st.integers(0, 200), st.integers(0, 100), st.integers(1, 16)),
    min_size=1,
    max_size=25,
)


@settings(max_examples=60, deadline=None)
@given(jobs=JOBS)
def test_no_schedule_beats_the_bound(jobs: list[tuple[int, int, int]]) -> None:
    arrivals = [
        arrival(str(number), submit_s, work_s, gpus, *tightest_shapes(gpus, 8))
        for number, (submit_s, work_s, gpus) in enumerate(sorted(jobs), 1)
    ]
    outcome = simulate(cluster(2), *arrivals)
    jct_s = [job.ended_s - job.submit_s for job in outcome.jobs if job.ended_s is not None]
    assert len(jct_s) == len(jobs)
    limit_s = bound_s(16, *((job.submit_s, job.work_s, job.gpu_count) for job in outcome.jobs))
    assert limit_s is not None
    assert np.mean(jct_s) >= limit_s or math.isclose(float(np.mean(jct_s)), limit_s)
