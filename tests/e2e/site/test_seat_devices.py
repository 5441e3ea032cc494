"""Two jobs on a GPU, with the devices cgroup and without: what they may open, what CUDA is told."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.conftest import LocalSlurmFactory
from tests.e2e.ledger import until

from roost_slurm.hooks import hook_seats
from roost_slurm.site import gres
from roost_slurm.site.inventory import Gpu, NodeGpus
from roost_slurm.testing.cluster_plan import ClusterPlan, NodePlan
from roost_slurm.testing.local_slurm import LocalSlurm

pytestmark = pytest.mark.slurm

DEVICES_CGROUP = Path("/sys/fs/cgroup/devices")  # version 1: what this release of Slurm can use
# Prints a letter a GPU, A where it may be opened (no driver: ENXIO) and D where not (EPERM).
SCRIPT = """#!/usr/bin/env python3
import errno, os, sys
if len(sys.argv) == 1:
    sys.exit(os.system(f"python3 {{__file__}} batch; srun python3 {{__file__}} step; sleep 300"))
def letter(index):
    try:
        os.open(f"{folder}/gpu{{index}}", os.O_RDONLY)
    except OSError as error:
        return {{errno.EPERM: "D", errno.ENXIO: "A"}}.get(error.errno, "?")
    return "A"
print("".join(map(letter, range(4))), os.environ["CUDA_VISIBLE_DEVICES"], flush=True)
"""
FIRST, SECOND = "--gres=gpu:g1:1,gpu:g3:1,gputoken:2", "--gres=gpu:s1:1,gpu:s3:1"


@pytest.fixture
def node_name() -> Iterator[str]:
    """A name that no other cluster has: the kernel keeps what an unclean end leaves of it."""
    name = f"d{os.getpid()}"
    yield name
    for folder, _, _ in os.walk(DEVICES_CGROUP / f"slurm_{name}", topdown=False):
        with suppress(OSError):  # a process is still ending
            os.rmdir(folder)


def plan(folder: Path, name: str, *, is_constrained: bool) -> ClusterPlan:
    node = NodeGpus(name, tuple(Gpu(minor_number=i, model="x") for i in range(4)))
    (folder / "seats").mkdir()
    for i in range(4):
        os.mknod(folder / f"gpu{i}", 0o666 | 0o020000, os.makedev(240, i))
        os.mknod(folder / "seats" / f"seat{i}", 0o666 | 0o020000, os.makedev(241, i))
    text = gres.gres_conf([node], device_prefix=f"{folder}/gpu", seats=True)
    return ClusterPlan(
        nodes=(NodePlan(name=name, gres=gres.node_gres(node, seats=True, counted={})),),
        gres_conf=text.replace(hook_seats.SEAT_FOLDER, f"{folder}/seats"),
        gres_types="gpu,gputoken",
        extra_lines=("TaskPlugin=task/cgroup",) if is_constrained else (),
        cgroup_lines=("ConstrainDevices=yes",) if is_constrained else (),
    )


def told(slurm: LocalSlurm, job_id: str) -> list[str]:
    """What the job's script and its step printed."""
    slurm.wait_for_state(job_id, "RUNNING")
    until(lambda: len(slurm.output(job_id).splitlines()) == 2, "script and step have spoken")
    return slurm.output(job_id).splitlines()


@pytest.mark.parametrize(
    ("is_constrained", "first", "second"),
    [
        # Where Slurm hides the other GPUs, CUDA counts from 0: right on both seats.
        pytest.param(True, "DADA 0,1", "DADA 0,1", id="yes"),
        # Else Slurm tells CUDA numbers of seats, which TaskProlog corrects: test_hooks.
        pytest.param(False, "AAAA 1,3", "AAAA 5,7", id="no"),
    ],
)
def test_both_jobs_have_the_same_gpus_in_script_and_step(
    local_slurm_factory: LocalSlurmFactory,
    tmp_path: Path,
    node_name: str,
    first: str,
    second: str,
    *,
    is_constrained: bool,
) -> None:
    if is_constrained and not os.access(DEVICES_CGROUP / "devices.allow", os.W_OK):
        pytest.skip(f"{DEVICES_CGROUP} cannot be written here")
    slurm = local_slurm_factory(plan(tmp_path, node_name, is_constrained=is_constrained))
    script = SCRIPT.format(folder=tmp_path)
    host = slurm.submit(FIRST, script=script)
    assert told(slurm, host) == [first] * 2
    guest = slurm.submit(SECOND, script=script)
    assert told(slurm, guest) == [second] * 2
    slurm.run("scancel", host, guest)
