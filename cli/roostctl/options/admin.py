"""What the commands that change something share: the admin socket, and the caller's name."""

import getpass
import os
from collections.abc import Callable
from typing import Any, TypeVar

import click

from roostctl.options.common import Options, check_address

_SOCKET, _ADMIN_SOCKET = "operator.sock", "admin.sock"
_Command = TypeVar("_Command", bound=Callable[..., Any])


def admin_option(command: _Command) -> _Command:
    """Add `--admin ADDRESS`."""
    return click.option(
        "--admin",
        callback=lambda ctx, param, text: check_address(ctx, param, text) if text else "",
        default="",
        envvar="ROOST_ADMIN",
        metavar="ADDRESS",
        show_envvar=True,
        help="Where roostd takes changes: unix:/PATH; admin.sock beside the daemon's socket if not "
        "given.",
    )(command)


def admin_address(options: Options, admin: str) -> str:
    """Return the address that was given, or that of the socket beside the operators' one."""
    if admin:
        return admin
    if options.daemon.startswith("unix:") and options.daemon.endswith(f"/{_SOCKET}"):
        return options.daemon.removesuffix(_SOCKET) + _ADMIN_SOCKET
    return f"unix:/run/roost/{_ADMIN_SOCKET}"


def caller_name() -> str:
    """Return the caller's login name for the audit log; under sudo, of the user who called sudo."""
    return os.environ.get("SUDO_USER") or getpass.getuser()
