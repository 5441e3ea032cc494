"""A job that needs all CPUs of a node gets its turn in a stream of jobs outside Roost."""

import time
from collections.abc import Iterator
from itertools import cycle

import pytest
from tests.e2e.site.bed import CPU_COUNT, cleared_afterwards, queue, site

from roost_demo.stack import NodeKind, Stack
from roost_slurm.testing.site_plan import AccountingPlan, PriorityPlan

pytestmark = [pytest.mark.slurm, pytest.mark.nvml, pytest.mark.timeout(180)]

NODES = (NodeKind(name="n1", topology="nvswitch8", cpu_count=CPU_COUNT),)
STREAM_CPU_COUNT = 8
TURN_S = 60.0  # 8 to 10 s on plain Slurm


@pytest.fixture(scope="module", params=["multifactor", "basic"])
def cluster(request: pytest.FixtureRequest) -> Iterator[Stack]:
    is_basic = request.param == "basic"  # first come, first served
    accounting = None if is_basic else AccountingPlan()
    priority = None if is_basic else PriorityPlan(flags=("ACCRUE_ALWAYS",))
    with site(nodes=NODES, accounting=accounting, priority=priority) as stack:
        yield stack


@pytest.fixture
def stack(cluster: Stack) -> Iterator[Stack]:
    with cleared_afterwards(cluster):
        yield cluster


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
        assert time.monotonic() < deadline_s, queue(stack.slurm) + stack.log("roostd")[-8000:]
        feed()
        time.sleep(0.2)
