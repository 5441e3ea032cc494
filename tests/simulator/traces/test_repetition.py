"""Errors of simple predictors, worked by hand."""

from math import log

import numpy as np
import pytest

from roost_sim.traces.repetition import prediction_errors
from roost_sim.traces.trace import Trace, make_trace


def jobs(*rows: tuple[float, float, int, int]) -> Trace:
    """Submission, duration, GPUs, user."""
    submit_s, duration_s, gpus, users = zip(*rows, strict=True)
    return make_trace("made", submit_s, duration_s, gpus, user_id=np.array(users, dtype=np.int32))


def test_the_last_two_jobs_that_have_ended_of_the_user_or_of_all() -> None:
    trace = jobs(
        (0, 100, 1, 0),  # nothing is known: an hour
        (200, 300, 1, 0),  # 100
        (250, 100, 2, 0),  # 100; the job of 300 s still runs
        (600, 200, 1, 0),  # the mean of its last two to end; of the last two of 1 GPU: 100, 300
        (900, 200, 4, 1),  # an unknown user: the last two of all
    )
    by_user = [log(36), log(3), 0.0, log(200 / 200), log(250 / 200)]
    # Ended by 600, in order: 100 (at 100), 100 (at 350), 300 (at 500). By 900 also 200 (at 800).
    found = prediction_errors(trace)
    assert found["mean_of_2_of_user"] == pytest.approx(sum(by_user) / 5)
    same_gpus = [log(36), log(3), 0.0, 0.0, log(250 / 200)]
    assert found["mean_of_2_of_user_and_gpus"] == pytest.approx(sum(same_gpus) / 5)
    # The upper median, by user and GPUs, by user, by GPUs, of all: 300 of (100, 300); 200 of all.
    medians = [log(36), log(3), 0.0, log(300 / 200), 0.0]
    assert found["median_of_20_of_user_and_gpus"] == pytest.approx(sum(medians) / 5)


def test_a_job_that_waited_is_known_later() -> None:
    rows = [(0.0, 100.0, 1, 0), (150.0, 100.0, 1, 0)]
    waited = make_trace(
        "made", [0.0, 150.0], [100.0, 100.0], [1, 1],
        user_id=np.zeros(2, dtype=np.int32), wait_s=[60.0, 0.0],
    )  # fmt: skip
    assert prediction_errors(jobs(*rows))["mean_of_2_of_user"] == pytest.approx(log(36) / 2)
    assert prediction_errors(waited)["mean_of_2_of_user"] == pytest.approx(log(36))


@pytest.mark.parametrize("name", ["mean_of_2_of_user", "median_of_20_of_user_and_gpus"])
def test_repeated_jobs_are_predicted_exactly(name: str) -> None:
    trace = jobs(*((n * 1_000.0, 60.0 * (n % 3 + 1), n % 3 + 1, n % 3) for n in range(3_000)))
    assert prediction_errors(trace)[name] < 0.01
