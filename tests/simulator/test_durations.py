import numpy as np

from roost_sim.traces.durations import limits_s, predicted_s
from roost_sim.traces.trace import Trace, make_trace


def jobs(*rows: tuple[float, float, int, int]) -> Trace:
    """Rows of submission, duration, GPUs, user."""
    submit_s, duration_s, gpus, users = zip(*rows, strict=True)
    return make_trace(
        "jobs", submit_s, duration_s, gpus,
        user_id=np.array(users, dtype=np.int32), user_names=("ann", "bob"),
    )  # fmt: skip


def test_only_jobs_that_had_ended_count() -> None:
    trace = jobs((0, 100, 1, 0), (50, 10, 1, 0), (100, 7, 1, 0))
    # At 50 nothing has ended; at 100 the first (100 s) and the second (10 s): the upper of two.
    assert predicted_s(trace).tolist() == [3600, 3600, 100]


def test_the_most_alike_jobs_count() -> None:
    trace = jobs((0, 10, 1, 0), (0, 20, 2, 1), (0, 30, 1, 1), (99, 1, 1, 0), (99, 1, 2, 0))
    found = predicted_s(trace).tolist()
    assert found[3] == 10  # ann's own of one GPU
    assert found[4] == 20  # she has none of two; bob has


def test_any_job_is_better_than_none() -> None:
    assert predicted_s(jobs((0, 10, 1, 0), (50, 1, 8, 1))).tolist()[1] == 10


def test_old_jobs_are_forgotten() -> None:
    rows = [(float(n), 1.0, 1, 0) for n in range(50)] + [(100.0 + n, 9.0, 1, 0) for n in range(60)]
    assert predicted_s(jobs(*rows, (900, 1, 1, 0))).tolist()[-1] == 9


def test_limits_are_whole_hours_2_to_10_times_too_long() -> None:
    trace = jobs(*((float(n), 5000.0, 1, 0) for n in range(200)))
    found = limits_s(trace, seed=1)
    assert set(np.mod(found, 3600).tolist()) == {0.0}
    assert found.min() >= 2 * 5000
    assert found.max() <= 10 * 5000 + 3600
    assert not np.array_equal(found, limits_s(trace, seed=2))
