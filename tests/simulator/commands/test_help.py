"""What the program says of itself: help, Tab, and tables that fit a terminal."""

import shutil
import subprocess

import click
import pytest
from click.testing import CliRunner

from roost_sim.catalogue.compositions import POLICIES
from roost_sim.cli import cli
from roost_sim.clusters.presets import PRESET_NAMES


def commands(group: click.Group, *above: str) -> list[tuple[tuple[str, ...], click.Command]]:
    found = []
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            found += commands(command, *above, name)
        else:
            found.append(((*above, name), command))
    return found


COMMANDS = commands(cli)


def complete(line: str) -> list[str]:
    """Ask as bash's script does: the words so far, the last one being completed."""
    result = CliRunner().invoke(
        cli,
        prog_name="roost-sim",
        env={
            "_ROOST_SIM_COMPLETE": "bash_complete",
            "COMP_WORDS": line,
            "COMP_CWORD": str(len(line.split(" ")) - 1),
        },
    )
    assert result.exit_code == 0, result.output
    return [answer.partition(",")[2] for answer in result.stdout.splitlines() if answer]


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


def test_the_program_tells_its_exit_codes() -> None:
    shown = CliRunner().invoke(cli, ["--help"]).stdout
    assert "Exit codes: 0 done" in shown
    assert all(name[0] in shown for name, _ in COMMANDS)


def test_the_list_of_policies_fits_a_hundred_columns() -> None:
    lines = CliRunner().invoke(cli, ["policies"]).stdout.splitlines()
    assert lines[0].split() == ["name", "order", "placement", "gate", "preemption", "regime"]
    assert max(map(len, lines)) <= 100
    assert {line.split()[0] for line in lines if line and line[0] != " "} >= set(POLICIES)


def test_tab_offers_commands_policies_and_presets() -> None:
    assert complete("roost-sim repl") == ["replay"]
    assert {"fifo", "sjf"} <= set(complete("roost-sim run --policy "))
    assert complete("roost-sim run --cluster dgx") == ["dgx-pod", "dgx"]
    assert set(PRESET_NAMES) <= set(complete("roost-sim bound --cluster "))


def test_tab_goes_on_from_part_to_part_and_from_name_to_name() -> None:
    assert "sjf+strict" in complete("roost-sim replay --policy sjf+st")
    assert complete("roost-sim replay --policy sjf+strict+bl") == ["sjf+strict+block"]
    assert complete("roost-sim replay --policy sjf+strict+block+none+") == []
    assert "fifo,sjf" in complete("roost-sim compare --policies fifo,sj")
    assert "fifo,sjf+strict" in complete("roost-sim compare --policies fifo,sjf+stri")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_script_is_one_that_the_shell_takes(shell: str) -> None:
    script = CliRunner().invoke(cli, ["completion", shell]).stdout
    assert "_ROOST_SIM_COMPLETE" in script
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, check=True)
