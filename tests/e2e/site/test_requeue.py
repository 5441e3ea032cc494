"""A job that ran on exact GPUs and was requeued starts again soon, on whatever GPUs are free."""

from collections.abc import Iterator

import pytest
from tests.e2e.ledger import planned, until
from tests.e2e.site.bed import (
    REQUEUE_DELAY_S,
    assert_runs,
    cleared_afterwards,
    nodes_of,
    occupy,
    site,
)

from roost_demo.stack import Stack

pytestmark = [pytest.mark.slurm, pytest.mark.nvml]

AGAIN_S = REQUEUE_DELAY_S + 30.0  # plain Slurm starts it after REQUEUE_DELAY_S


@pytest.fixture(scope="module")
def cluster() -> Iterator[Stack]:
    with site() as stack:
        yield stack


@pytest.fixture
def stack(cluster: Stack) -> Iterator[Stack]:
    with cleared_afterwards(cluster):
        yield cluster


def requeue(stack: Stack, job_id: str, command: str = "requeue") -> None:
    stack.slurm.run("scontrol", command, job_id)
    until(lambda: stack.slurm.state(job_id) == "PENDING", "it is requeued")


@pytest.mark.parametrize("gpu_count", [2, 8])
def test_it_starts_again_on_an_empty_cluster(stack: Stack, gpu_count: int) -> None:
    job_id = stack.slurm.submit(f"--gres=gpu:{gpu_count}")
    assert_runs(stack, job_id)
    for _ in range(2):
        requeue(stack, job_id)
        assert_runs(stack, job_id, within_s=AGAIN_S)


@pytest.mark.parametrize("where", ["its GPUs", "its node"])
def test_it_starts_elsewhere_where_its_old_gpus_are_taken(stack: Stack, where: str) -> None:
    job_id = stack.slurm.submit("--gres=gpu:2")
    assert_runs(stack, job_id)
    [node] = nodes_of(stack, job_id)
    [indices] = planned(stack, job_id).values()
    requeue(stack, job_id, "requeuehold")  # or it may have its GPUs again before the others come
    taken = indices if where == "its GPUs" else range(8)
    occupy(stack, node, taken)
    stack.slurm.run("scontrol", "release", job_id)
    assert_runs(stack, job_id, within_s=AGAIN_S)
