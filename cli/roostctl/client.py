"""Calls to the daemon's services; a failed call becomes a message that says what to do."""

import contextlib
import grp
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import grpc

from roost_engine.domain.errors import RoostError
from roost_proto.v1 import operator_pb2 as pb
from roost_proto.v1.operator_pb2_grpc import AdminStub, OperatorStub

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


class OperatorClient:
    """One method a call; each raises CallFailed and nothing else."""

    def __init__(self, channel: grpc.Channel, address: str, timeout_s: float) -> None:
        self._stub = OperatorStub(channel)
        self._address, self._timeout_s = address, timeout_s

    def get_status(self, ask_slurm: bool = False) -> pb.Status:
        """Return the daemon's state; it may ask Slurm first, which takes seconds at most."""
        return self._call(self._stub.GetStatus, pb.GetStatusRequest(ask_slurm=ask_slurm))

    def list_nodes(self) -> list[pb.Node]:
        """Return all nodes, by name."""
        response = self._call(self._stub.ListNodes, pb.ListNodesRequest())
        return sorted(response.nodes, key=lambda node: node.name)

    def get_node(self, name: str) -> pb.Node:
        """One node."""
        return self._call(self._stub.GetNode, pb.GetNodeRequest(name=name))

    def get_topology(self, node: str) -> pb.Topology:
        """Return how the GPUs and NICs of one node are linked."""
        return self._call(self._stub.GetTopology, pb.GetTopologyRequest(node=node))

    def list_jobs(self, include_ended: bool) -> list[pb.Job]:
        """Return all jobs in the daemon's order, which is Slurm's."""
        request = pb.ListJobsRequest(include_ended=include_ended)
        return list(self._call(self._stub.ListJobs, request).jobs)

    def get_job(self, job_id: str) -> pb.Job:
        """One job."""
        return self._call(self._stub.GetJob, pb.GetJobRequest(job_id=job_id))

    def explain_job(self, job_id: str) -> pb.Explanation:
        """Return one job and how its placement was decided."""
        return self._call(self._stub.ExplainJob, pb.ExplainJobRequest(job_id=job_id))

    def list_timers(self) -> pb.ListTimersResponse:
        """Return how long jobs wait for better GPUs, by class."""
        return self._call(self._stub.ListTimers, pb.ListTimersRequest())

    def get_eta(self, job_id: str) -> pb.GetEtaResponse:
        """Return when a job is expected to start and end; of "" every job that waits."""
        return self._call(self._stub.GetEta, pb.GetEtaRequest(job_id=job_id))

    def _call(
        self,
        # Quoted: generic in the type stubs only.
        method: "grpc.UnaryUnaryMultiCallable[_Request, _Response]",
        request: _Request,
    ) -> _Response:
        return called(method, request, self._address, self._timeout_s, "--daemon or ROOST_DAEMON")


class AdminClient:
    """Changes; each method raises CallFailed and nothing else."""

    def __init__(self, channel: grpc.Channel, address: str, timeout_s: float) -> None:
        self._stub = AdminStub(channel)
        self._address, self._timeout_s = address, timeout_s

    def pin_timer(self, name: str, pinned_s: float, by: str) -> pb.Timer:
        """Set the timers of a class by hand."""
        request = pb.PinTimerRequest(name=name, pinned_s=pinned_s, by=by)
        return self._call(self._stub.PinTimer, request)

    def unpin_timer(self, name: str, by: str) -> pb.Timer:
        """Let the gate tune the timers of a class again."""
        return self._call(self._stub.UnpinTimer, pb.UnpinTimerRequest(name=name, by=by))

    def _call(
        self, method: "grpc.UnaryUnaryMultiCallable[_Request, _Response]", request: _Request
    ) -> _Response:
        return called(method, request, self._address, self._timeout_s, "--admin or ROOST_ADMIN")


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


@contextmanager
def connect(
    address: str = DEFAULT_ADDRESS, timeout_s: float = DEFAULT_TIMEOUT_S
) -> Iterator[OperatorClient]:
    """Open a channel to the daemon; nothing is sent before the first call.

    Args:
        address: `unix:/PATH` or `HOST:PORT`.
        timeout_s: deadline of each call.
    """
    with grpc.insecure_channel(address, options=CHANNEL_OPTIONS) as channel:
        yield OperatorClient(channel, address, timeout_s)


@contextmanager
def connect_admin(address: str, timeout_s: float) -> Iterator[AdminClient]:
    """Open a channel to the daemon's socket for changes; see `connect`."""
    with grpc.insecure_channel(address, options=CHANNEL_OPTIONS) as channel:
        yield AdminClient(channel, address, timeout_s)


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
