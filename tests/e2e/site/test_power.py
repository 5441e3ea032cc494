"""Nodes that Slurm has powered down wake for a job that waits for Roost."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
from tests.e2e.ledger import until
from tests.e2e.site.bed import assert_runs, cleared_afterwards, nodes_of, occupy, site

from roost_demo.stack import Stack
from roost_slurm.testing.site_plan import PowerSavingPlan
from roost_slurm.text import commands
from roost_slurm.text.scontrol import ShownNode, parse_nodes
from roost_slurm.text.versions import SlurmVersion, parse_version

pytestmark = [pytest.mark.slurm, pytest.mark.nvml, pytest.mark.timeout(900)]

# slurmctld looks every 30 s whether the nodes of a job are up, and may need two looks.
BOOTED_S = 360.0
# slurmd tells for how many whole seconds the node is up. Where that is before the second in which
# slurmctld asked for the boot, slurmctld still waits for it, until ResumeTimeout.
BOOT_S = 3.0
POWER_S = 180.0  # for a step of Slurm's power saving, on a busy machine
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


@dataclass
class SleepingNode:
    """A node that Slurm has powered down."""

    stack: Stack
    name: str
    resumed_count: int
    is_off: bool = True

    def wait_until_resumed(self) -> None:
        """Wait until Slurm asks for its boot."""
        until(self.is_resumed, "it is resumed", POWER_S)

    def is_resumed(self) -> bool:
        """Whether Slurm has asked for its boot since it is powered down."""
        return _count(self.stack, "resume", self.name) > self.resumed_count

    def boot(self) -> None:
        """Start what a boot starts. May be called twice."""
        if self.is_off:
            self.is_off = False
            time.sleep(BOOT_S)
            self.stack.slurm.start_node(self.name, booted=True)
            self.stack.start_probe(self.name)


@contextmanager
def powered_down(stack: Stack, name: str) -> Iterator[SleepingNode]:
    """Power a node down; whatever happens it is up again afterwards, for the next test or try."""
    slurm, suspended_count = stack.slurm, _count(stack, "suspend", name)
    slurm.run("scontrol", "update", f"nodename={name}", "state=power_down")
    until(lambda: _count(stack, "suspend", name) > suspended_count, "it is suspended", POWER_S)
    node = SleepingNode(stack, name, _count(stack, "resume", name))
    slurm.stop_node(name)
    try:
        stack.stop_probe(name)
        yield node
    finally:
        if not node.is_resumed():
            _wait(lambda: _is_off(stack, name))  # Slurm does not turn back while it powers down
            slurm.run("scontrol", "update", f"nodename={name}", "state=power_up", check=False)
            _wait(node.is_resumed)
        node.boot()
        _wait(lambda: _is_up(stack, name))


def _count(stack: Stack, verb: str, name: str) -> int:
    return stack.slurm.power_requests().count((verb, name))


def _wait(is_so: Callable[[], bool]) -> None:
    """Wait without an error: the failure of the test counts, not that of its clean-up."""
    deadline_s = time.monotonic() + BOOTED_S
    while not is_so() and time.monotonic() < deadline_s:
        time.sleep(0.5)


def _is_up(stack: Stack, name: str) -> bool:
    node = _shown(stack, name)
    if node is None:
        return False
    if node.state.startswith("down"):
        stack.slurm.run("scontrol", "update", f"nodename={name}", "state=resume", check=False)
    return node.is_open and not node.is_asleep


def _is_off(stack: Stack, name: str) -> bool:
    node = _shown(stack, name)
    return node is None or "powered_down" in node.state


def _shown(stack: Stack, name: str) -> ShownNode | None:
    """Return a node as Slurm shows it; None: it hides the node, which is a cloud node and off."""
    nodes = parse_nodes(stack.slurm.run(*commands.show_nodes()))
    return next((node for node in nodes if node.name == name), None)


def test_an_awake_node_comes_before_one_that_sleeps(stack: Stack) -> None:
    """Though the one that sleeps comes first by name, by which ties are broken else."""
    with powered_down(stack, "n1") as asleep:
        until(lambda: _is_off(stack, asleep.name), "it is off", POWER_S)
        job_ids = [stack.slurm.submit("--gres=gpu:2") for _ in range(3)]
        assert_runs(stack, *job_ids)
        assert {name for job_id in job_ids for name in nodes_of(stack, job_id)} == {"n2"}
        assert not asleep.is_resumed()


def test_a_waiting_job_wakes_a_node(stack: Stack) -> None:
    with powered_down(stack, "n1") as asleep:
        until(lambda: _is_off(stack, asleep.name), "it is off", POWER_S)
        occupy(stack, "n2")
        job_id = stack.slurm.submit("--gres=gpu:2")
        asleep.wait_until_resumed()
        asleep.boot()
        assert_runs(stack, job_id, within_s=BOOTED_S)


def test_a_waiting_job_wakes_a_cloud_node_though_slurm_may_hide_it(stack: Stack) -> None:
    """Slurm alone would wake it as soon as no other node has the GPUs."""
    slurm = stack.slurm
    is_hidden_when_off = parse_version(slurm.run(*commands.version())) < SHOWN_SINCE
    with powered_down(stack, CLOUD) as asleep:
        if is_hidden_when_off:
            until(lambda: CLOUD not in slurm.run("sinfo", "-h", "-N", "-o", "%N"), "off", POWER_S)
            until(lambda: "nodes_hidden" in stack.log("roostd"), "roostd knows of it", POWER_S)
        else:
            until(lambda: _is_off(stack, CLOUD), "it is off", POWER_S)
        occupy(stack, "n1")
        slurm.submit("--gres=gpu:2")
        asleep.wait_until_resumed()


def test_a_test_that_fails_leaves_its_node_up(stack: Stack) -> None:
    """So that the next try begins as the first."""
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), powered_down(stack, CLOUD):
            raise ZeroDivisionError
        assert _is_up(stack, CLOUD)
    slurm = stack.slurm
    job_id = slurm.submit("--gres=gpu:2", "-w", CLOUD)
    assert_runs(stack, job_id, within_s=BOOTED_S)
