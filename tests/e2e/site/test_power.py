"""Nodes that Slurm has powered down wake for a job that waits for Roost."""

from collections.abc import Iterator

import pytest
from tests.e2e.ledger import until
from tests.e2e.site.bed import assert_runs, cleared_afterwards, nodes_of, occupy, site

from roost_demo.stack import Stack
from roost_slurm.testing.site_plan import PowerSavingPlan
from roost_slurm.text import commands
from roost_slurm.text.versions import SlurmVersion, parse_version

pytestmark = [pytest.mark.slurm, pytest.mark.nvml]

# slurmctld looks every 30 s whether the nodes of a job are up, and may need two looks.
BOOTED_S = 120.0
# On a busy machine a node that has booted answers slurmctld's ping after more than a minute.
POWER_SAVING = PowerSavingPlan(suspend_after_s=3600, resume_timeout_s=300)
CLOUD = "n2"
SHOWN_SINCE = SlurmVersion(23, 2)  # before, Slurm shows it nowhere while it is powered down


@pytest.fixture(scope="module")
def cluster() -> Iterator[Stack]:
    with site(power_saving=POWER_SAVING, cloud_nodes=(CLOUD,)) as stack:
        yield stack


@pytest.fixture
def stack(cluster: Stack) -> Iterator[Stack]:
    with cleared_afterwards(cluster):
        yield cluster


@pytest.fixture(scope="module")
def asleep(cluster: Stack) -> str:
    """The first node by name, powered down: it stays so until a test wakes it."""
    slurm, name = cluster.slurm, "n1"
    slurm.run("scontrol", "update", f"nodename={name}", "state=power_down")
    until(lambda: ("suspend", name) in slurm.power_requests(), "it is suspended")
    slurm.stop_node(name)
    cluster.stop_probe(name)
    until(lambda: "POWERED_DOWN" in slurm.run("scontrol", "show", "node", name), "it is off")
    return name


def test_an_awake_node_comes_before_one_that_sleeps(stack: Stack, asleep: str) -> None:
    """Though the one that sleeps comes first by name, by which ties are broken else."""
    job_ids = [stack.slurm.submit("--gres=gpu:2") for _ in range(3)]
    assert_runs(stack, *job_ids)
    assert {name for job_id in job_ids for name in nodes_of(stack, job_id)} == {"n2"}
    assert ("resume", asleep) not in stack.slurm.power_requests()


@pytest.mark.timeout(180)
def test_a_waiting_job_wakes_a_node(stack: Stack, asleep: str) -> None:
    slurm = stack.slurm
    occupy(stack, "n2")
    job_id = slurm.submit("--gres=gpu:2")
    try:
        until(lambda: ("resume", asleep) in slurm.power_requests(), "it is resumed")
    finally:
        slurm.start_node(asleep, booted=True)
        stack.start_probe(asleep)
    assert_runs(stack, job_id, within_s=BOOTED_S)


@pytest.mark.timeout(180)
def test_a_waiting_job_wakes_a_cloud_node_though_slurm_may_hide_it(stack: Stack) -> None:
    """Slurm alone would wake it as soon as no other node has the GPUs."""
    slurm = stack.slurm
    is_hidden_when_off = parse_version(slurm.run(*commands.version())) < SHOWN_SINCE
    slurm.run("scontrol", "update", f"nodename={CLOUD}", "state=power_down")
    until(lambda: ("suspend", CLOUD) in slurm.power_requests(), "it is suspended")
    slurm.stop_node(CLOUD)
    stack.stop_probe(CLOUD)
    if is_hidden_when_off:
        until(lambda: CLOUD not in slurm.run("sinfo", "-h", "-N", "-o", "%N"), "it is hidden")
        until(lambda: "nodes_hidden" in stack.log("roostd"), "roostd knows of it")
    else:
        until(lambda: "POWERED_DOWN" in slurm.run("scontrol", "show", "node", CLOUD), "it is off")
    occupy(stack, "n1")
    slurm.submit("--gres=gpu:2")
    try:
        until(lambda: ("resume", CLOUD) in slurm.power_requests(), "it is resumed")
    finally:
        slurm.start_node(CLOUD, booted=True)
        stack.start_probe(CLOUD)
