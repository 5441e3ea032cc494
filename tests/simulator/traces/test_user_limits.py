"""Time limits of generated jobs: those that a user would give to all jobs of a name and size."""

import numpy as np
import pytest

from roost_sim.traces.fitted_histories import HELIOS_USERS
from roost_sim.traces.fitted_traces import HELIOS
from roost_sim.traces.histories import generate_history
from roost_sim.traces.trace import Labels, Trace, make_trace
from roost_sim.traces.user_limits import with_user_limits

DAY_S = 86_400.0


@pytest.fixture(scope="module")
def made() -> Trace:
    return with_user_limits(generate_history(HELIOS, HELIOS_USERS, 4_000, 1), 1)


def test_no_job_outlives_its_limit_and_alike_jobs_have_the_same(made: Trace) -> None:
    assert bool((made.time_limit_s >= made.duration_s).all())
    keys = zip(
        made.user_id.tolist(), made.job_name.ids.tolist(), made.gpu_count.tolist(), strict=True
    )
    limits = dict[tuple[int, int, int], set[float]]()
    for key, limit_s in zip(keys, made.time_limit_s.tolist(), strict=True):
        limits.setdefault(key, set()).add(limit_s)
    assert {len(found) for found in limits.values()} == {1}


def test_limits_are_few_and_round_and_some_users_always_take_the_longest(made: Trace) -> None:
    assert len(np.unique(made.time_limit_s)) <= 20
    assert bool((made.time_limit_s % 300.0 == 0.0).all())
    least_s = np.full(int(made.user_id.max()) + 1, np.inf)
    np.minimum.at(least_s, made.user_id, made.time_limit_s)
    is_careless = least_s >= 14 * DAY_S
    assert 0.1 < is_careless.mean() < 0.6


def test_the_seed_decides_and_everything_else_stays(made: Trace) -> None:
    plain = generate_history(HELIOS, HELIOS_USERS, 4_000, 1)
    assert np.array_equal(with_user_limits(plain, 1).time_limit_s, made.time_limit_s)
    assert not np.array_equal(with_user_limits(plain, 2).time_limit_s, made.time_limit_s)
    assert np.array_equal(made.duration_s, plain.duration_s)


def test_a_job_longer_than_every_round_number_gets_whole_days() -> None:
    trace = make_trace(
        "one",
        np.zeros(1),
        np.array([181 * DAY_S + 5.0]),
        np.array([1], dtype=np.int32),
        user_id=np.zeros(1, dtype=np.int32),
        user_names=("a",),
        labels={"job_name": Labels(np.zeros(1, dtype=np.int32), ("x",))},
    )
    limit_s = float(with_user_limits(trace, 0).time_limit_s[0])
    assert limit_s >= 182 * DAY_S
    assert limit_s % DAY_S == 0.0
