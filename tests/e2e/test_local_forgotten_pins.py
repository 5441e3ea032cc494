"""A pin that only Slurm knows: its job ran, was requeued and held, and roostd was killed then."""

import signal
from collections.abc import Iterator

import grpc
import pytest
from tests.e2e.ledger import has_roostd, planned, until
from tests.e2e.two_nodes import mended_afterwards, two_nodes

from roost_demo.stack import Stack
from roost_proto.v1 import mode_pb2, mode_pb2_grpc, operator_pb2
from roost_slurm.text.scontrol import JobDetail, parse_jobs

pytestmark = [pytest.mark.slurm, pytest.mark.nvml, pytest.mark.timeout(300)]

EIGHT = ",".join(f"gpu:g{index}:1" for index in range(8))


@pytest.fixture(scope="module")
def cluster() -> Iterator[Stack]:
    with two_nodes() as running:
        yield running


@pytest.fixture
def stack(cluster: Stack) -> Iterator[Stack]:
    with mended_afterwards(cluster):
        try:
            yield cluster
        finally:
            if has_roostd(cluster):
                _set_mode(cluster, operator_pb2.MODE_ENFORCE)


def test_a_requeued_job_is_released_without_the_pin_that_roostd_has_forgotten(
    stack: Stack,
) -> None:
    slurm = stack.slurm
    job_id = slurm.submit("--gres=gpu:8")
    slurm.wait_for_state(job_id, "RUNNING")
    ((node, _),) = planned(stack, job_id).items()
    (other,) = {one.name for one in stack.nodes} - {node}
    slurm.run("scontrol", "requeuehold", job_id)
    slurm.wait_for_state(job_id, "PENDING")
    stack.stop_roostd(signal.SIGKILL)
    blockers = {name: _take_whole(stack, name) for name in (node, other)}
    stack.start_roostd()
    assert _detail(stack, job_id).required_nodes == node
    slurm.run("scontrol", "release", job_id)
    until(lambda: _is_known_as_waiting(stack, job_id), "roostd lets it wait", 120.0)

    _set_mode(stack, operator_pb2.MODE_SHADOW)

    until(lambda: _detail(stack, job_id).admin_comment.startswith("roost:let-go"), "released")
    assert _detail(stack, job_id).required_nodes == ""
    slurm.run("scancel", blockers[other])
    slurm.wait_for_state(job_id, "RUNNING")
    ((held,),) = [[share.node for share in _detail(stack, job_id).allocated]]
    assert held == other


def _set_mode(stack: Stack, mode: operator_pb2.Mode.ValueType) -> None:
    with grpc.insecure_channel(f"unix:{stack.folder}/admin.sock") as channel:
        request = mode_pb2.SetModeRequest(partition="main", mode=mode)
        mode_pb2_grpc.ModeAdminStub(channel).SetMode(request)


def _take_whole(stack: Stack, name: str) -> str:
    """Have a job that names its GPUs itself, so that Roost leaves it to Slurm, run on a node."""
    job_id = stack.slurm.submit(f"--gres={EIGHT}", "-w", name)
    stack.slurm.wait_for_state(job_id, "RUNNING")
    return job_id


def _detail(stack: Stack, job_id: str) -> JobDetail:
    (detail,) = parse_jobs(stack.slurm.show_job(job_id)).values()
    return detail


def _is_known_as_waiting(stack: Stack, job_id: str) -> bool:
    request = operator_pb2.GetJobRequest(job_id=job_id)
    try:
        return stack.operator().GetJob(request).state == operator_pb2.JOB_STATE_WAITING
    except grpc.RpcError as error:
        if error.code() is not grpc.StatusCode.NOT_FOUND:
            raise
        return False
