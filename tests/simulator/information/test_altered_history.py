"""A history of run times that is wrong, old, or of another site."""

import numpy as np
import pytest

from roost_engine.prediction.run_time.history import RunTimeHistory
from roost_engine.prediction.run_time.run_times import BAND_COUNT
from roost_engine.testing.builders import job
from roost_sim.information.altered_history import AlteredHistory, moved
from roost_sim.worlds.prediction_spec import OtherSite, PredictionSpec


@pytest.mark.parametrize("band_count", [-100.0, -1.5, 0.0, 0.25, 3.0, 100.0])
def test_moving_keeps_the_sum(band_count: float) -> None:
    fracs = np.arange(BAND_COUNT) / np.arange(BAND_COUNT).sum()
    found = moved(fracs, band_count)
    assert found.sum() == pytest.approx(1.0)
    assert (found >= 0).all()


def test_a_part_of_a_band_is_divided_between_two() -> None:
    fracs = np.zeros(BAND_COUNT)
    fracs[0] = 1.0
    np.testing.assert_array_equal(moved(fracs, 1.25)[:4], [0.0, 0.75, 0.25, 0.0])


def test_moving_by_nothing_changes_nothing() -> None:
    fracs = np.full(BAND_COUNT, 1.0 / BAND_COUNT)
    np.testing.assert_array_equal(moved(fracs, 0.0), fracs)


def learned(history: RunTimeHistory) -> RunTimeHistory:
    for number in range(50):
        history.add(job(f"9{number}"), 1_000.0, 0.0)
    return history


def test_a_job_keeps_its_factor_and_others_have_another() -> None:
    history = learned(AlteredHistory(PredictionSpec(sigma=1.0), seed=3))
    rests_s = [history.times(job(name), 0.0, at_s).rest_s() for name, at_s in (("1", 0.0),) * 2]
    assert rests_s[0] == rests_s[1]
    assert history.times(job("2"), 0.0, 0.0).rest_s() != rests_s[0]


def test_factors_have_the_spread_that_was_asked_for() -> None:
    true_s = learned(RunTimeHistory()).times(job("1"), 0.0, 0.0).quantile_s(0.5)
    history = learned(AlteredHistory(PredictionSpec(sigma=1.0), seed=3))
    logs = [
        np.log(history.times(job(str(number)), 0.0, 0.0).quantile_s(0.5) / true_s)
        for number in range(400)
    ]
    assert np.std(logs) == pytest.approx(1.0, abs=0.15)
    assert np.mean(logs) == pytest.approx(0.0, abs=0.2)


def taught(history: RunTimeHistory, until_s: float, run_s: float = 50_000.0) -> RunTimeHistory:
    """A user's jobs: one begins each 1,000 s, and some have ended by then."""
    for at_s in np.arange(0.0, until_s + 1.0, 1_000.0).tolist():
        if at_s >= run_s:
            history.add(job(f"{at_s - run_s:g}", user_id=7), run_s, at_s)
        history.begin(job(f"{at_s:g}", user_id=7), 0.0, 1.0, at_s)
        if at_s % 7_000.0 == 0.0:
            history.pause(job(f"{at_s:g}").job_id, 10.0, at_s)
    return history


def test_without_alterations_it_is_the_history_itself() -> None:
    plain, altered = RunTimeHistory(), AlteredHistory(PredictionSpec(), seed=0)
    for history in (plain, altered):
        taught(history, 70_000.0)
    one, other = (each.times(job("x", user_id=7), 5.0, 8e4) for each in (plain, altered))
    np.testing.assert_array_equal(one.ending_fracs, other.ending_fracs)
    assert plain.state() == altered.state()


@pytest.mark.parametrize("stale_s", [0.0, 500.0, 1_000.0, 20_000.0, 1e6])
def test_a_stale_history_answers_as_it_would_have_then(stale_s: float) -> None:
    stale = taught(AlteredHistory(PredictionSpec(stale_s=stale_s), seed=0), 70_000.0)
    then = taught(RunTimeHistory(), 70_500.0 - stale_s)
    asked = job("x", user_id=7)
    np.testing.assert_array_equal(
        stale.times(asked, 0.0, 70_500.0).ending_fracs,
        then.times(asked, 0.0, 70_500.0 - stale_s).ending_fracs,
    )
    for one, other in zip(
        stale.known_kinds(asked, 70_500.0), then.known_kinds(asked, 70_500.0 - stale_s), strict=True
    ):
        np.testing.assert_array_equal(one.hazards, other.hazards)


def test_the_history_of_another_site_learns_nothing_and_grows_old() -> None:
    site = OtherSite(trace="x", history=taught(RunTimeHistory(), 90_000.0).state())
    asked = job("x", user_id=7)
    fresh = AlteredHistory(PredictionSpec(other_site=site), seed=0)
    before = fresh.times(asked, 0.0, 0.0)
    assert before.quantile_s(0.5) > 40_000.0
    assert before.is_of_user
    taught(fresh, 100_000.0, run_s=1_000.0)
    fresh.restore(RunTimeHistory().state())
    after = fresh.times(asked, 0.0, 0.0)
    np.testing.assert_array_equal(before.ending_fracs, after.ending_fracs)

    old = AlteredHistory(PredictionSpec(other_site=site, stale_s=365 * 86_400.0), seed=0)
    assert old.times(asked, 0.0, 0.0).job_count < 0.01 * before.job_count
