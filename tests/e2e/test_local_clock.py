"""The wall clock of a real Slurm and of roostd is set forward and back, an hour at a time.

A preloaded library gives every process of this cluster a wall clock of its own (set_clock.c).
Set back, slurmctld 22.05 starts no job until its clock is where it was, also without Roost.
"""

import shutil
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.conftest import missing
from tests.e2e.ledger import assert_all_completed, job_states, submit, wait_until_over
from tests.e2e.two_nodes import LEASE_S, NODES

from roost_demo.stack import Stack
from roost_proto.v1 import operator_pb2
from roost_slurm.testing.availability import LocalSlurmUnavailable
from roost_slurm.testing.cluster_plan import ClusterPlan

pytestmark = [pytest.mark.slurm, pytest.mark.nvml, pytest.mark.timeout(400)]

HOUR_S = 3_600
SOURCE = Path(__file__).with_name("set_clock.c")


class Clock:
    """The wall clock of one cluster.

    Args:
        folder: that every user may read.
    """

    def __init__(self, folder: Path) -> None:
        self._file, self._library = folder / "offset", folder / "set_clock.so"
        compile_ = ("gcc", "-shared", "-fPIC", "-O1", "-o", str(self._library), str(SOURCE), "-ldl")
        subprocess.run(compile_, check=True)
        self._file.write_bytes(bytes(8))
        self._file.chmod(0o644)

    def set(self, ahead_s: int) -> None:
        """Set it this much ahead of the machine's."""
        with self._file.open("r+b") as file:
            file.write(struct.pack("=q", ahead_s))
        time.sleep(2.0)  # every daemon has looked at it

    def plan(self, plan: ClusterPlan) -> ClusterPlan:
        environment = {"LD_PRELOAD": str(self._library), "SET_CLOCK_FILE": str(self._file)}
        return replace(plan, environment=environment)


@pytest.fixture(scope="module")
def site() -> Iterator[tuple[Stack, Clock]]:
    if shutil.which("gcc") is None:
        missing("gcc is not installed")
    with tempfile.TemporaryDirectory(prefix="roost-clock-") as text:
        folder = Path(text)
        folder.chmod(0o755)  # slurmctld and munged, other users, read the file
        clock = Clock(folder)
        try:
            with Stack(NODES, lease_s=LEASE_S, amend_plan=clock.plan) as stack:
                yield stack, clock
        except LocalSlurmUnavailable as error:
            missing(str(error))


def test_every_job_runs_when_the_clock_is_set_forward(
    site: tuple[Stack, Clock],
) -> None:
    stack, clock = site
    for ahead_s in (HOUR_S, 2 * HOUR_S):
        jobs = {submit(stack.slurm, "--gres=gpu:8", command="sleep 6"): 8 for _ in range(2)}
        jobs |= {submit(stack.slurm, f"--gres=gpu:{count}"): count for count in (2, 4, 8)}
        clock.set(ahead_s)
        jobs |= {submit(stack.slurm, "--gres=gpu:3"): 3}
        wait_until_over(stack.slurm, jobs, 120.0)
        assert_all_completed(stack.slurm, jobs)
    assert "wall_clock_set" in stack.log("roostd")


def test_a_begin_time_holds_by_the_clock_that_is_set(site: tuple[Stack, Clock]) -> None:
    stack, clock = site
    job_id = submit(stack.slurm, "--begin=now+1800", "--gres=gpu:2")
    others = {submit(stack.slurm, f"--gres=gpu:{count}"): count for count in (1, 8, 3)}
    wait_until_over(stack.slurm, others, 120.0)
    assert_all_completed(stack.slurm, others)
    assert job_states(stack.slurm)[job_id] == "PENDING"
    clock.set(3 * HOUR_S)
    wait_until_over(stack.slurm, [job_id], 120.0)
    assert_all_completed(stack.slurm, {job_id: 2})


def test_no_job_is_lost_while_the_clock_is_set_back(site: tuple[Stack, Clock]) -> None:
    stack, clock = site
    clock.set(4 * HOUR_S)
    jobs = {submit(stack.slurm, "--gres=gpu:8", command="sleep 4"): 8 for _ in range(3)}
    clock.set(3 * HOUR_S)
    jobs |= {submit(stack.slurm, f"--gres=gpu:{count}"): count for count in (2, 3)}
    time.sleep(2 * LEASE_S)
    assert jobs.keys() <= job_states(stack.slurm).keys()
    assert is_served(stack)
    clock.set(4 * HOUR_S)
    wait_until_over(stack.slurm, jobs, 120.0)
    assert_all_completed(stack.slurm, jobs)


def is_served(stack: Stack) -> bool:
    """Whether roostd answers."""
    return bool(stack.operator().GetStatus(operator_pb2.GetStatusRequest(), timeout=10.0).version)
