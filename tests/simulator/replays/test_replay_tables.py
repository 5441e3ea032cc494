"""Replays and comparisons as lines of text."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.simulator.journals import WrittenJournal
from tests.simulator.simulated import arrival, cluster

from roost_engine.plugins import Policies
from roost_formats.journal.codec import encode
from roost_formats.journal.journal import Journal
from roost_sim.cli import cli


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["replay", *(str(argument) for argument in arguments)])


def a_busy_day(folder: Path, policies: Policies | None = None) -> Path:
    """Forty jobs on two nodes, more than fit at once."""
    jobs = (arrival(str(n), n * 3.0, 20.0 + 7 * (n % 5), 1 + n % 8) for n in range(40))
    with WrittenJournal(folder, policies=policies) as journal:
        journal.simulate(cluster(2), *jobs, start_delay_s=0.5)
        return journal.path


def rewrite(path: Path, column: str, sequence: int, record: bytes) -> None:
    journal = Journal.open(path.parent)
    journal._db.execute(f"UPDATE entry SET {column} = ? WHERE sequence = ?", (record, sequence))
    journal.close()


def test_the_text_output_has_the_runs_and_the_verdict(tmp_path: Path) -> None:
    result = run(a_busy_day(tmp_path))

    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["run", "roostd", "policy", "events", "actions"]
    # Two nodes, each with its links; of each job that it waits, starts and ends; ticks.
    assert lines[1].split()[:3] == ["1", "0.1.0", "heuristic"]
    assert lines[-1].startswith("1 run, ")
    assert lines[-1].endswith(": every action reproduced")


def test_another_version_is_named_where_the_actions_differ(tmp_path: Path) -> None:
    with WrittenJournal(tmp_path, version="0.0.7") as journal:
        journal.simulate(cluster(1), arrival("1", 0.0, 5.0))
    sequence = 3
    rewrite(journal.path, "actions", sequence, encode(()))
    assert "roostd 0.0.7 wrote this run and this is 0.1.0" in run(journal.path).stdout


@pytest.fixture
def three_jobs(tmp_path: Path) -> Path:
    """Three jobs that need the one node whole, the last the shortest, in order of submission."""
    with WrittenJournal(tmp_path) as journal:
        jobs = (arrival("1", 0.0, 100.0, 8), arrival("2", 10.0, 80.0, 8), arrival("3", 20.0, 40, 8))
        journal.simulate(cluster(1), *jobs)
        return journal.path


def test_the_text_output_has_columns_side_by_side(three_jobs: Path) -> None:
    result = run(three_jobs, "--policy", "sjf")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["recorded", "heuristic,", "simulated", "sjf,", "simulated"]
    rows = {line[:20].strip(): line[20:].split() for line in lines[1:]}
    assert rows["avg_wait_s"] == ["83.3", "83.3", "70.0"]
    assert rows["on the same GPUs"] == ["-", "3", "3"]
    assert all(len(line) <= 100 for line in lines)
