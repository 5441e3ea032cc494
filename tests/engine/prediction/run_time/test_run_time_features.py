"""run_time_features: the columns of a job, by name."""

from dataclasses import replace
from math import inf, log, log1p

import numpy as np
import pytest
from tests.engine.prediction.run_time.test_history import DAY_S, HOUR_S, NAMES, after, of

from roost_engine.domain.model import JobSpec
from roost_engine.prediction.run_time.history import RunTimeHistory
from roost_engine.prediction.run_time.run_time_features import COLUMNS, RunTimeFeatures


def columns(
    history: RunTimeHistory, job: JobSpec, at_s: float = 0.0, zero_epoch_s: float | None = None
) -> dict[str, float]:
    row = RunTimeFeatures(history, zero_epoch_s).of(job, at_s)
    assert row.dtype == np.float32
    return dict(zip(COLUMNS, row.tolist(), strict=True))


def test_every_column_has_its_own_name() -> None:
    assert len(set(COLUMNS)) == len(COLUMNS)


def test_the_history_is_in_the_first_columns() -> None:
    history = after(*[(of(), 600.0)] * 4)
    found = columns(history, of())
    fracs = np.exp([found[f"ln_frac_{band}"] for band in range(33)])
    assert fracs == pytest.approx(history.times(of(), 0.0, 0.0).ending_fracs, abs=2e-6)


def test_what_is_known_of_the_user_and_of_the_last_jobs() -> None:
    history = after((of(name="a"), 60.0), (of(name="a"), 300.0), (of(name="b"), 0.5))
    found = columns(history, of(name="a"))
    assert found["known_user"] > found["known_name"] > 0
    assert found["last_name"] == pytest.approx(log(300.0))
    assert found["before_name"] == pytest.approx(log(60.0))
    assert found["last_user"] == 0.0  # half a second counts as one
    new = columns(history, of(user_id=9, name="a"))
    assert (new["known_user"], new["last_user"], new["before_own"]) == (0.0, -1.0, -1.0)


def test_a_level_that_a_job_lacks_is_unknown() -> None:
    history = after(*[(replace(of(name="a"), account="x", qos="q"), DAY_S)] * 9)
    found = columns(history, of(name=""))
    assert found["known_name"] == 0.0
    assert found["p50_account"] == found["p50_gpus"] > log(6 * HOUR_S)


def test_the_request_is_in_logarithms() -> None:
    found = columns(RunTimeHistory(), of(gpus=8, limit_s=HOUR_S))
    assert found["gpus"] == pytest.approx(log(8))
    assert found["nodes"] == 0.0
    assert found["has_limit"] == 1.0
    assert found["limit"] == pytest.approx(log(HOUR_S))
    for limit_s in (None, 0.0, inf):
        unlimited = columns(RunTimeHistory(), of(limit_s=limit_s))
        assert (unlimited["has_limit"], unlimited["limit"]) == (0.0, 0.0)


def test_the_users_running_jobs_are_counted_with_their_ages() -> None:
    history = after((of(user_id=2), 60.0))
    history.begin(of(job_id="r1"), 100.0, 1.0, 0.0)
    history.begin(of(job_id="r2"), 0.0, 0.5, 0.0)
    history.begin(of(user_id=2, job_id="r3"), 0.0, 1.0, 0.0)
    found = columns(history, of(), at_s=200.0)
    assert found["running"] == pytest.approx(log1p(2))
    assert found["oldest"] == pytest.approx(log1p(300.0))
    assert found["youngest"] == pytest.approx(log1p(100.0))
    restored = RunTimeHistory()
    restored.restore(history.state())
    assert columns(restored, of(), at_s=200.0) == pytest.approx(found, rel=1e-5, abs=1e-5)
    history.forget(of(job_id="r1").job_id)
    history.add(of(job_id="r2"), 100.0, 200.0)
    assert columns(history, of(), at_s=200.0)["running"] == 0.0


def test_hour_and_weekday_follow_the_wall_clock() -> None:
    noon = columns(RunTimeHistory(), of(), at_s=12 * HOUR_S, zero_epoch_s=0.0)
    assert (noon["hour_sin"], noon["hour_cos"]) == pytest.approx((0.0, -1.0), abs=1e-6)
    week_later = columns(RunTimeHistory(), of(), at_s=7.5 * DAY_S, zero_epoch_s=0.0)
    assert week_later["weekday_sin"] == pytest.approx(noon["weekday_sin"], abs=1e-6)
    unknown = columns(RunTimeHistory(), of(), at_s=12 * HOUR_S)
    assert unknown["hour_cos"] == unknown["weekday_cos"] == 0.0


@pytest.mark.parametrize("name", NAMES)
def test_every_column_is_finite_whatever_the_name(name: str) -> None:
    found = columns(after((of(name=name), 5.0)), of(name=name))
    assert np.isfinite(list(found.values())).all()
    length = sum(found[f"name_{number}"] ** 2 for number in range(16))
    assert length == pytest.approx(1.0 if name else 0.0, abs=1e-5)


def test_like_names_have_like_columns() -> None:
    def hashed(name: str) -> list[float]:
        found = columns(RunTimeHistory(), of(name=name))
        return [found[f"name_{number}"] for number in range(16)]

    assert hashed("train-7") == hashed("train-8")
    near, far = (
        np.dot(hashed("train-bert"), hashed("train-gpt")),
        np.dot(hashed("train-bert"), hashed("qq")),
    )
    assert near > 0.3 > abs(far)
