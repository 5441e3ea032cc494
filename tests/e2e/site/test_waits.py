"""A wait for better GPUs outlives reloads and restarts: its cap, its deadline and its reason."""

import os
import signal
import time
from collections.abc import Iterator

import pytest
from tests.e2e.ledger import until
from tests.e2e.site.bed import (
    WAITS,
    assert_runs,
    cleared_afterwards,
    pin_timers,
    site,
    told,
    wait_for_one_node,
)

from roost_demo.stack import Stack

pytestmark = [pytest.mark.slurm, pytest.mark.nvml, pytest.mark.timeout(240)]

CAP_S = 60.0  # two restarts, each of which may take twenty on a busy machine
RELOAD_EVERY_S = 4.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Stack]:
    gate = {"kind": "delay", "idle_frac": 1.0, "longest_s": CAP_S}
    # The default placement would offer no second node, so that no gate would be asked.
    with site(settings={"gate": gate, "placement": {"kind": "consolidation"}}) as stack:
        pin_timers(stack)
        yield stack


@pytest.fixture
def stack(cluster: Stack) -> Iterator[Stack]:
    with cleared_afterwards(cluster):
        for _ in cluster.nodes:
            holder = cluster.slurm.submit("--gres=gpu:5")
            cluster.slurm.wait_for_state(holder, "RUNNING")
        yield cluster


@pytest.fixture
def job_id(stack: Stack) -> str:
    return wait_for_one_node(stack)


def reload(stack: Stack) -> None:
    os.kill(stack.roostd_pid, signal.SIGHUP)


def restart(stack: Stack) -> None:
    stack.stop_roostd()
    stack.start_roostd()


def kill(stack: Stack) -> None:
    stack.stop_roostd(signal.SIGKILL)
    stack.start_roostd()


def test_a_cap_ends_the_wait_though_reloads_come_more_often(stack: Stack, job_id: str) -> None:
    deadline_s = time.monotonic() + CAP_S + 60.0
    while stack.slurm.state(job_id) != "RUNNING":
        assert time.monotonic() < deadline_s, told(stack, job_id)
        reload(stack)
        time.sleep(RELOAD_EVERY_S)


def test_a_wait_keeps_its_reason_and_its_deadline(stack: Stack, job_id: str) -> None:
    asked_s, before = time.monotonic(), told(stack, job_id)
    answered_s = time.monotonic()
    for disturb in (reload, restart, kill):
        time.sleep(1.0)
        disturb(stack)
        until(lambda: WAITS in told(stack, job_id).reason, "it says what it waits for")
        since_s = time.monotonic()
        after = told(stack, job_id)
        # What roostd tells is of an instant between the question and the answer.
        least_s = before.wait_left_s - (time.monotonic() - asked_s)
        most_s = before.wait_left_s - (since_s - answered_s)
        assert least_s - 1.5 < after.wait_left_s < most_s + 1.5, disturb.__name__
    assert_runs(stack, job_id, within_s=after.wait_left_s + 60.0)
