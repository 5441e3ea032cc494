"""What a waiting job gains with time under slurmdbd and multifactor priority: age, and its turn."""

import time
from collections.abc import Iterator
from itertools import cycle

import pytest
from tests.e2e.site.bed import CPU_COUNT, cleared_afterwards, occupy, queue, site, until

from roost_demo.stack import NodeKind, Stack
from roost_slurm.testing.site_plan import AccountingPlan, PriorityPlan

pytestmark = [pytest.mark.slurm, pytest.mark.nvml, pytest.mark.timeout(180)]

NODES = (NodeKind(name="n1", topology="nvswitch8", cpu_count=CPU_COUNT),)
STREAM_CPU_COUNT = 8
TURN_S = 40.0  # 8 to 10 s on plain Slurm


@pytest.fixture(scope="module")
def cluster() -> Iterator[Stack]:
    with site(
        nodes=NODES,
        accounting=AccountingPlan(),
        priority=PriorityPlan(flags=("ACCRUE_ALWAYS",)),
    ) as stack:
        yield stack


@pytest.fixture
def stack(cluster: Stack) -> Iterator[Stack]:
    with cleared_afterwards(cluster):
        yield cluster


def ages(stack: Stack) -> dict[str, float]:
    """The age factor of each waiting job's priority, weighted."""
    rows = stack.slurm.run("sprio", "-h", "-o", "%i %A").splitlines()
    return {job_id: float(age) for job_id, age in map(str.split, rows)}


def test_the_priority_of_a_waiting_job_grows_as_without_roost(stack: Stack) -> None:
    occupy(stack, "n1")
    managed = stack.slurm.submit("--gres=gpu:2")
    # Names its GPUs itself, so Roost leaves it to Slurm.
    unmanaged = stack.slurm.submit("--gres=gpu:g0:1,gpu:g1:1")
    # Slurm computes priorities anew once a minute.
    until(lambda: ages(stack).get(unmanaged, 0.0) > 2000.0, "age counts", timeout_s=130.0)
    found = ages(stack)
    assert found[managed] == pytest.approx(found[unmanaged], rel=0.1), queue(stack.slurm)


def test_a_job_that_needs_all_cpus_gets_its_turn_in_a_stream_of_cpu_jobs(stack: Stack) -> None:
    stream = ("-J", "stream", "-c", str(STREAM_CPU_COUNT), "-t", "1")
    durations_s = cycle((2, 3, 5, 7))  # so that never all CPUs are free at once

    def feed() -> None:
        waiting = stack.slurm.run("squeue", "-h", "-t", "PENDING", "-n", "stream").splitlines()
        for _ in range(CPU_COUNT // STREAM_CPU_COUNT - len(waiting)):
            stack.slurm.submit(*stream, script=f"sleep {next(durations_s)}")

    for _ in range(2):
        feed()
        time.sleep(1.5)
    whole = stack.slurm.submit("--gres=gpu:8", "-c", str(CPU_COUNT), "-t", "1")
    deadline_s = time.monotonic() + TURN_S
    while stack.slurm.state(whole) != "RUNNING":
        assert time.monotonic() < deadline_s, queue(stack.slurm)
        feed()
        time.sleep(0.2)
