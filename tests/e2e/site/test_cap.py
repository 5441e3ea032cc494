"""The cap: plain Slurm starts what Roost keeps waiting for a reason that Slurm does not have."""

import time
from collections.abc import Iterator

import pytest
from tests.e2e.ledger import until
from tests.e2e.site.bed import (
    GPU_COUNT,
    WAITS,
    assert_runs,
    cleared_afterwards,
    pin_timers,
    site,
    told,
    wait_for_one_node,
)

from roost_demo.stack import Stack
from roost_proto.v1 import operator_pb2 as pb

pytestmark = [pytest.mark.slurm, pytest.mark.nvml]

HAND_OVER_S = 3.0
POLL_S = 3.0  # a question a second
# Until the first question of a job, from the last one to the hand-over, and until Slurm starts it.
FOUND_S = 3.0 + POLL_S / 3 + POLL_S / 3 + 2.0 + 2.0
# Questions take 2 % of the time at most: on a busy machine, where each takes long, they are rarer.
AT_THE_LATEST_S = 50.0  # less than a lease
LEFT = "left to Slurm, which could have started it"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Stack]:
    settings = {
        "slurm": {"hand_over_s": HAND_OVER_S, "poll_interval_s": POLL_S},
        "gate": {"kind": "delay", "idle_frac": 1.0, "longest_s": 120.0},
        "placement": {"kind": "consolidation"},  # offers two nodes where one is not free
    }
    with site(settings=settings) as stack:
        pin_timers(stack)
        yield stack


@pytest.fixture
def stack(cluster: Stack) -> Iterator[Stack]:
    with cleared_afterwards(cluster):
        yield cluster


@pytest.fixture
def broken(stack: Stack) -> Iterator[Stack]:
    """Every GPU fails by its probe's word, of which Slurm learns nothing."""
    gpus = [(driver, index) for driver in stack.drivers.values() for index in range(8)]
    try:
        for driver, index in gpus:
            driver.lose(index)
        until(lambda: fault_count(stack) == GPU_COUNT, "the probes report it")
        yield stack
    finally:
        for driver, index in gpus:
            driver.restore(index)
        for node in stack.nodes:  # a probe takes a lost GPU for failed until it starts again
            stack.stop_probe(node.name)
            stack.start_probe(node.name)
        until(lambda: not fault_count(stack), "the probes report them healthy")


def fault_count(stack: Stack) -> int:
    """How many GPUs roostd takes for failed."""
    requests = [pb.GetNodeRequest(name=node.name) for node in stack.nodes]
    nodes = [stack.operator().GetNode(request, timeout=60.0) for request in requests]
    return sum(bool(gpu.fault) for node in nodes for gpu in node.gpus)


def test_a_job_that_only_roost_keeps_waiting_is_left_to_plain_slurm(broken: Stack) -> None:
    job_id = broken.slurm.submit("--gres=gpu:2", "-t", "10")
    time.sleep(HAND_OVER_S)
    assert broken.slurm.state(job_id) == "PENDING"
    assert_runs(broken, job_id, within_s=AT_THE_LATEST_S)
    assert LEFT in told(broken, job_id).reason


def test_a_job_that_a_gate_defers_is_not_left_to_slurm(stack: Stack) -> None:
    for _ in stack.nodes:
        holder = stack.slurm.submit("--gres=gpu:5")
        stack.slurm.wait_for_state(holder, "RUNNING")
    job_id = wait_for_one_node(stack)
    time.sleep(HAND_OVER_S + FOUND_S + POLL_S)
    assert WAITS in told(stack, job_id).reason
    assert stack.slurm.state(job_id) == "PENDING"
