"""Which forecasts are written into admin comments, how often, and in which words."""

import re
from math import inf
from typing import Any

import pytest
from tests.daemon.app.parts import Parts

from roost_engine.domain.events import JobQueued, JobStarted
from roost_engine.domain.model import JobId
from roost_engine.forecast.forecast import Forecast, JobForecast, Quantiles
from roost_engine.testing.builders import job, share
from roostd.app.forecast.eta_comments import EtaComments

SPAN = r"\d{4}-\d\d-\d\dT\d\d:\d\d"


class Site:
    """A full node, jobs that wait for it, and the comments that were written."""

    def __init__(self, *names: str, mode: str = "enforce", **eta: Any) -> None:
        self.parts = Parts("n1", mode=mode, eta={"admin_comment": True, **eta})
        for name in ("run", *names):
            spec = job(name, gpus=8, submit_s=100.0)
            self.parts.state.engine.step(JobQueued(at_s=100.0, job=spec))
        shares = (share("n1", *range(8)),)
        self.parts.state.engine.step(JobStarted(at_s=100.0, job_id=JobId("run"), shares=shares))
        self.written = list[tuple[str, str]]()
        self.comments = EtaComments(self.parts.state, lambda *what: self.written.append(what))

    def forecast(self, at_s: float, **median_s: float) -> list[str]:
        """Make a forecast for jobs; returns the jobs whose comments are written then."""
        self.written.clear()
        self.parts.clock.at_s = at_s
        jobs = {JobId("run"): JobForecast(None, Quantiles(1.0, 2.0, 3.0))} | {
            JobId(name.removeprefix("j")): JobForecast(
                Quantiles(middle_s / 2, middle_s, middle_s * 2),
                Quantiles(middle_s, middle_s * 2, inf),
            )
            for name, middle_s in median_s.items()
        }
        self.comments.update(Forecast(at_s=at_s, play_count=20, jobs=jobs))
        return [name for name, _ in self.written]


def test_waiting_jobs_are_told_start_and_end_with_their_intervals() -> None:
    site = Site("1", "2")
    assert site.forecast(110.0, j1=600.0, j2=7_200.0) == ["1", "2"]
    text = site.written[0][1]
    assert re.fullmatch(rf"start {SPAN} \({SPAN} to {SPAN}\), end {SPAN} \({SPAN} to later\)", text)


def test_a_comment_is_written_again_only_when_the_forecast_has_moved() -> None:
    site = Site("1")
    site.forecast(110.0, j1=1_000.0)
    assert site.forecast(140.0, j1=970.0) == []  # the same moment
    assert site.forecast(140.0, j1=1_200.0) == []  # by less than a quarter
    assert site.forecast(140.0, j1=1_300.0) == ["1"]
    assert site.forecast(170.0, j1=inf) == ["1"]
    assert site.forecast(200.0, j1=inf) == []
    assert site.forecast(230.0, j1=50.0) == ["1"]
    assert site.forecast(230.0, j1=100.0) == []  # by less than a minute


def test_no_more_comments_are_written_in_a_minute_than_allowed_the_soonest_first() -> None:
    names = [f"{number}" for number in range(1, 9)]
    site = Site(*names, comments_per_minute=2)
    starts = {f"j{name}": 1e4 * int(name) for name in names}
    assert site.forecast(110.0, **starts) == ["1", "2"]
    assert site.forecast(125.0, **starts) == []
    assert site.forecast(140.0, **starts) == ["3"]
    assert site.forecast(500.0, **starts) == ["4", "5"]


@pytest.mark.parametrize(
    ("mode", "written"), [("off", []), ("shadow", []), ("advise", ["1"]), ("enforce", ["1"])]
)
def test_only_modes_that_write_into_slurm_write_comments(mode: str, written: list[str]) -> None:
    assert Site("1", mode=mode).forecast(110.0, j1=600.0) == written


def test_tasks_of_an_array_and_jobs_that_roost_does_not_know_have_none() -> None:
    site = Site("7_1")
    assert site.forecast(110.0, j7_1=600.0, j99=600.0) == []


def test_nothing_is_written_when_it_is_off() -> None:
    site = Site("1", admin_comment=False)
    assert site.forecast(110.0, j1=600.0) == []
