"""Nodes that Slurm has powered down wake for a job that waits for Roost."""

from collections.abc import Iterator

import pytest
from tests.e2e.site.bed import assert_runs, cleared_afterwards, occupy, site, until

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


@pytest.mark.timeout(180)
def test_a_waiting_job_wakes_a_node(stack: Stack) -> None:
    slurm = stack.slurm
    occupy(stack, "n1")
    slurm.run("scontrol", "update", "nodename=n2", "state=power_down")
    until(lambda: ("suspend", "n2") in slurm.power_requests(), "n2 is suspended")
    slurm.stop_node("n2")
    stack.stop_probe("n2")
    until(lambda: "POWERED_DOWN" in slurm.run("scontrol", "show", "node", "n2"), "n2 is off")
    job_id = slurm.submit("--gres=gpu:2")
    try:
        until(lambda: ("resume", "n2") in slurm.power_requests(), "n2 is resumed", 15.0)
    finally:
        slurm.start_node("n2", booted=True)
        stack.start_probe("n2")
    assert_runs(stack, job_id, within_s=BOOTED_S)
