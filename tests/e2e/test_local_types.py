"""Jobs that Slurm 22.05 gives only the GPU indices of their first pin: they start all the same."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from tests.conftest import missing
from tests.e2e.ledger import cleared, planned, until
from tests.e2e.site.bed import occupy

from roost_demo.stack import NodeKind, Stack
from roost_proto.v1 import operator_pb2 as pb
from roost_slurm.testing.availability import LocalSlurmUnavailable
from roost_slurm.text.versions import parse_version, traits_of

pytestmark = [pytest.mark.slurm, pytest.mark.nvml]

NODES = (NodeKind(name="n1", topology="bridges8"), NodeKind(name="n2", topology="bridges8"))
HAND_OVER_S = 8.0  # so long a busy machine may take to see that the job waits
SETTINGS = {"slurm": {"hand_over_s": HAND_OVER_S, "poll_interval_s": 1.0}}


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    try:
        with Stack(NODES, settings=SETTINGS) as running:
            if traits_of(parse_version(running.slurm.run("scontrol", "--version"))).can_untype:
                pytest.skip("this release gives a pinned job other GPUs")
            yield running
    except LocalSlurmUnavailable as error:
        missing(str(error))


@dataclass(frozen=True, slots=True)
class Requeued:
    """A job that ran and is held now, while another job has the GPUs that it had.

    Attributes:
        other: the node where it did not run.
        indices: of the GPUs that it had.
    """

    job_id: str
    other: str
    indices: tuple[int, ...]


@pytest.fixture
def requeued(stack: Stack) -> Iterator[Requeued]:
    with cleared(stack):
        job_id = stack.slurm.submit("--gres=gpu:2")
        stack.slurm.wait_for_state(job_id, "RUNNING")
        # Any node: where the probe of one is silent, as on a busy machine, another one is better.
        ((node, indices),) = planned(stack, job_id).items()
        # Held, or roostd would place it again while the other job is being submitted.
        stack.slurm.run("scontrol", "requeuehold", job_id)
        stack.slurm.wait_for_state(job_id, "PENDING")
        occupy(stack, node, indices)
        (other,) = {kind.name for kind in NODES} - {node}
        yield Requeued(job_id, other, indices)


def explain(stack: Stack, job_id: str) -> pb.Explanation:
    return stack.operator().ExplainJob(pb.ExplainJobRequest(job_id=job_id))


def test_a_requeued_job_starts_on_the_same_indices_of_another_node(
    stack: Stack, requeued: Requeued
) -> None:
    job_id = requeued.job_id
    stack.slurm.run("scontrol", "release", job_id)
    stack.slurm.wait_for_state(job_id, "RUNNING")
    assert planned(stack, job_id) == {requeued.other: requeued.indices}
    until(lambda: bool(explain(stack, job_id).job.allocated), "roostd sees it run")
    told = explain(stack, job_id).job
    assert told.allocated == told.planned


def test_a_job_whose_indices_are_busy_everywhere_is_handed_over(
    stack: Stack, requeued: Requeued
) -> None:
    job_id, told = requeued.job_id, list[pb.Job]()
    holder = occupy(stack, requeued.other, requeued.indices)
    stack.slurm.run("scontrol", "release", job_id)
    sentence = f"waits for GPUs {','.join(map(str, requeued.indices))} of a node"

    def is_told() -> bool:
        told[:] = [explain(stack, job_id).job]
        return sentence in told[0].reason

    until(is_told, "it says so")
    assert 0.0 < told[0].wait_left_s <= HAND_OVER_S
    until(lambda: "roost:let-go" in stack.slurm.show_job(job_id), "it is Slurm's")
    assert "ReqNodeList=(null)" in stack.slurm.show_job(job_id)
    until(lambda: "was pinned and released" in explain(stack, job_id).job.reason, "it says why")
    stack.slurm.run("scancel", holder)
    stack.slurm.wait_for_state(job_id, "RUNNING")
    assert f"Nodes={requeued.other} " in stack.slurm.show_job(job_id)
