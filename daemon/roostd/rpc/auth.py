"""Access rules: which callers may report for a node, and which users may open the UNIX sockets."""

import contextlib
import grp
import os
import shutil
import socket
import stat
from pathlib import Path

from roost_engine.domain.errors import ConfigError
from roostd.rpc.errors import Context
from roostd.rpc.peers import host_of
from roostd.telemetry.board import NodeReport

_CONNECT_S = 1.0


def node_names(context: Context) -> frozenset[str] | None:
    """Return the names in the caller's certificate; None where the port has no TLS."""
    auth = context.auth_context()
    if b"ssl" not in auth.get("transport_security_type", ()):
        return None
    names = auth.get("x509_subject_alternative_name", ())
    return frozenset(name.decode("utf-8", "replace") for name in names)


def may_speak_for(context: Context, node: str) -> bool:
    """Return whether the caller's certificate names the node, with or without a domain.

    Without TLS every caller may report for every node.
    """
    names = node_names(context)
    return names is None or any(name == node or name.startswith(f"{node}.") for name in names)


def why_not_answered(context: Context, node: str, report: NodeReport | None) -> str | None:
    """Return why the caller may not read the plans of a node; None: it may.

    A plan shows other users' jobs, so only the node itself may read it. With mutual TLS the
    certificate proves that. Without it the caller must be on the host of the node's probe, and this
    probe must name GPUs that the node is known to have.
    """
    if node_names(context) is not None:
        return None if may_speak_for(context, node) else f"the certificate does not name {node}"
    if report is None or not report.is_known or report.claim.host != host_of(context.peer()):
        return f"without mutual TLS plans for {node} are sent only to the host of its probe"
    return None


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
