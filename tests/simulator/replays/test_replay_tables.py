"""Replays and comparisons as lines of text."""

from pathlib import Path

from click.testing import CliRunner, Result
from tests.simulator.journals import WrittenJournal, a_busy_day, rewrite
from tests.simulator.simulated import arrival, cluster

from roost_formats.journal.codec import encode
from roost_sim.cli import cli


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["replay", *(str(argument) for argument in arguments)])


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


def test_the_text_output_has_columns_side_by_side(three_jobs: Path) -> None:
    result = run(three_jobs, "--policy", "sjf")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["recorded", "heuristic,", "simulated", "sjf,", "simulated"]
    rows = {line[:20].strip(): line[20:].split() for line in lines[1:]}
    assert rows["avg_wait_s"] == ["83.3", "83.3", "70.0"]
    assert rows["on the same GPUs"] == ["-", "3", "3"]
    assert all(len(line) <= 100 for line in lines)
