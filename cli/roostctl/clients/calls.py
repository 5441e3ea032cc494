"""One call to roostd: where it listens by default, and what a failed call tells the user."""

import contextlib
import grp
import os
import socket
from types import TracebackType
from typing import Self, TypeVar

import grpc

from roost_engine.domain.errors import RoostError

DEFAULT_ADDRESS = "unix:/run/roost/operator.sock"
DEFAULT_TIMEOUT_S = 5.0

_CHANNEL_OPTIONS = (
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


class Client:
    """Calls to one service; each method of a client raises CallFailed and nothing else.

    It is a context, which closes the channel. Nothing is sent before the first call.

    Args:
        address: of the daemon: `unix:/PATH` or `HOST:PORT`.
        timeout_s: deadline of each call.
    """

    setting = "--daemon or ROOST_DAEMON"  # by which the address is given, for errors

    def __init__(
        self, address: str = DEFAULT_ADDRESS, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> None:
        self.address, self.timeout_s = address, timeout_s
        self.channel = grpc.insecure_channel(address, options=_CHANNEL_OPTIONS)

    def __enter__(self) -> Self:
        """Return the client."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the channel."""
        self.channel.close()

    def call(
        self,
        # Quoted: generic in the type stubs only.
        method: "grpc.UnaryUnaryMultiCallable[_Request, _Response]",
        request: _Request,
        timeout_s: float | None = None,
    ) -> _Response:
        """Return the answer to a call of a stub; `timeout_s` in the place of the client's own."""
        limit_s = timeout_s or self.timeout_s
        try:
            return method(request, timeout=limit_s)
        except grpc.RpcError as error:
            raise _as_call_failed(error, self.address, limit_s, self.setting) from error


class AdminCaller(Client):
    """Calls to a service on the socket for changes."""

    setting = "--admin or ROOST_ADMIN"


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
