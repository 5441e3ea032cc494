"""What the program says of itself: help, Tab, and tables that fit a terminal."""

import click
import pytest
from click.testing import CliRunner

from roost_sim.cli import cli


def commands(group: click.Group, *above: str) -> list[tuple[tuple[str, ...], click.Command]]:
    found = []
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            found += commands(command, *above, name)
        else:
            found.append(((*above, name), command))
    return found


COMMANDS = commands(cli)


@pytest.mark.parametrize(("path", "command"), COMMANDS, ids=lambda value: str(value))
def test_every_command_shows_an_example_that_names_it(
    path: tuple[str, ...], command: click.Command
) -> None:
    assert command.epilog is not None
    assert "Example" in command.epilog
    assert f"roost-sim {' '.join(path)}" in command.epilog


@pytest.mark.parametrize(("path", "command"), COMMANDS, ids=lambda value: str(value))
def test_every_option_says_what_it_is_for(path: tuple[str, ...], command: click.Command) -> None:
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, (path, parameter.name)
            assert parameter.help.endswith((".", "]")), (path, parameter.name)


def test_the_help_lists_the_exit_codes() -> None:
    shown = CliRunner().invoke(cli, ["--help"]).stdout
    assert "Exit codes: 0 done" in shown
    assert all(name[0] in shown for name, _ in COMMANDS)


@pytest.mark.parametrize("group", [(), ("trace",)], ids=str)
def test_lists_of_commands_are_not_cut_off(group: tuple[str, ...]) -> None:
    shown = CliRunner().invoke(cli, [*group, "--help"]).stdout.partition("Commands:")[2]
    assert "..." not in shown


@pytest.mark.parametrize(
    ("command", "option"),
    [
        ("run", "limit"),
        ("run", "load"),
        ("run", "contention"),
        ("run", "neighbours"),
        ("run", "links"),
        ("run", "restart"),
        ("run", "durations"),
        ("compare", "window_jobs"),
        ("compare", "sample_jobs"),
    ],
)
def test_what_holds_without_an_option_is_said(command: str, option: str) -> None:
    (found,) = [each for each in cli.commands[command].params if each.name == option]
    assert isinstance(found, click.Option)
    assert found.help is not None
    assert "[default: " in found.help
