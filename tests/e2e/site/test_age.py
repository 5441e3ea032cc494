"""The age that a waiting job gains under slurmdbd and multifactor priority."""

import time
from collections.abc import Iterator

import pytest
from tests.e2e.site.bed import CPU_COUNT, cleared_afterwards, occupy, queue, site

from roost_demo.stack import NodeKind, Stack
from roost_slurm.testing.site_plan import AccountingPlan, PriorityPlan

pytestmark = [pytest.mark.slurm, pytest.mark.nvml, pytest.mark.timeout(180)]

NODES = (NodeKind(name="n1", topology="nvswitch8", cpu_count=CPU_COUNT),)
PRIORITY = PriorityPlan(flags=("ACCRUE_ALWAYS",))
PER_S = PRIORITY.age_weight / PRIORITY.max_age_s  # of a job's priority
OLD_S = 12.0  # more than the first lease and a renewal of it


@pytest.fixture(scope="module")
def cluster() -> Iterator[Stack]:
    with site(
        nodes=NODES,
        accounting=AccountingPlan(),
        priority=PRIORITY,
    ) as stack:
        yield stack


@pytest.fixture
def stack(cluster: Stack) -> Iterator[Stack]:
    with cleared_afterwards(cluster):
        yield cluster


def ages(stack: Stack, *job_ids: str) -> list[float]:
    """The age factors of waiting jobs' priorities, weighted, as of now.

    Slurm computes all priorities again once a minute, and a job's own when it is updated.
    """
    for job_id in job_ids:
        stack.slurm.run("scontrol", "update", f"jobid={job_id}", "nice=0")
    rows = stack.slurm.run("sprio", "-h", "-o", "%i %A").splitlines()
    found = {job_id: float(age) for job_id, age in map(str.split, rows)}
    return [found[job_id] for job_id in job_ids]


def test_the_priority_of_a_waiting_job_grows_as_without_roost(stack: Stack) -> None:
    occupy(stack, "n1")
    began_s = time.monotonic()
    managed = stack.slurm.submit("--gres=gpu:2")
    # Names its GPUs itself, so Roost leaves it to Slurm.
    unmanaged = stack.slurm.submit("--gres=gpu:g0:1,gpu:g1:1")
    time.sleep(OLD_S)
    with_roost, without = ages(stack, managed, unmanaged)
    assert without >= OLD_S * PER_S
    commands_s = time.monotonic() - began_s - OLD_S  # one job is submitted and asked for later
    apart_s = 2.5 + commands_s
    assert with_roost == pytest.approx(without, abs=apart_s * PER_S), queue(stack.slurm)
