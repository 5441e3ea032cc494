"""Jobs that Slurm 22.05 gives only the GPU indices of their first pin: they start all the same."""

from collections.abc import Iterator

import pytest
from tests.conftest import missing
from tests.e2e.ledger import planned, until

from roost_demo.stack import NodeKind, Stack
from roost_proto.v1 import operator_pb2 as pb
from roost_slurm.testing.availability import LocalSlurmUnavailable
from roost_slurm.text.versions import parse_version, traits_of

pytestmark = [pytest.mark.slurm, pytest.mark.nvml]

NODES = (NodeKind(name="n1", topology="bridges8"), NodeKind(name="n2", topology="bridges8"))
HAND_OVER_S = 4.0


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    try:
        with Stack(NODES, settings={"slurm": {"hand_over_s": HAND_OVER_S}}) as running:
            if traits_of(parse_version(running.slurm.run("scontrol", "--version"))).can_untype:
                pytest.skip("this release gives a pinned job other GPUs")
            yield running
    except LocalSlurmUnavailable as error:
        missing(str(error))


@pytest.fixture
def requeued(stack: Stack) -> Iterator[str]:
    """A job that ran on GPUs 0 and 1 of n1 and waits again, while another job has these."""
    job_id = stack.slurm.submit("--gres=gpu:2")
    stack.slurm.wait_for_state(job_id, "RUNNING")
    assert planned(stack, job_id) == {"n1": (0, 1)}
    stack.slurm.run("scontrol", "requeue", job_id)
    stack.slurm.wait_for_state(job_id, "PENDING")
    take(stack, "n1")
    yield job_id
    stack.slurm.run("scancel", "--user=root")
    until(lambda: not stack.slurm.run("squeue", "-h"), "the queue is empty")


def take(stack: Stack, node: str) -> str:
    """Have a job that names its GPUs itself, so that Roost leaves it to Slurm, run on 0 and 1."""
    job_id = stack.slurm.submit("--gres=gpu:g0:1,gpu:g1:1", f"--nodelist={node}")
    stack.slurm.wait_for_state(job_id, "RUNNING")
    return job_id


def explain(stack: Stack, job_id: str) -> pb.Explanation:
    return stack.operator().ExplainJob(pb.ExplainJobRequest(job_id=job_id))


def test_a_requeued_job_starts_on_the_same_indices_of_another_node(
    stack: Stack, requeued: str
) -> None:
    stack.slurm.wait_for_state(requeued, "RUNNING")
    assert planned(stack, requeued) == {"n2": (0, 1)}
    until(lambda: bool(explain(stack, requeued).job.allocated), "roostd sees it run")
    told = explain(stack, requeued).job
    assert told.allocated == told.planned


def test_a_job_whose_indices_are_busy_everywhere_is_handed_over(
    stack: Stack, requeued: str
) -> None:
    holder = take(stack, "n2")
    told = list[pb.Job]()

    def is_told() -> bool:
        told[:] = [explain(stack, requeued).job]
        return "waits for GPUs 0,1 of a node" in told[0].reason

    until(is_told, "it says so")
    assert 0.0 < told[0].wait_left_s <= HAND_OVER_S
    until(lambda: "roost:let-go" in stack.slurm.show_job(requeued), "it is Slurm's")
    shown = stack.slurm.show_job(requeued)
    assert "ReqNodeList=(null)" in shown
    until(lambda: "was pinned and released" in explain(stack, requeued).job.reason, "it says why")
    stack.slurm.run("scancel", holder)
    stack.slurm.wait_for_state(requeued, "RUNNING")
    assert "Nodes=n2" in stack.slurm.show_job(requeued)
