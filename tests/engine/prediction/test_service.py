"""What jobs are expected to need."""

import numpy as np
import pytest

from roost_engine.domain.model import JobId
from roost_engine.job_record import JobRecord, JobState
from roost_engine.prediction.run_time.prediction_skill import PredictionSkill
from roost_engine.prediction.run_time.run_times import BAND_COUNT, RunTimes, band_of
from roost_engine.prediction.service import ServiceIndex, ServiceLeft, expected_s
from roost_engine.testing.builders import job, waiting


def ending_at(*run_times_s: float) -> RunTimes:
    fracs = np.zeros(BAND_COUNT)
    for run_s in run_times_s:
        fracs[band_of(run_s)] += 1.0 / len(run_times_s)
    return RunTimes(fracs)


def test_the_mean_is_that_of_the_distribution() -> None:
    times = ending_at(100.0, 10_000.0)
    assert expected_s(times, ServiceIndex.MEAN) == times.rest_s()


def test_a_job_that_may_end_soon_needs_less_by_gittins_than_by_its_mean() -> None:
    times = ending_at(30.0, 30.0, 30.0, 1_000_000.0)
    assert expected_s(times, ServiceIndex.GITTINS) < 0.01 * times.rest_s()


def test_by_risk_an_open_job_needs_more_than_a_known_one_of_the_same_mean() -> None:
    open_end = ending_at(100.0, 10_000.0)
    known = ending_at(open_end.rest_s())
    risks_s = [expected_s(times, ServiceIndex.RISK) for times in (open_end, known)]
    assert risks_s[0] > 1.3 * risks_s[1]


class Asked:
    """Answers with what it is told, and counts."""

    def __init__(self) -> None:
        self.times, self.count = ending_at(1_000.0), 0

    def __call__(self, record: JobRecord, at_s: float) -> RunTimes:
        self.count += 1
        return self.times


def running(name: str) -> JobRecord:
    return JobRecord(spec=job(name, gpus=4), state=JobState.RUNNING, queued_s=0.0, started_s=0.0)


def test_a_value_stays_while_a_job_waits_whatever_is_learned() -> None:
    asked = Asked()
    left = ServiceLeft(asked, asked)
    first = left.value(waiting(job("1", gpus=4)), 0.0)
    asked.times = ending_at(1_000_000.0)
    assert left.value(waiting(job("1", gpus=4)), 90_000.0) == first
    assert asked.count == 1


def test_a_running_job_is_asked_for_again_after_some_minutes() -> None:
    asked = Asked()
    left = ServiceLeft(asked, asked)
    record = running("1")
    first = left.value(record, 0.0)
    asked.times = ending_at(1_000_000.0)
    assert left.value(record, 300.0) == first
    assert left.value(record, 400.0) > first


@pytest.mark.parametrize("gpus", [1, 8])
def test_a_value_is_in_gpu_seconds(gpus: int) -> None:
    (one,) = ServiceLeft(Asked(), Asked()).value(waiting(job("1", gpus=1)), 0.0)
    (value,) = ServiceLeft(Asked(), Asked()).value(waiting(job("2", gpus=gpus)), 0.0)
    assert value == pytest.approx(gpus * one)


def test_a_job_that_has_ended_is_forgotten() -> None:
    asked = Asked()
    left = ServiceLeft(asked, asked)
    record = waiting(job("1"))
    left.value(record, 0.0)
    left.forget(JobId("1"))
    left.value(record, 0.0)
    assert asked.count == 2


def test_a_reader_sees_the_value_that_decided_and_leaves_no_trace() -> None:
    asked, expected = Asked(), Asked()
    left, record = ServiceLeft(asked, expected), running("1")
    assert left.peek(record, 0.0) == left.value(record, 0.0)
    assert (asked.count, expected.count) == (1, 1)
    asked.times = ending_at(1_000_000.0)
    assert left.peek(record, 400.0) == left.peek(record, 0.0) < left.value(record, 400.0)
    assert expected.count == 1


def test_a_job_that_nothing_is_known_of_has_its_attained_service() -> None:
    asked = Asked()
    left = ServiceLeft(asked, asked, lambda spec: False)
    record = running("1")
    assert [left.value(record, at_s) for at_s in (0.0, 50.0)] == [(0.0,), (200.0,)]
    assert left.peek(record, 100.0) == (400.0,)
    assert asked.count == 0


