"""Runs `roost-sim` in the test's process, and reads what it prints."""

import json

from click.testing import CliRunner, Result

from roost_sim.cli import cli


def run(*arguments: object) -> Result:
    """Run `roost-sim` with these arguments."""
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


def document(result: Result) -> dict[str, object]:
    """Read the JSON object that a command printed."""
    assert result.exit_code == 0, result.output
    parsed = json.loads(result.stdout)
    assert isinstance(parsed, dict)
    return parsed
