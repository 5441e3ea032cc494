from dataclasses import replace

from roost_engine.domain.model import JobSpec
from roost_engine.testing.builders import job
from roost_train.runtimes.run_time_baselines import LastTwo, MedianOfSize


def of(user_id: int, gpus: int = 1) -> JobSpec:
    return replace(job("1", gpus=gpus), user_id=user_id)


def test_last_two_is_the_mean_of_the_users_last_two_jobs() -> None:
    known = LastTwo()
    assert known.predict_s(of(1)) == 3_600.0
    for run_s in (1_000.0, 10.0, 30.0):
        known.add(of(1), run_s)
    known.add(of(2), 500.0)
    assert known.predict_s(of(1)) == 20.0
    assert known.predict_s(of(2)) == 500.0
    assert known.predict_s(of(3)) == 265.0  # the last two of all jobs


def test_median_of_size_is_of_the_users_jobs_of_as_many_gpus() -> None:
    known = MedianOfSize()
    assert known.predict_s(of(1)) == 3_600.0
    for run_s in (10.0, 20.0, 90.0):
        known.add(of(1), run_s)
    known.add(of(2), 30.0)
    known.add(of(1, gpus=8), 5_000.0)
    assert known.predict_s(of(1)) == 20.0
    assert known.predict_s(of(1, gpus=8)) == 5_000.0
    assert known.predict_s(of(3)) == 25.0  # of all users with one GPU
    assert known.predict_s(of(3, gpus=2)) == 3_600.0
