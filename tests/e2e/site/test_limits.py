"""A job that Slurm would not start leaves its GPUs to the jobs behind it."""

import time
from collections.abc import Iterator

import pytest
from tests.e2e.site.bed import (
    ALICE,
    BOB,
    assert_runs,
    cleared_afterwards,
    nodes_of,
    occupy,
    reason,
    site,
    until,
)

from roost_demo.stack import Stack
from roost_slurm.testing.cluster_plan import PartitionPlan
from roost_slurm.testing.site_plan import AccountingPlan, PriorityPlan

pytestmark = [pytest.mark.slurm, pytest.mark.nvml]

BLOCKED_COUNT = 10  # of two GPUs each: more than the cluster has
HAND_OVER_S = 10.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Stack]:
    with site(
        partitions=(
            PartitionPlan(),
            PartitionPlan(name="side"),
            PartitionPlan(name="narrow", options="MaxNodes=1"),
        ),
        licenses="ansys:1",
        accounting=AccountingPlan(),
        priority=PriorityPlan(),
        settings={"slurm": {"hand_over_s": HAND_OVER_S}},
    ) as stack:
        accounting = stack.slurm.accounting
        accounting.add_account("physics")
        accounting.add_qos("four", MaxTRESPerUser="gres/gpu=4")
        for user in (ALICE, BOB):
            accounting.add_user(user, "physics", qos=("four",))
        yield stack


@pytest.fixture
def stack(cluster: Stack) -> Iterator[Stack]:
    with cleared_afterwards(cluster):
        yield cluster


def submit_many(stack: Stack, *options: str, user: str | None = None) -> list[str]:
    return [stack.slurm.submit(*options, user=user) for _ in range(BLOCKED_COUNT)]


def reserve(stack: Stack, node: str) -> str:
    """Reserve a node from 2.5 minutes from now on; return the reservation's name."""
    starts = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(time.time() + 150))
    words = (f"nodes={node}", f"starttime={starts}", "duration=60", "users=root", "flags=maint")
    return stack.slurm.run("scontrol", "create", "reservation", *words).split()[-1]


def test_a_limit_of_one_user_leaves_the_rest_of_the_cluster_to_others(stack: Stack) -> None:
    blocked = submit_many(stack, "-q", "four", "--gres=gpu:2", user=ALICE)
    other = stack.slurm.submit("-q", "four", "--gres=gpu:4", user=BOB)
    assert_runs(stack, other)
    assert_runs(stack, *blocked[:2])
    assert [stack.slurm.state(job_id) for job_id in blocked].count("RUNNING") == 2


def test_jobs_that_wait_for_a_licence_leave_their_gpus_to_others(stack: Stack) -> None:
    holder = stack.slurm.submit("-L", "ansys", "-c1")
    stack.slurm.wait_for_state(holder, "RUNNING")
    blocked = submit_many(stack, "-L", "ansys", "--gres=gpu:2")
    other = stack.slurm.submit("--gres=gpu:4")
    assert_runs(stack, other)
    stack.slurm.run("scancel", holder)
    assert_runs(stack, blocked[0], within_s=15.0)


def test_jobs_of_a_partition_that_is_down_leave_their_gpus_to_others(stack: Stack) -> None:
    stack.slurm.run("scontrol", "update", "partitionname=side", "state=down")
    blocked = submit_many(stack, "-p", "side", "--gres=gpu:2")
    other = stack.slurm.submit("--gres=gpu:4")
    assert_runs(stack, other)
    stack.slurm.run("scontrol", "update", "partitionname=side", "state=up")
    assert_runs(stack, blocked[0], within_s=15.0)


def test_jobs_beyond_the_node_limit_of_their_partition_leave_their_gpus_to_others(
    stack: Stack,
) -> None:
    blocked = submit_many(stack, "-p", "narrow", "-N2", "--gres=gpu:1")
    other = stack.slurm.submit("--gres=gpu:8")
    assert_runs(stack, other)
    until(
        lambda: reason(stack, blocked[0]) == "PartitionNodeLimit", "Slurm says why", 4 * HAND_OVER_S
    )


def test_a_job_that_would_run_into_a_reservation_goes_to_another_node(stack: Stack) -> None:
    for node in ("n1", "n2"):
        name = reserve(stack, node)
        job_ids = [stack.slurm.submit("--gres=gpu:2", "-t", "10") for _ in range(4)]
        assert_runs(stack, *job_ids)
        assert all(node not in nodes_of(stack, job_id) for job_id in job_ids)
        stack.slurm.run("scancel", *job_ids)
        stack.slurm.run("scontrol", "delete", f"reservationname={name}")


def test_a_job_that_ends_before_a_reservation_uses_its_node(stack: Stack) -> None:
    occupy(stack, "n2")
    reserve(stack, "n1")
    assert_runs(stack, stack.slurm.submit("--gres=gpu:2", "-t", "1"))


def test_a_node_drained_just_before_gets_no_job(stack: Stack) -> None:
    for node in ("n1", "n2"):
        stack.slurm.run("scontrol", "update", f"nodename={node}", "state=drain", "reason=fan")
        job_ids = [stack.slurm.submit("--gres=gpu:2") for _ in range(4)]
        assert_runs(stack, *job_ids)
        assert all(node not in nodes_of(stack, job_id) for job_id in job_ids)
        stack.slurm.run("scancel", *job_ids)
        stack.slurm.run("scontrol", "update", f"nodename={node}", "state=resume")
