"""Jobs of a partition with a higher PriorityTier start before those of a lower one."""

from collections.abc import Iterator

import pytest
from tests.e2e.ledger import outcomes, submit, until, wait_until_over
from tests.e2e.site.bed import cleared_afterwards, occupy, site, told

from roost_demo.stack import Stack
from roost_slurm.testing.cluster_plan import PartitionPlan

pytestmark = [pytest.mark.slurm, pytest.mark.nvml]

OVER_S = 90.0  # of four jobs of 2 s, on a busy machine


@pytest.fixture(scope="module")
def cluster() -> Iterator[Stack]:
    with site(
        partitions=(
            PartitionPlan(options="PriorityTier=1"),
            PartitionPlan(name="first", options="PriorityTier=10"),
        ),
    ) as stack:
        yield stack


@pytest.fixture
def stack(cluster: Stack) -> Iterator[Stack]:
    with cleared_afterwards(cluster):
        yield cluster


def test_jobs_of_a_higher_tier_start_first(stack: Stack) -> None:
    holders = [occupy(stack, node.name) for node in stack.nodes]
    lower = [submit(stack.slurm, "--gres=gpu:8", command="sleep 2") for _ in range(2)]
    higher = [submit(stack.slurm, "-p", "first", "--gres=gpu:8", command="sleep 2") for _ in "12"]
    until(lambda: all(told(stack, job_id).job_id for job_id in lower + higher), "all are known")
    stack.slurm.run("scancel", *holders)
    wait_until_over(stack.slurm, lower + higher, OVER_S)
    found = outcomes(stack.slurm, lower + higher)
    last_of_higher_s = max(found[job_id].began_s for job_id in higher)
    assert last_of_higher_s < min(found[job_id].began_s for job_id in lower)
