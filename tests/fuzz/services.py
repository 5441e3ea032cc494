"""A running daemon's gRPC services as targets: any message gets an answer with a known code."""

import asyncio
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import grpc
from tests.daemon.running import config, running
from tests.fuzz.targets import Target

from roost_engine.testing import builders
from roost_proto.v1 import operator_pb2, placement_pb2, policy_pb2
from roostd.testing.slurm_stand_in import SlurmStandIn

_CALL_S = 60.0  # beside six other workers of a test run
# What a client did wrong, or what is not known; anything else is the daemon's own fault.
_ANSWERS = frozenset(
    {
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.NOT_FOUND,
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
    }
)
_METHODS = {
    "Operator/GetJob": operator_pb2.GetJobRequest(job_id="1"),
    "Operator/ExplainJob": operator_pb2.ExplainJobRequest(job_id="1"),
    "Operator/GetNode": operator_pb2.GetNodeRequest(name="n1"),
    "Operator/GetEta": operator_pb2.GetEtaRequest(job_id="1"),
    "Policies/ShowPolicies": policy_pb2.ShowPoliciesRequest(slot="order"),
    "Admin/PinTimer": operator_pb2.PinTimerRequest(name="8/high", pinned_s=3.0, by="ann"),
    "PolicyAdmin/Rollback": policy_pb2.RollbackRequest(slot="order", by="ann"),
    "Placement/GetPlan": placement_pb2.GetPlanRequest(node="n1", slurm_job_id=1),
    "Placement/ReportAllocation": placement_pb2.AllocationReport(node="n1", gpu_indices=[0, 1]),
}


class UnexpectedAnswer(Exception):
    """A service answered with a code that says that the daemon is at fault."""


@contextmanager
def service_targets() -> Iterator[list[Target]]:
    """Run a daemon on a stand-in for Slurm, and yield a target for each method."""
    with (
        tempfile.TemporaryDirectory(prefix="fuzz-") as folder,
        _daemon(Path(folder)) as addresses,
        ExitStack() as opened,
    ):
        # One connection for all calls: of closed ones, the daemon hears a moment later, and a user
        # may have only so many.
        channels = {
            address: opened.enter_context(grpc.insecure_channel(address))
            for address in sorted(set(addresses.values()))
        }
        targets = []
        for name, message in _METHODS.items():
            channel = channels[addresses[name.partition("/")[0]]]
            call = _caller(channel, f"/roost_proto.v1.{name}")
            targets.append(Target(name.replace("/", "."), call, (message.SerializeToString(),)))
        yield targets


@contextmanager
def _daemon(folder: Path) -> Iterator[dict[str, str]]:
    """Run a daemon in a thread; yields the address of each service."""
    addresses: dict[str, str] = {}
    is_up, stop = threading.Event(), threading.Event()

    async def serve() -> None:
        settings = config(folder)
        async with running(SlurmStandIn([builders.node("n1")]), settings) as found:
            people, admins = f"unix:{settings.operator_socket}", f"unix:{settings.admin_socket}"
            addresses.update(Operator=people, Policies=people, Admin=admins, PolicyAdmin=admins)
            addresses["Placement"] = f"127.0.0.1:{found.daemon.parts.servers.probe_port}"
            is_up.set()
            await asyncio.to_thread(stop.wait)

    thread = threading.Thread(target=lambda: asyncio.run(serve()), name="fuzzed-daemon")
    thread.start()
    try:
        if not is_up.wait(_CALL_S):
            raise UnexpectedAnswer("the daemon did not start")
        yield addresses
    finally:
        stop.set()
        thread.join()


def _caller(channel: grpc.Channel, method: str) -> Callable[[bytes], object]:
    ask = channel.unary_unary(method, lambda sent: sent, lambda received: received)

    def call(data: bytes) -> object:
        try:
            return ask(data, timeout=_CALL_S)
        except grpc.RpcError as error:
            code = error.code()
            if code not in _ANSWERS:
                raise UnexpectedAnswer(f"{code.name}: {error.details()}") from error
            return code

    return call
