"""What each command prints, word for word, on a wide and on a narrow terminal."""

import pytest
from tests.cli.conftest import Golden, Run

from roostctl.testing import FakeOperator

COMMANDS = {
    "nodes": ["nodes"],
    "node": ["node", "gpu1"],
    "node_without_probe": ["node", "gpu3"],
    "topology": ["topology", "gpu1"],
    "jobs": ["jobs"],
    "jobs_all": ["jobs", "--all"],
    "job": ["job", "4711"],
    "job_not_as_planned": ["job", "4700"],
    "explain_running": ["explain", "4711", "--features"],
    "explain_waiting": ["explain", "4713"],
    "explain_let_go": ["explain", "4714"],
    "explain_fallback": ["explain", "4715"],
    "status": ["status"],
    "timers": ["timers"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_prints_as_recorded_into_a_pipe(
    name: str, cluster: FakeOperator, run: Run, golden: Golden
) -> None:
    result = run(*COMMANDS[name])
    assert result.exit_code == 0, result.output
    golden(f"{name}.txt", result.stdout)


@pytest.mark.parametrize("name", COMMANDS)
def test_prints_as_recorded_on_forty_columns(
    name: str, cluster: FakeOperator, run: Run, golden: Golden
) -> None:
    result = run(*COMMANDS[name], COLUMNS="40")
    assert result.exit_code == 0, result.output
    golden(f"{name}.narrow.txt", result.stdout)


@pytest.mark.parametrize("name", COMMANDS)
def test_prints_json_as_recorded(
    name: str, cluster: FakeOperator, run: Run, golden: Golden
) -> None:
    result = run(*COMMANDS[name], "--json")
    assert result.exit_code == 0, result.output
    golden(f"{name}.json", result.stdout)


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - {"topology"}))
def test_no_line_is_wider_than_the_terminal(name: str, cluster: FakeOperator, run: Run) -> None:
    for width in (40, 80, 132):
        lines = run(*COMMANDS[name], COLUMNS=str(width)).stdout.splitlines()
        assert max(map(len, lines)) <= width


def test_says_so_when_there_is_nothing(run: Run, golden: Golden) -> None:
    golden("nodes_none.txt", run("nodes").stdout)
    golden("jobs_none.txt", run("jobs").stdout)


def test_a_missing_golden_fails_instead_of_being_written(
    request: pytest.FixtureRequest, golden: Golden
) -> None:
    if request.config.getoption("--update-golden"):
        pytest.skip("--update-golden writes what is missing: that is its purpose")
    with pytest.raises(AssertionError, match="no golden file"):
        golden("nobody_wrote_this.txt", "text")
