"""Jobs that Slurm lets share nodes and CPUs, or keeps apart, and changes that people make by hand.

roostd looks at the queue by itself once a minute only, so what starts earlier has woken it.
"""

from collections.abc import Iterator

import pytest
from tests.e2e.ledger import until
from tests.e2e.site.bed import (
    ALICE,
    BOB,
    CPU_COUNT,
    assert_runs,
    cleared_afterwards,
    nodes_of,
    site,
    told,
)

from roost_demo.stack import Stack
from roost_slurm.testing.cluster_plan import PartitionPlan

pytestmark = [pytest.mark.slurm, pytest.mark.nvml, pytest.mark.timeout(240)]

PARTITIONS = (
    PartitionPlan(),
    PartitionPlan(name="forced", options="OverSubscribe=FORCE:2"),
    PartitionPlan(name="apart", options="ExclusiveUser=YES"),
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Stack]:
    with site(partitions=PARTITIONS, settings={"slurm": {"poll_interval_s": 60.0}}) as stack:
        yield stack


@pytest.fixture
def stack(cluster: Stack) -> Iterator[Stack]:
    with cleared_afterwards(cluster):
        yield cluster


@pytest.mark.parametrize("options", [("--exclusive=user",), ("-p", "apart")])
def test_a_node_of_one_user_is_no_place_for_another(stack: Stack, options: tuple[str, ...]) -> None:
    slurm = stack.slurm
    alone = slurm.submit(*options, "-w", "n1", "--gres=gpu:1", user=BOB)
    assert_runs(stack, alone)
    job_id = slurm.submit("--gres=gpu:2", user=ALICE)
    assert_runs(stack, job_id)
    assert nodes_of(stack, job_id) == ["n2"]
    assert [place.node for place in told(stack, job_id).planned] == ["n2"]
    # At once, not after Slurm has not started it on the other one.
    assert f"event=job_decided job_id={job_id} nodes=n1 " not in stack.log("roostd")


def test_a_job_starts_on_cpus_that_slurm_shares(stack: Stack) -> None:
    whole = ("-p", "forced", "-w", "n1", "-c", str(CPU_COUNT), "--gres=gpu:1")
    first, second = stack.slurm.submit(*whole), stack.slurm.submit(*whole)
    assert_runs(stack, first, second)


def test_a_released_job_and_a_raised_limit_wake_roostd(stack: Stack) -> None:
    slurm = stack.slurm
    held = slurm.submit("--hold", "--gres=gpu:1", user=ALICE)
    until(lambda: told(stack, held).reason.startswith("is held"), "roostd knows it")
    slurm.run("scontrol", "release", held, user=ALICE)
    assert_runs(stack, held)
    array = slurm.submit("--array=0-2%1", "--gres=gpu:1")
    until(lambda: running_tasks(stack, array) == 1, "the first task runs")
    slurm.run("scontrol", "update", f"jobid={array}", "ArrayTaskThrottle=3")
    until(lambda: running_tasks(stack, array) == 3, "all tasks run", timeout_s=30.0)


def running_tasks(stack: Stack, array: str) -> int:
    return len(stack.slurm.run("squeue", "-h", "-t", "R", "-j", array, "-o", "%i").split())
