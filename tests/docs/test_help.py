"""What the programs that use argparse say of themselves: meaning, default, example, exit codes."""

import argparse
from collections.abc import Iterator

import pytest

from roost_probe import cli as roost_probe
from roost_probe import progress as roost_progress
from roost_slurm import cli as roost_slurm
from roost_train import cli as roost_train
from roostd import cli as roostd

Parser = argparse.ArgumentParser
PROGRAMS = [
    program._parser() for program in (roostd, roost_probe, roost_progress, roost_slurm, roost_train)
]


def commands(parser: Parser) -> Iterator[Parser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from commands(command)
            return
    yield parser


COMMANDS = [command for program in PROGRAMS for command in commands(program)]
OPTIONS = [
    (command, option)
    for parsers in (PROGRAMS, COMMANDS)
    for command in parsers
    for option in command._actions
    if option.help is not argparse.SUPPRESS and not isinstance(option, argparse._SubParsersAction)
]


def test_every_program_is_read() -> None:
    assert len(COMMANDS) > 20
    assert len(OPTIONS) > 100


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.prog)
def test_every_program_lists_its_exit_codes(program: Parser) -> None:
    assert "Exit codes: 0" in " ".join(program.format_help().split())


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.prog)
def test_every_command_has_an_example_that_names_it(command: Parser) -> None:
    assert command.description
    assert f"{command.prog} " in (command.epilog or "")


def test_every_option_says_what_it_is_for_and_its_default() -> None:
    wrong = []
    for command, option in OPTIONS:
        has_value = option.default not in (None, False, [], "") and option.option_strings
        if not option.help or (has_value and "default" not in option.help):
            wrong.append((command.prog, option.dest, option.help))
    # argparse's own --help and --version have a default that means nothing.
    assert [line for line in wrong if line[1] not in ("help", "version")] == []
