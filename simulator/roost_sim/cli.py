"""The program `roost-sim`, and its exit codes."""

import contextlib
import os
import sys
from typing import Any

import click

from roost_sim.commands.bound import bound
from roost_sim.commands.compare import compare
from roost_sim.commands.completion import completion
from roost_sim.commands.policies import policies
from roost_sim.commands.profiles import profiles
from roost_sim.commands.replay import replay
from roost_sim.commands.run import run
from roost_sim.commands.trace import trace
from roost_sim.commands.tune import tune
from roost_sim.errors import SimError
from roost_sim.exit_codes import EXIT_INTERRUPTED, EXIT_REFUSED


class _ExitCodeGroup(click.Group):
    """Turns errors into one line on stderr and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except SimError as error:
            click.echo(f"roost-sim: {error}", err=True)
            ctx.exit(EXIT_REFUSED)
        except KeyboardInterrupt:
            ctx.exit(EXIT_INTERRUPTED)

    def main(self, *args: Any, **options: Any) -> Any:
        try:
            return super().main(*args, **options)
        except OSError as error:  # of a command, or of --help; click ends where a reader has left
            click.echo(f"roost-sim: {_where(error)}{error.strerror or error}", err=True)
            if error.filename is None:
                _drop_output()
            sys.exit(EXIT_REFUSED)


def _where(error: OSError) -> str:
    """The file that could not be read or written; "" for stdout on a full disk."""
    return "" if error.filename is None else f"{error.filename}: "


def _drop_output() -> None:
    """Send what is left in the buffer nowhere, or Python since 3.13.5 fails on it at the end."""
    with contextlib.suppress(OSError, ValueError), open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


@click.group(
    cls=_ExitCodeGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 done, 1 done and the answer is no (replay, tune) or a run failed "
    "(compare), 2 a file, a name or an option is wrong, 130 interrupted.",
)
@click.version_option(package_name="roost", prog_name="roost-sim")
def cli() -> None:
    """Replay job traces through the engine of roostd, without a cluster."""


for _command in (run, compare, tune, policies, bound, replay, profiles, trace, completion):
    cli.add_command(_command)


def main() -> None:
    """Entry point of the console script."""
    cli(prog_name="roost-sim")


if __name__ == "__main__":
    main()
