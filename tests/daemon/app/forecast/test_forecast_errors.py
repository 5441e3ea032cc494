"""How wrong forecasts were: learned from the engine's starts, kept over restarts."""

import json
from pathlib import Path

import pytest
from tests.daemon.app.parts import Parts

from roost_engine.domain.events import JobEnded, JobQueued, JobStarted
from roost_engine.domain.model import JobId
from roost_engine.forecast.forecast import DAY_S, Forecast, JobForecast, Quantiles
from roost_engine.testing.builders import job, share
from roostd.app.forecast.forecast_errors import ForecastErrors

HOUR_S = 3_600.0
SAID = Quantiles(HOUR_S / 2, HOUR_S, 2 * HOUR_S)


def forecast(at_s: float, *names: str) -> Forecast:
    said = JobForecast(SAID, Quantiles(HOUR_S, 2 * HOUR_S, 3 * HOUR_S))
    return Forecast(at_s=at_s, play_count=20, jobs={JobId(name): said for name in names})


def median_s(errors: ForecastErrors, at_s: float) -> float:
    start = errors.corrected(forecast(at_s, "another")).jobs[JobId("another")].start
    assert start is not None
    return start.median_s


def one_a_day(parts: Parts, errors: ForecastErrors, days: int = 10) -> None:
    """Each day a job comes on the only node, is said to start in an hour, and does in a minute."""
    engine = parts.state.engine
    for day in range(1, days + 1):
        at_s, name = day * DAY_S, JobId(f"{day}")
        engine.step(JobQueued(at_s=at_s, job=job(name, gpus=8)))
        parts.clock.at_s = at_s
        errors.corrected(forecast(at_s, name))
        engine.step(JobStarted(at_s=at_s + 60.0, job_id=name, shares=(share("n1", *range(8)),)))
        engine.step(JobEnded(at_s=at_s + 90.0, job_id=name))


def test_jobs_that_start_sooner_than_said_bring_later_forecasts_forward(tmp_path: Path) -> None:
    parts = Parts("n1")
    errors = ForecastErrors(parts.state, tmp_path / "forecasts.json")
    before_s = median_s(errors, 100.0)
    one_a_day(parts, errors)
    assert before_s == pytest.approx(HOUR_S, rel=0.01)
    assert median_s(errors, 11 * DAY_S) < HOUR_S / 4


def test_what_was_learned_survives_a_restart(tmp_path: Path) -> None:
    path, parts = tmp_path / "forecasts.json", Parts("n1")
    errors = ForecastErrors(parts.state, path)
    one_a_day(parts, errors)
    errors.corrected(forecast(11 * DAY_S))
    errors.store()
    again = ForecastErrors(parts.state, path)
    assert median_s(again, 11 * DAY_S) == pytest.approx(median_s(errors, 11 * DAY_S))
    path.unlink()
    again.store()
    assert not path.exists()  # nothing new


def test_days_that_have_not_come_yet_are_dropped(tmp_path: Path) -> None:
    path, parts = tmp_path / "forecasts.json", Parts("n1")
    errors = ForecastErrors(parts.state, path)
    one_a_day(parts, errors)
    errors.corrected(forecast(11 * DAY_S))
    errors.store()
    parts.clock.at_s = 100.0  # the journal was lost, or the clock set back
    assert median_s(ForecastErrors(parts.state, path), 100.0) == pytest.approx(HOUR_S, rel=0.01)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"version": 2, "days": {}}',
        '{"version": 1, "days": {"soon": [1]}}',
        '{"version": 1, "days": {"3": "many"}}',
        '{"version": 1, "days": {"3": 7}}',
        '{"version": 1, "days": {"3": [1, null]}}',
        '{"version": 1, "days": {"0": [Infinity]}}',
        '{"version": 1, "days": {"TODAY": [' + ", ".join(["1" + 400 * "0"] * 64) + "]}}",
        '{"version": 1, "days": {"-1' + 400 * "0" + '": [' + ", ".join(["1"] * 64) + "]}}",
        "[" * 100_000,
    ],
)
def test_a_damaged_file_is_left_behind(tmp_path: Path, text: str) -> None:
    path = tmp_path / "forecasts.json"
    state = Parts("n1").state
    today = int(state.clock.to_epoch_s(0.0) // DAY_S)
    path.write_text(text.replace("TODAY", str(today)), encoding="utf-8")
    errors = ForecastErrors(state, path)
    assert median_s(errors, 100.0) == pytest.approx(HOUR_S, rel=0.01)


def test_a_folder_that_cannot_be_written_costs_no_forecast(tmp_path: Path) -> None:
    parts = Parts("n1")
    errors = ForecastErrors(parts.state, tmp_path / "missing" / "forecasts.json")
    one_a_day(parts, errors, days=2)
    errors.corrected(forecast(3 * DAY_S))
    errors.store()
    assert median_s(errors, 3 * DAY_S) < HOUR_S


def test_it_is_stored_once_a_minute_while_it_learns(tmp_path: Path) -> None:
    path, parts = tmp_path / "forecasts.json", Parts("n1")
    errors = ForecastErrors(parts.state, path)
    one_a_day(parts, errors, days=1)
    parts.clock.at_s += 120.0
    errors.corrected(forecast(parts.clock.at_s))
    assert sum(sum(day) for day in json.loads(path.read_text())["days"].values()) == 1
