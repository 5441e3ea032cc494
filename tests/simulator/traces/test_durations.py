from dataclasses import replace

import numpy as np

from roost_sim.traces.durations import limits_s
from roost_sim.traces.trace import Trace, make_trace


def jobs(*rows: tuple[float, float, int, int]) -> Trace:
    """Rows of submission, duration, GPUs, user."""
    submit_s, duration_s, gpus, users = zip(*rows, strict=True)
    return make_trace(
        "jobs", submit_s, duration_s, gpus,
        user_id=np.array(users, dtype=np.int32), user_names=("ann", "bob"),
    )  # fmt: skip


def test_limits_are_whole_hours_2_to_10_times_the_run_time() -> None:
    trace = jobs(*((float(n), 5000.0, 1, 0) for n in range(200)))
    found = limits_s(trace, seed=1)
    assert set(np.mod(found, 3600).tolist()) == {0.0}
    assert found.min() >= 2 * 5000
    assert found.max() <= 10 * 5000 + 3600
    assert not np.array_equal(found, limits_s(trace, seed=2))


def test_limits_of_the_trace_are_kept_and_missing_ones_drawn() -> None:
    trace = jobs(*((float(n), 5000.0, 1, 0) for n in range(4)))
    own = replace(trace, time_limit_s=np.array([7_000.0, np.nan, np.inf, 60.0]))
    found, drawn = limits_s(own, seed=1).tolist(), limits_s(trace, seed=1).tolist()
    assert found == [7_000.0, drawn[1], drawn[2], 5_000.0]