def test_what_becomes_known_of_a_job_counts_from_its_next_question() -> None:
    asked, known = Asked(), set[str]()
    left = ServiceLeft(asked, asked, lambda spec: spec.job_id in known)
    before = waiting(job("1", gpus=4))
    before.earlier_run_s = 10.0
    record = running("2")
    assert left.value(before, 0.0) == (40.0,)
    assert left.value(record, 10.0) == (40.0,)
    known |= {"1", "2"}
    assert left.value(before, 9_000.0) == (40.0,), "its place in the queue is by that"
    assert left.value(record, 300.0) == (1_200.0,)
    assert left.value(record, 400.0) > (1_200.0,)
    assert left.peek(running("3"), 5.0) == (20.0,)


def test_while_predictions_have_lost_trust_attained_service_is_the_value() -> None:
    skill = PredictionSkill()
    left, record = ServiceLeft(Asked(), Asked(), skill=skill), running("1")
    assert left.value(record, 50.0) == left.peek(record, 50.0) > (1_000.0,)
    for number in range(112):
        skill.expect(JobId(f"r{number}"), -float(number) + 200.0)
        skill.end(JobId(f"r{number}"), float(number))
    assert not left.is_trusted()
    assert left.value(record, 60.0) == left.peek(record, 60.0) == (240.0,)


def test_what_is_expected_of_a_known_user_s_job_before_it_runs_counts_in_the_skill() -> None:
    skill, asked = PredictionSkill(), Asked()
    left = ServiceLeft(asked, asked, skill=skill)
    left.value(waiting(job("1")), 0.0)
    left.value(running("2"), 10.0)
    asked.times = RunTimes(asked.times.ending_fracs, is_of_user=False)
    left.value(waiting(job("3")), 10.0)
    for name in ("1", "2", "3"):
        skill.end(JobId(name), 5.0)
    ((expected_s, run_s),) = skill.state().runs.tolist()
    assert (expected_s, run_s) == (pytest.approx(ending_at(1_000.0).rest_s()), 5.0)


def test_until_a_job_has_had_so_much_its_attained_service_is_its_value() -> None:
    asked = Asked()
    left, record = ServiceLeft(asked, asked, first_gpu_s=400.0), running("1")
    assert left.value(record, 99.0) == left.peek(record, 99.0) == (396.0,)
    assert asked.count == 0
    assert left.value(record, 100.0) == left.peek(record, 100.0) > (3_000.0,)


def test_no_job_that_has_had_more_comes_before_one_that_has_had_less() -> None:
    asked = Asked()
    asked.times = ending_at(1.0)
    left = ServiceLeft(asked, asked, first_gpu_s=400.0)
    assert left.value(running("1"), 150.0) == left.peek(running("2"), 150.0) == (400.0,)


def test_the_values_of_many_are_those_of_each() -> None:
    asked = Asked()
    left = ServiceLeft(asked, asked, lambda spec: spec.job_id != "2", 400.0, fresh_s=1_000.0)
    jobs = [running(name) for name in "123"]
    first = left.values_of_running(jobs, 100.0)
    assert first[1] is None
    assert left.value(jobs[1], 100.0) == (400.0,)
    assert [left.value(jobs[place], 100.0) for place in (0, 2)] == [(first[0],), (first[2],)]
    asked.times = ending_at(1_000_000.0)
    assert left.values_of_running(jobs, 1_099.0) == first
    later = left.values_of_running(jobs, 1_100.0)
    assert all(found is None or found > 1e5 for found in later)
    assert (left.value(jobs[0], 1_100.0), asked.count) == ((later[0],), 4)


def test_the_value_of_many_is_asked_again_when_that_of_each_would_be() -> None:
    asked = Asked()
    left, record = ServiceLeft(asked, asked, fresh_s=1_800.0), running("1")
    left.value(record, 0.1)
    asked.times = ending_at(1_000_000.0)
    at_s = 0.1 + 1_800.0
    assert at_s - 1_800.0 < 0.1  # floats: a difference says that the value is still fresh
    assert left.values_of_running([record], at_s) == [left.value(record, at_s)[0]]
    assert asked.count == 2
