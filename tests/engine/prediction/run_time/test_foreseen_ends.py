"""foreseen_ends: limits decide where they say something, predictions where they do not."""

from dataclasses import replace
from math import inf, nan

import pytest

from roost_engine.domain.model import JobId
from roost_engine.domain.promise import Guess
from roost_engine.job_record import JobRecord
from roost_engine.prediction.run_time.foreseen_ends import (
    LONGEST_LIMIT_S,
    EndsConfig,
    ForeseenEnds,
    guess,
    usable_limit_s,
)
from roost_engine.prediction.run_time.run_times import RunTimes
from roost_engine.testing.builders import job, waiting
from roost_engine.testing.fakes import ends_about


class FakeRunTimes:
    """Expects the same of each job, given its age; None: it fails."""

    def __init__(self, run_s: float | None = 1_000.0) -> None:
        self.run_s, self.asked_count = run_s, 0

    def run_times(self, job: JobRecord, at_s: float) -> RunTimes | None:
        self.asked_count += 1
        if self.run_s is None:
            return None
        return replace(ends_about(self.run_s), age_s=job.run_s(at_s))


def running(job_id: str = "1", limit_s: float | None = None, since_s: float = 0.0) -> JobRecord:
    record = waiting(job(job_id, time_limit_s=limit_s))
    record.started_s = since_s
    return record


@pytest.mark.parametrize("limit_s", [1.0, 3_600.0, LONGEST_LIMIT_S - 1.0])
def test_a_limit_below_a_year_is_used(limit_s: float) -> None:
    assert usable_limit_s(job("1", time_limit_s=limit_s)) == limit_s


@pytest.mark.parametrize("limit_s", [None, 0.0, -5.0, nan, inf, LONGEST_LIMIT_S])
def test_a_missing_or_absurd_limit_says_nothing(limit_s: float | None) -> None:
    assert usable_limit_s(job("1", time_limit_s=limit_s)) is None


def test_a_job_with_a_limit_ends_by_it_and_nothing_is_asked() -> None:
    source = FakeRunTimes()
    ends, record = ForeseenEnds(EndsConfig(), source), running(limit_s=500.0)
    ends.begin(record, 500.0, 0.0)
    assert (list(ends), record.guess, source.asked_count) == ([(500.0, "1")], None, 0)


def test_a_job_without_a_limit_ends_when_most_jobs_like_it_have() -> None:
    ends, record = ForeseenEnds(EndsConfig(safe_frac=0.9), FakeRunTimes()), running()
    ends.begin(record, None, 100.0)
    assert record.guess is not None
    left_s = replace(ends_about(1_000.0), age_s=100.0).quantile_s(0.9)
    assert list(ends) == [(100.0 + left_s, "1")]
    assert record.guess.low_s < record.guess.high_s


def test_without_a_config_limits_alone_count_whatever_they_are() -> None:
    source = FakeRunTimes()
    ends = ForeseenEnds(None, source)
    ends.begin(running("1"), None, 0.0)
    ends.begin(running("2", limit_s=2 * LONGEST_LIMIT_S), 2 * LONGEST_LIMIT_S, 0.0)
    assert (list(ends), source.asked_count) == ([(2 * LONGEST_LIMIT_S, "2")], 0)


def test_a_job_that_outlives_its_prediction_is_predicted_again() -> None:
    ends, record = ForeseenEnds(EndsConfig(), FakeRunTimes()), running()
    ends.begin(record, None, 0.0)
    ((first_s, _),) = ends
    ends.renew(first_s - 1.0)
    assert [end_s for end_s, _ in ends] == [first_s]
    for at_s in (first_s, first_s + 5_000.0, first_s + 500_000.0):
        ends.renew(at_s)
        ((end_s, _),) = ends
        assert end_s > at_s
    assert record.guess is not None
    assert record.guess.is_outlived


def test_a_job_that_was_let_pass_and_outlives_its_prediction_ends_by_its_limit() -> None:
    ends, record = ForeseenEnds(EndsConfig(), FakeRunTimes()), running(limit_s=9_000.0)
    record.guess = Guess(left_s=300.0, low_s=10.0, high_s=300.0)
    ends.begin(record, 9_000.0, 0.0)
    assert list(ends) == [(300.0, "1")]
    ends.renew(300.0)
    assert list(ends) == [(9_000.0, "1")]
    ends.renew(9_000.0)  # Slurm stops it up to a minute later
    assert list(ends) == [(9_000.0, "1")]
    assert [one.job_id for one in ends.guessed()] == ["1"]


def test_an_end_is_unknown_where_the_predictors_fail() -> None:
    source = FakeRunTimes()
    ends, record = ForeseenEnds(EndsConfig(), source), running()
    ends.begin(record, None, 0.0)
    ((end_s, _),) = ends
    source.run_s = None
    ends.renew(end_s)
    assert list(ends) == []
    ends.begin(running("2"), None, 0.0)
    assert list(ends) == []


class NotANumber:
    """Answers no number."""

    def quantile_s(self, frac: float) -> float:
        return nan


class NoNumbers:
    """Predicts no number."""

    def run_times(self, job: JobRecord, at_s: float) -> NotANumber:
        return NotANumber()


def test_what_is_no_number_is_no_prediction() -> None:
    assert guess(NoNumbers(), running(), 0.9, 0.0) is None


def test_a_job_that_has_ended_is_forgotten_with_its_prediction() -> None:
    ends, record = ForeseenEnds(EndsConfig(), FakeRunTimes()), running()
    ends.begin(record, None, 0.0)
    ends.remove(JobId("1"))
    assert (list(ends), list(ends.guessed()), record.guess) == ([], [], None)
