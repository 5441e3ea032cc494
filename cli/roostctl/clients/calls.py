"""One call to roostd: where it listens by default, and what a failed call tells the user."""

import contextlib
import grp
import os
import socket
from typing import TypeVar

import grpc

from roost_engine.domain.errors import RoostError

DEFAULT_ADDRESS = "unix:/run/roost/operator.sock"
DEFAULT_TIMEOUT_S = 5.0

CHANNEL_OPTIONS = (
    # 10,000 nodes with 8 GPUs each are about 10 MB; gRPC's own limit is 4 MB.
    ("grpc.max_receive_message_length", 256 << 20),
    ("grpc.enable_http_proxy", 0),
    # While watching: find a restarted daemon within seconds. gRPC would wait up to two minutes.
    ("grpc.max_reconnect_backoff_ms", 2000),
)

_NOT_READ = "Exception deserializing response!"  # gRPC's own text, of its client

_Request = TypeVar("_Request")
_Response = TypeVar("_Response")


class CallFailed(RoostError):
    """The daemon did not answer, or it refused the call."""

    def __init__(self, code: grpc.StatusCode, message: str) -> None:
        super().__init__(message)
        self.code = code


def called(
    method: "grpc.UnaryUnaryMultiCallable[_Request, _Response]",
    request: _Request,
    address: str,
    timeout_s: float,
    setting: str,
) -> _Response:
    """Return the answer to a call.

    Args:
        method: of a stub.
        request: what is asked.
        address: of the daemon.
        timeout_s: deadline.
        setting: by which the address was given, for the error.

    Raises:
        CallFailed: the daemon did not answer, or it refused the call.
    """
    try:
        return method(request, timeout=timeout_s)
    except grpc.RpcError as error:
        raise _as_call_failed(error, address, timeout_s, setting) from error


def _as_call_failed(
    error: grpc.RpcError, address: str, timeout_s: float, setting: str
) -> CallFailed:
    code, details = error.code(), error.details() or "no message"
    match code:
        case grpc.StatusCode.UNAVAILABLE:
            return _unreachable(address, details, setting)
        case grpc.StatusCode.DEADLINE_EXCEEDED:
            return CallFailed(
                code,
                f"roostd at {address} gave no answer in {timeout_s:g} s; ask again with a longer "
                "--timeout-s, or look at its log: journalctl -u roostd",
            )
        case grpc.StatusCode.UNIMPLEMENTED:
            return CallFailed(
                code, f"roostd at {address} is older than this roostctl: {details}; update it"
            )
        case grpc.StatusCode.INTERNAL if details == _NOT_READ:
            return CallFailed(
                code,
                f"the answer of roostd at {address} cannot be read; see that it is roostd, and of"
                " this roostctl's release (--version)",
            )
        case _:
            return CallFailed(code, details)


def _unreachable(address: str, details: str, setting: str) -> CallFailed:
    if address.startswith("unix:"):
        path = "/" + address.removeprefix("unix:").lstrip("/")
        try:
            owner = os.stat(path)
        except PermissionError:
            return _forbidden(path, "its folder is closed to this user")
        except OSError:
            details = f"there is no socket {path}"
        else:
            if not os.access(path, os.W_OK):
                return _forbidden(path, f"it belongs to group {_group_name(owner.st_gid)}")
            if _listens(path):
                return CallFailed(grpc.StatusCode.UNAVAILABLE, f"roostd at {address}: {details}")
            details = f"no daemon listens on {path}"
    return CallFailed(
        grpc.StatusCode.UNAVAILABLE,
        f"cannot reach roostd: {details}; start it (systemctl start roostd), or give its address "
        f"with {setting}",
    )


def _listens(path: str) -> bool:
    """Return whether a program has the socket: then it was the one that answered so."""
    with socket.socket(socket.AF_UNIX) as end, contextlib.suppress(OSError):
        end.connect(path)
        return True
    return False


def _forbidden(path: str, why: str) -> CallFailed:
    return CallFailed(
        grpc.StatusCode.PERMISSION_DENIED,
        f"this user may not open {path}: {why}; ask an administrator for access",
    )


def _group_name(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)
