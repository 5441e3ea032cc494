"""What all commands share: the global options, and the option types they are made of."""

import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from roostctl.clients.operator import OperatorClient

_Command = TypeVar("_Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Options:
    """The global options of one invocation."""

    daemon: str
    timeout_s: float

    def connect(self) -> AbstractContextManager[OperatorClient]:
        """Open a channel to the chosen daemon."""
        return OperatorClient(self.daemon, self.timeout_s)


pass_options = click.make_pass_decorator(Options)


class Seconds(click.FloatRange):
    """A finite time, above zero or from zero on; `nan` would pass any range check."""

    name = "seconds"

    def __init__(self, most_s: int = 86400, *, from_zero: bool = False) -> None:
        super().__init__(min=0, min_open=not from_zero, max=most_s)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Read the number; see click.ParamType.convert."""
        try:
            is_number = math.isfinite(float(value))
        except ValueError:
            is_number = False
        if not is_number:
            self.fail(f"{value!r} is not a number of seconds", param, ctx)
        return float(super().convert(value, param, ctx))


def check_address(ctx: click.Context, param: click.Parameter, address: str) -> str:
    """Refuse what gRPC would misread: want `unix:/PATH` or `HOST:PORT`."""
    host, _, port = address.rpartition(":")
    is_socket = address.startswith("unix:/")
    is_port = port.isascii() and port.isdecimal() and int(port) < 65536
    is_host = bool(host) and "/" not in address and is_port
    if not (is_socket or is_host):
        raise click.BadParameter(f"{address!r} is no address; want unix:/PATH or HOST:PORT")
    return address


def json_option(command: _Command) -> _Command:
    """Add `--json`."""
    return click.option(
        "--json", "as_json", is_flag=True, help="Print JSON; docs/roostctl.md has the schema."
    )(command)


def watch_option(command: _Command) -> _Command:
    """Add `--watch [SECONDS]`."""
    return click.option(
        "--watch",
        "watch_s",
        type=Seconds(),
        is_flag=False,
        flag_value=2.0,
        help="Print again every so many seconds (2 if none are given) until Ctrl-C.",
    )(command)
