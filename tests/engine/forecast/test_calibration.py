"""Intervals that hold the starts of late, whatever the plays leave out."""

from math import inf

import numpy as np
import pytest

from roost_engine.domain.model import JobId
from roost_engine.forecast.calibration import Calibration, CalibrationConfig
from roost_engine.forecast.forecast import DAY_S, Forecast, JobForecast, Quantiles

HOUR_S = 3_600.0
SAID = Quantiles(HOUR_S / 2, HOUR_S, 2 * HOUR_S)


def said(at_s: float, *names: str, start: Quantiles = SAID) -> Forecast:
    end = Quantiles(start.low_s + 60.0, start.median_s + 120.0, start.high_s + 180.0)
    jobs = {JobId(name): JobForecast(start, end) for name in names}
    return Forecast(at_s=at_s, play_count=20, jobs=jobs)


def learned(starts_s: list[float], days: int = 20) -> Calibration:
    """Each day a forecast, and a job that starts so many seconds after it."""
    calibration = Calibration()
    for day in range(days):
        at_s = day * DAY_S
        names = [JobId(f"{day}-{number}") for number in range(len(starts_s))]
        calibration.note(said(at_s, *names))
        started_s = dict(zip(names, starts_s, strict=True))
        calibration.settle({name: at_s + by_s for name, by_s in started_s.items()}.get)
    return calibration


def start_of(calibration: Calibration, at_s: float, start: Quantiles = SAID) -> Quantiles:
    found = calibration.correct(said(at_s, "new", start=start)).jobs[JobId("new")].start
    assert found is not None
    return found


def test_before_anything_is_known_a_forecast_stays_about_as_it_is() -> None:
    found = start_of(Calibration(), 0.0)
    assert found.median_s == pytest.approx(HOUR_S, rel=0.01)
    assert found.low_s == pytest.approx(HOUR_S / 2, rel=0.1)
    assert found.high_s == pytest.approx(2 * HOUR_S, rel=0.1)


def test_intervals_that_were_too_narrow_become_wider() -> None:
    starts_s = np.geomspace(HOUR_S / 16, 16 * HOUR_S, 41).tolist()
    found = start_of(learned(starts_s), 20 * DAY_S)
    inside = [found.low_s <= start_s <= found.high_s for start_s in starts_s]
    assert 0.7 < np.mean(inside) < 0.9
    assert found.median_s == pytest.approx(HOUR_S, rel=0.2)


def test_jobs_that_start_sooner_than_said_move_the_forecast() -> None:
    found = start_of(learned([60.0, 120.0, 240.0]), 20 * DAY_S)
    assert found.low_s < 120.0
    assert found.median_s < 600.0


def test_one_bad_day_moves_it_little_however_many_jobs_waited_then() -> None:
    calibration = learned([600.0, HOUR_S, 3 * HOUR_S], days=10)
    before = start_of(calibration, 10 * DAY_S)
    names = [f"bad-{number}" for number in range(100)]
    calibration.note(said(10 * DAY_S, *names))
    calibration.settle(lambda _: 10 * DAY_S + 50 * HOUR_S)
    after = start_of(calibration, 11 * DAY_S)
    assert after.median_s < 2 * before.median_s


def test_jobs_that_still_wait_beyond_their_interval_count_as_late() -> None:
    calibration = Calibration(CalibrationConfig(prior_days=0.5))
    for number in range(20):
        calibration.note(said(number * HOUR_S, f"{number}"))
    calibration.settle(lambda _: inf)
    assert start_of(calibration, 40 * HOUR_S).high_s > 3 * SAID.high_s


def test_jobs_that_wait_since_a_moment_ago_count_for_nothing() -> None:
    calibration = learned([HOUR_S], days=5)
    before = start_of(calibration, 5 * DAY_S)
    calibration.note(said(5 * DAY_S, *map(str, range(50))))
    calibration.settle(lambda _: inf)
    after = start_of(calibration, 5 * DAY_S)
    assert after.high_s == pytest.approx(before.high_s, rel=0.3)


def test_a_job_that_left_without_a_start_tells_nothing() -> None:
    calibration = Calibration()
    calibration.note(said(0.0, "1"))
    calibration.settle(lambda _: None)
    assert calibration.counts() == {}


def test_the_end_moves_with_the_start_and_is_never_before_it() -> None:
    calibration = learned([60.0])
    found = calibration.correct(said(20 * DAY_S, "new")).jobs[JobId("new")]
    assert found.start is not None
    assert found.end.median_s == pytest.approx(found.start.median_s + 120.0)
    assert found.end.low_s >= found.start.low_s


def test_starts_later_than_the_plays_went_stay_so_and_running_jobs_are_left_alone() -> None:
    calibration = learned([60.0])
    open_end = Quantiles(HOUR_S, 2 * HOUR_S, inf)
    assert start_of(calibration, 20 * DAY_S, open_end).high_s == inf
    unknown = Quantiles(HOUR_S, inf, inf)
    assert start_of(calibration, 20 * DAY_S, unknown) == unknown
    calibration.note(said(21 * DAY_S, "unknown", start=unknown))
    assert calibration._open == []
    running = JobForecast(None, SAID)
    alone = Forecast(at_s=0.0, play_count=1, jobs={JobId("r"): running})
    assert calibration.correct(alone).jobs == {JobId("r"): running}


def test_no_correction_starts_a_job_before_its_begin_time() -> None:
    calibration = learned([60.0, 120.0, 240.0])  # all of them sooner than was said
    earliest_s = SAID.low_s
    job = JobForecast(SAID, Quantiles(HOUR_S, 2 * HOUR_S, 3 * HOUR_S), None, earliest_s)
    found = calibration.correct(Forecast(at_s=0.0, play_count=20, jobs={JobId("new"): job}))
    start = found.jobs[JobId("new")].start
    assert start is not None
    assert start.low_s == start.median_s == earliest_s
    assert found.jobs[JobId("new")].earliest_s == earliest_s


def test_what_was_learned_survives_as_plain_data_and_damage_is_dropped() -> None:
    calibration = learned([60.0, HOUR_S])
    counts = calibration.counts()
    again = Calibration(known={**counts, 99: (1, 2), 98: (-1,) * len(counts[0])})
    assert again.counts() == counts
    assert start_of(again, 20 * DAY_S) == start_of(calibration, 20 * DAY_S)


def test_forecasts_that_follow_soon_are_not_kept() -> None:
    calibration = Calibration()
    for at_s in (0.0, 1.0, 599.0, 600.0):
        calibration.note(said(at_s, "1"))
    assert [each.at_s for each in calibration._open] == [0.0, 600.0]


def test_memory_is_bounded() -> None:
    config = CalibrationConfig(most_jobs=10, most_open=25, most_days=3)
    calibration = Calibration(config)
    for hour in range(4):
        calibration.note(said(hour * HOUR_S, *(f"{hour}-{number}" for number in range(100))))
    assert len(calibration._open) == 20
    for day in range(9):
        calibration._open.clear()
        calibration.note(said((day + 1) * DAY_S, f"{day}"))
        calibration.settle({JobId(f"{day}"): (day + 1) * DAY_S + 60.0}.get)
    assert list(calibration.counts()) == [7, 8, 9]


def test_a_clock_that_was_set_back_does_not_stop_the_learning() -> None:
    calibration = Calibration()
    calibration.note(said(100 * DAY_S, "1"))
    calibration.note(said(0.0, "2"))
    assert len(calibration._open) == 2
    assert start_of(calibration, 0.0).median_s > 0.0
