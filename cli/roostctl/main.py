"""The program `roostctl`, and the one table from errors to exit codes."""

import contextlib
import gc
import os
import sys
from collections.abc import Mapping
from typing import Any

import click
import grpc

from roostctl.clients.calls import DEFAULT_ADDRESS, DEFAULT_TIMEOUT_S, CallFailed
from roostctl.commands.audit import audit
from roostctl.commands.completion import completion
from roostctl.commands.eta import eta
from roostctl.commands.explain import explain
from roostctl.commands.interference import interference
from roostctl.commands.job import job
from roostctl.commands.jobs import jobs
from roostctl.commands.mode import mode
from roostctl.commands.node import node
from roostctl.commands.nodes import nodes
from roostctl.commands.policy import policy
from roostctl.commands.report import report
from roostctl.commands.status import status
from roostctl.commands.timers import timers
from roostctl.commands.top import top
from roostctl.commands.topology import topology
from roostctl.commands.waste import waste
from roostctl.options.common import Options, Seconds, check_address
from roostctl.output.console import complain

# 0 is success; docs/roostctl.md has the same table.
EXIT_CODES: Mapping[grpc.StatusCode, int] = {
    grpc.StatusCode.NOT_FOUND: 1,
    grpc.StatusCode.FAILED_PRECONDITION: 1,
    grpc.StatusCode.INVALID_ARGUMENT: 2,  # click's own code for wrong usage
    grpc.StatusCode.UNAVAILABLE: 3,
    grpc.StatusCode.PERMISSION_DENIED: 4,
    grpc.StatusCode.UNAUTHENTICATED: 4,
    grpc.StatusCode.DEADLINE_EXCEEDED: 5,
}
EXIT_NOT_WRITTEN = 1
EXIT_USAGE = 2
EXIT_DAEMON_FAULT = 6  # every other code: the daemon is broken, overloaded or of another version
_GC_OBJECTS = 100_000
EXIT_INTERRUPTED = 130  # as shells report SIGINT


class _ExitCodeGroup(click.Group):
    """Turns errors into one line on stderr and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except CallFailed as error:
            complain(str(error))
            ctx.exit(EXIT_CODES.get(error.code, EXIT_DAEMON_FAULT))
        except UnicodeEncodeError as error:  # bytes of the command line that are no text
            complain(f"{error.object!r} is not UTF-8")
            ctx.exit(EXIT_USAGE)
        except KeyboardInterrupt:
            ctx.exit(EXIT_INTERRUPTED)

    def main(self, *args: Any, **options: Any) -> Any:
        try:
            return super().main(*args, **options)
        except OSError as error:  # of a command, or of --help; click ends where a reader has left
            complain(f"the output cannot be written: {error.strerror or error}")
            _drop_output()
            sys.exit(EXIT_NOT_WRITTEN)


def _drop_output() -> None:
    """Send what is left in the buffer of stdout nowhere, or Python fails on it at the end."""
    with contextlib.suppress(OSError, ValueError), open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


@click.group(
    cls=_ExitCodeGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 done, 1 no such thing, 2 wrong usage, 3 roostd cannot be reached, "
    "4 not permitted, 5 no answer in time, 6 roostd failed. "
    "Example: roostctl explain 4711",
)
@click.option(
    "--daemon",
    callback=check_address,
    default=DEFAULT_ADDRESS,
    envvar="ROOST_DAEMON",
    metavar="ADDRESS",
    show_default=True,
    show_envvar=True,
    help="Where roostd listens: unix:/PATH or HOST:PORT.",
)
@click.option(
    "--timeout-s",
    type=Seconds(),
    default=DEFAULT_TIMEOUT_S,
    show_default=True,
    help="How long to wait for each answer.",
)
@click.version_option(package_name="roost", prog_name="roostctl")
@click.pass_context
def cli(ctx: click.Context, daemon: str, timeout_s: float) -> None:
    """Ask roostd what runs where, and why."""
    ctx.obj = Options(daemon, timeout_s)


_COMMANDS = (
    nodes,
    node,
    topology,
    jobs,
    job,
    explain,
    eta,
    timers,
    mode,
    policy,
    report,
    top,
    waste,
    interference,
    audit,
    status,
    completion,
)
for _command in _COMMANDS:
    cli.add_command(_command)


def main() -> None:
    """Entry point of the console script."""
    gc.set_threshold(_GC_OBJECTS)  # a list of 10,000 jobs spends a fifth of its time collecting
    cli(prog_name="roostctl")


if __name__ == "__main__":
    main()
