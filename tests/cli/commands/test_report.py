"""`roostctl report`: from a journal to text, JSON and a page."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.cli.conftest import Golden
from tests.formats.report.past import DAY_S, past_job

from roost_engine.domain.model import NodeName, NodeShare
from roost_formats.journal.journal import Journal
from roostctl.main import cli

NOW_S = 1_800_000_000.0 + 3 * DAY_S
SAME = (NodeShare(NodeName("n1"), (0, 1)),)


@pytest.fixture
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Three days: 40 watched jobs, 20 enforced ones as chosen, 3 left to Slurm."""
    written = Journal.open(tmp_path)
    written.write([past_job(n, 60_001 + n % 4, n % 3) for n in range(40)])
    enforced = {"is_binding": True, "allocated": SAME, "link_score": 400}
    written.write([past_job(n, 60_001 + n % 4, n % 3, **enforced) for n in range(40, 60)])
    written.write([past_job(n, is_binding=None, reason="partition off") for n in range(60, 63)])
    written.write([past_job(70, limit="QOSMaxGRESPerUser", limited_s=4_000.0)])
    written.write([past_job(80, day=-30)])
    written.close()
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    monkeypatch.setattr(time, "time", lambda: NOW_S)
    yield tmp_path
    monkeypatch.undo()
    time.tzset()  # the C library remembers the zone


def run(journal: Path, *args: str, columns: str = "100") -> Result:
    command = ["report", "--journal", str(journal), *args]
    return CliRunner().invoke(cli, command, env={"COLUMNS": columns})


@pytest.mark.parametrize("columns", ["60", "100"])
def test_prints_as_recorded(journal: Path, golden: Golden, columns: str) -> None:
    result = run(journal, columns=columns)
    assert result.exit_code == 0, result.output
    golden(f"report.{columns}.txt", result.stdout)
    assert max(map(len, result.stdout.splitlines())) <= int(columns)


def test_json_has_the_same_figures(journal: Path) -> None:
    document = json.loads(run(journal, "--json", "--last", "7d").stdout)
    assert (document["schema"], document["job_count"]) == ("roost.report/1", 64)
    assert document["watched"]["job_count"] == 41
    assert document["watched"]["planned_gain_frac"]["value"] == 0.95
    assert document["enforced"]["stock_gain_frac"]["value"] == 0.9
    assert document["limits"][0] == {
        "limit": "QOSMaxGRESPerUser",
        "job_count": 1,
        "wait_s": 4_000.0,
    }
    assert [group["name"] for group in document["users"]] != []


def test_the_time_is_that_of_the_ends(journal: Path) -> None:
    assert json.loads(run(journal, "--json", "--last", "5w").stdout)["job_count"] == 65
    assert "has no job of this time" in run(journal, "--last", "1h").stdout
    refused = run(journal, "--last", "soon")
    assert refused.exit_code == 2
    assert "'soon' is not a time; want 12h, 7d or 2w" in refused.stderr


def test_the_page_is_written(journal: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    assert run(journal, "--html", str(page)).exit_code == 0
    assert page.read_text().startswith("<!doctype html>")
    refused = run(journal, "--html", str(tmp_path / "none" / "report.html"))
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "No such file or directory" in refused.stderr


def test_a_journal_that_is_none_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "journal.sqlite").write_text("nothing")
    refused = run(tmp_path)
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "is no journal of roostd" in refused.stderr
    assert len(refused.stderr.splitlines()) == 1


def test_several_journals_are_one_report(journal: Path) -> None:
    twice = run(journal, "--journal", str(journal), "--json")
    assert json.loads(twice.stdout)["job_count"] == 128
