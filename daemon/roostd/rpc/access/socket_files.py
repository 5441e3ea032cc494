"""The files of UNIX sockets: removed when a daemon was killed, and open to one group only."""

import contextlib
import grp
import os
import shutil
import socket
import stat
from pathlib import Path

from roost_engine.domain.errors import ConfigError

_CONNECT_S = 1.0


def clear_socket(path: Path, key: str) -> None:
    """Remove the socket of a killed daemon.

    Raises:
        ConfigError: the path is something other than a socket, or a process listens on it.
    """
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise ConfigError([f"{key}: {path}: not a socket; remove it"])
        if _is_listened_on(path):
            raise ConfigError([f"{key}: {path}: another process listens on it; name another path"])
        path.unlink()
    except FileNotFoundError:
        return
    except OSError as error:
        raise ConfigError([f"{key}: {path}: {error.strerror or error}"]) from error


def _is_listened_on(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as caller:
        caller.settimeout(_CONNECT_S)
        try:
            caller.connect(str(path))
        except ConnectionRefusedError:
            return False
        except OSError:  # a full backlog, or a socket of another kind
            return True
    return True


def remove_socket(path: Path) -> None:
    """Remove a socket of this daemon; anything else at its path stays."""
    with contextlib.suppress(OSError):
        if stat.S_ISSOCK(path.lstat().st_mode):
            path.unlink()


def guard_socket(path: Path, group: str | None, key: str, is_open: bool = False) -> None:
    """Allow only the owner and the group to connect, which permits every call.

    The file's mode is the only access control: grpcio does not give a server the user who calls
    over a UNIX socket (socket_front finds out for the audit log). The folder should not be writable
    by other users either.

    Args:
        path: the socket.
        group: that may connect; None: the daemon's own.
        key: the setting that names the group, for errors.
        is_open: roles decide about each call, so that every user may connect.

    Raises:
        ConfigError: there is no such group, or the daemon is not a member of it.
    """
    if group is not None:
        try:
            grp.getgrnam(group)
            shutil.chown(path, group=group)
        except (KeyError, PermissionError) as error:
            problem = "no such group" if isinstance(error, KeyError) else "not a member of it"
            raise ConfigError([f"{key}: {group}: {problem}"]) from error
    os.chmod(path, 0o666 if is_open else 0o660)
