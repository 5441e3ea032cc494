"""Calls to the daemon's services Operator and Admin."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import grpc

from roost_proto.v1 import operator_pb2 as pb
from roost_proto.v1.operator_pb2_grpc import AdminStub, OperatorStub
from roostctl.clients.calls import CHANNEL_OPTIONS, DEFAULT_ADDRESS, DEFAULT_TIMEOUT_S, called

_Request = TypeVar("_Request")
_Response = TypeVar("_Response")


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
