"""Nodes that Slurm has powered down wake for a job that waits for Roost."""

from collections.abc import Iterator

import pytest
from tests.e2e.site.bed import (
    assert_runs,
    cleared_afterwards,
    nodes_of,
    occupy,
    site,
    until,
)

from roost_demo.stack import Stack
from roost_slurm.testing.site_plan import PowerSavingPlan

pytestmark = [pytest.mark.slurm, pytest.mark.nvml]

# slurmctld looks every 30 s whether the nodes of a job are up, and may need two looks.
BOOTED_S = 80.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Stack]:
    with site(power_saving=PowerSavingPlan(suspend_after_s=3600)) as stack:
        yield stack


@pytest.fixture
def stack(cluster: Stack) -> Iterator[Stack]:
    with cleared_afterwards(cluster):
        yield cluster


def power_down(stack: Stack, name: str) -> None:
    slurm = stack.slurm
    slurm.run("scontrol", "update", f"nodename={name}", "state=power_down")
    until(lambda: ("suspend", name) in slurm.power_requests(), "it is suspended")
    slurm.stop_node(name)
    stack.stop_probe(name)
    until(lambda: "POWERED_DOWN" in slurm.run("scontrol", "show", "node", name), "it is off")


@pytest.mark.timeout(180)
def test_a_waiting_job_wakes_a_node(stack: Stack) -> None:
    slurm = stack.slurm
    occupy(stack, "n1")
    power_down(stack, "n2")
    job_id = slurm.submit("--gres=gpu:2")
    try:
        until(lambda: ("resume", "n2") in slurm.power_requests(), "n2 is resumed", 15.0)
    finally:
        slurm.start_node("n2", booted=True)
        stack.start_probe("n2")
    assert_runs(stack, job_id, within_s=BOOTED_S)


def test_an_awake_node_comes_before_one_that_sleeps(stack: Stack) -> None:
    """Though the one that sleeps comes first by name, by which ties are broken else."""
    power_down(stack, "n1")
    job_ids = [stack.slurm.submit("--gres=gpu:2") for _ in range(3)]
    assert_runs(stack, *job_ids)
    assert {name for job_id in job_ids for name in nodes_of(stack, job_id)} == {"n2"}
    assert ("resume", "n1") not in stack.slurm.power_requests()
