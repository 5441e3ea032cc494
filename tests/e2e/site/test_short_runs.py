"""Short jobs of one GPU are Slurm's to start, until another job waits."""

import time
from collections.abc import Iterator

import pytest
from tests.e2e.ledger import until
from tests.e2e.site.bed import cleared_afterwards, queue, site, told

from roost_demo.stack import Stack

pytestmark = [pytest.mark.slurm, pytest.mark.nvml, pytest.mark.timeout(240)]

OPENED = "no other job waits"
TASK_COUNT = 900


@pytest.fixture(scope="module")
def cluster() -> Iterator[Stack]:
    with site() as stack:
        yield stack


@pytest.fixture
def stack(cluster: Stack) -> Iterator[Stack]:
    with cleared_afterwards(cluster):
        yield cluster


def leased_count(stack: Stack, array: str) -> int:
    """The waiting tasks of an array that a lease keeps from starting."""
    shown = stack.slurm.run("squeue", "-h", "-r", "-j", array, "-t", "PD", "-O", "EligibleTime:30")
    now = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(time.time() + 2))
    return sum(line.strip() > now for line in shown.splitlines())


def test_short_tasks_are_slurms_until_another_job_waits_and_again_once_it_runs(
    stack: Stack,
) -> None:
    last = f"_{TASK_COUNT - 1}"
    options = (f"--array=0-{TASK_COUNT - 1}%14", "--gres=gpu:1", "-o", "/dev/null")
    array = stack.slurm.submit(*options, script="sleep 0.5")
    until(lambda: OPENED in told(stack, array + last).reason, "the tasks are opened")
    until(lambda: leased_count(stack, array) == 0, queue(stack.slurm))

    # It cannot start before tasks end on all GPUs of a node.
    other = stack.slurm.submit("--gres=gpu:8")
    stack.slurm.wait_for_state(other, "RUNNING", timeout_s=60.0)
    assert " was=TresPerNode:" in stack.slurm.show_job(other)  # Roost has placed it
    until(lambda: OPENED in told(stack, array + last).reason, "the tasks are opened again")
    stack.slurm.run("scancel", array, other)


def test_tasks_get_a_lease_again_while_another_job_waits(stack: Stack) -> None:
    last = f"_{TASK_COUNT - 1}"
    options = (f"--array=0-{TASK_COUNT - 1}%14", "--gres=gpu:1", "-o", "/dev/null")
    array = stack.slurm.submit(*options, script="sleep 0.5")
    until(lambda: OPENED in told(stack, array + last).reason, "the tasks are opened")

    blocker = stack.slurm.submit("--gres=gpu:8", "-w", "n1")
    stack.slurm.wait_for_state(blocker, "RUNNING", timeout_s=60.0)
    waiting = stack.slurm.submit("--gres=gpu:8", "-w", "n1")
    until(lambda: OPENED not in told(stack, array + last).reason, "they are closed")
    until(lambda: leased_count(stack, array) > TASK_COUNT / 2, queue(stack.slurm))
    stack.slurm.run("scancel", waiting)
    until(lambda: OPENED in told(stack, array + last).reason, "they are opened again")
