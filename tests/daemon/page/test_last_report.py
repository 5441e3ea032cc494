"""The page's report: read once for all browsers, by another process, and a fault is told."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.daemon.page.past import write_past

from roostd.page import last_report
from roostd.page.last_report import LastReport


class Later:
    """Keeps the work until it is done by hand."""

    def __init__(self) -> None:
        self.work = list[Callable[[], None]]()

    def __call__(self, work: Callable[[], None]) -> None:
        self.work.append(work)

    def do(self) -> None:
        self.work.pop()()


def told(report: LastReport) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(report.json())
    assert found["schema"] == "roost.page-report/1"
    return found


def test_it_is_read_once_while_browsers_ask_and_then_kept(tmp_path: Path) -> None:
    write_past(tmp_path)
    later = Later()
    report = LastReport(tmp_path, later)
    for _ in range(3):
        assert told(report) == {
            "schema": "roost.page-report/1",
            "is_reading": True,
            "fault": "",
            "age_s": None,
            "report": None,
        }
    assert len(later.work) == 1
    later.do()
    found = told(report)
    assert (found["is_reading"], found["fault"]) == (False, "")
    assert found["report"]["schema"] == "roost.report/1"
    assert found["report"]["job_count"] == 40
    assert found["report"]["watched"]["planned_gain_frac"]["value"] == 0.95
    assert not later.work


def test_an_old_one_is_shown_while_the_next_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_past(tmp_path)
    later = Later()
    report = LastReport(tmp_path, later)
    told(report)
    later.do()
    monkeypatch.setattr(last_report, "KEPT_S", 0.0)
    found = told(report)
    assert found["is_reading"]
    assert found["report"]["job_count"] == 40
    (tmp_path / "journal.sqlite").write_bytes(b"nothing")
    later.do()
    monkeypatch.setattr(last_report, "KEPT_S", 900.0)
    found = told(report)
    assert "is no journal of roostd" in found["fault"]
    assert found["report"]["job_count"] == 40


def test_a_journal_that_takes_too_long_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(last_report, "LIMIT_S", 0.001)
    later = Later()
    report = LastReport(tmp_path, later)
    told(report)
    later.do()
    found = told(report)
    assert found["fault"].startswith("the journal was not read in ")
    assert (found["is_reading"], found["report"], found["age_s"]) == (False, None, None)
