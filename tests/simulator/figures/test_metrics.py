"""The figures of a run, worked out by hand."""

import pytest
from tests.simulator.simulated import arrival, cluster, simulate

from roost_engine.domain.model import JobId
from roost_engine.testing.builders import shape
from roost_sim.figures.metrics import Span, measure
from roost_sim.figures.outcome import JobResult, Outcome

WHOLE = Span(warm_up_frac=0, cool_down_frac=0)


def done(number: int, submit_s: float, jct_s: float) -> JobResult:
    """A one-GPU job that started at once."""
    return JobResult(
        job_id=JobId(str(number)),
        submit_s=submit_s,
        work_s=jct_s,
        gpu_count=1,
        started_s=submit_s,
        ended_s=submit_s + jct_s,
        held_gpu_count=1,
        tier=0,
    )


def outcome_of(*jobs: JobResult, decision_s: tuple[float, ...] = ()) -> Outcome:
    return Outcome(jobs=jobs, event_count=0, decision_s=decision_s)


def test_times_of_two_jobs_in_a_row() -> None:
    outcome = simulate(cluster(1), arrival("1", 0, 100, 8), arrival("2", 10, 50, 4))
    figures = measure(outcome, 8, WHOLE)
    assert (figures.jobs, figures.completed, figures.measured) == (2, 2, 2)
    assert figures.avg_jct_s == figures.median_jct_s == (100 + 140) / 2
    assert figures.avg_queue_s == 45
    assert figures.makespan_s == 150
    assert figures.occupancy == pytest.approx((100 * 8 + 50 * 4) / (150 * 8))
    assert figures.decisions == 2
    assert figures.tier_counts == (2, 0, 0)
    assert figures.link_frac == 1.0
    assert figures.left_out == ()


def test_the_wait_after_a_stop_is_queueing_too() -> None:
    # Submitted at 0, runs 10 to 30 and 70 to 100: it waits 10 s and then 40 s.
    stopped = done(1, 0, 100)
    stopped.started_s, stopped.ran_s, stopped.preempted_count = 10, 50, 1
    figures = measure(outcome_of(stopped, done(2, 0, 7)), 8, WHOLE)
    assert (figures.avg_queue_s, figures.longest_queue_s) == ((50 + 0) / 2, 50)


def test_percentiles_of_the_completion_time() -> None:
    figures = measure(outcome_of(*(done(n, n, n) for n in range(101))), 8, WHOLE)
    assert (figures.median_jct_s, figures.p95_jct_s, figures.p99_jct_s) == (50, 95, 99)


def test_the_first_and_last_tenth_to_arrive_are_not_measured() -> None:
    jobs = [done(n, n, 1000 if n in (0, 19) else 10) for n in range(20)]
    figures = measure(outcome_of(*jobs), 8, Span(warm_up_frac=0.05, cool_down_frac=0.05))
    assert (figures.jobs, figures.measured, figures.avg_jct_s) == (20, 18, 10)


def test_nine_jobs_are_measured_whole() -> None:
    assert measure(outcome_of(*(done(n, n, 1) for n in range(9))), 8, Span()).measured == 9


def test_a_batch_is_measured_whole() -> None:
    assert measure(outcome_of(*(done(n, 7, 1) for n in range(50))), 8, Span()).measured == 50


@pytest.mark.parametrize("fractions", [(0.5, 0.5), (-0.1, 0.0), (0.0, 1.0)])
def test_refuses_a_span_that_leaves_nothing(fractions: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="leave no job"):
        Span(warm_up_frac=fractions[0], cool_down_frac=fractions[1])


def test_the_bound_is_about_the_measured_jobs() -> None:
    jobs = [done(n, n, 1000 if n in (0, 19) else 10) for n in range(20)]
    figures = measure(outcome_of(*jobs), 64, Span(warm_up_frac=0.05, cool_down_frac=0.05))
    assert figures.bound_avg_jct_s == 10


def test_left_out_jobs_are_counted_by_reason() -> None:
    outcome = simulate(
        cluster(1),
        arrival("1", 0, 10, 16, shape(8, 2)),
        arrival("2", 0, 10, 32, shape(8, 4)),
        arrival("3", 0, 10, 8),
    )
    figures = measure(outcome, 8, WHOLE)
    assert (figures.jobs, figures.completed, figures.measured) == (3, 1, 1)
    assert [count for _, count in figures.left_out] == [2]


def test_without_jobs_there_are_no_figures() -> None:
    figures = measure(outcome_of(), 8, WHOLE)
    assert (figures.jobs, figures.completed, figures.avg_jct_s) == (0, 0, None)
    assert (figures.makespan_s, figures.occupancy, figures.bound_avg_jct_s) == (None, None, None)
    assert (figures.decision_p99_ms, figures.link_frac) == (None, None)
    assert (figures.longest_queue_s, figures.users) == (None, None)


def test_decision_times_are_in_milliseconds() -> None:
    seconds = tuple(number / 1000 for number in range(101))
    figures = measure(outcome_of(decision_s=seconds), 8, WHOLE)
    assert figures.decisions == 101
    assert figures.decision_p50_ms == pytest.approx(50)
    assert figures.decision_p99_ms == pytest.approx(99)
