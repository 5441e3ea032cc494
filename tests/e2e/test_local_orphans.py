"""A pin whose roostd died at once, on a cluster where no job ends: the timer's command ends it."""

import asyncio
import configparser
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conftest import LocalSlurmFactory
from tests.daemon.slurm.slurm_clusters import (
    PLAN,
    RealCluster,
    allocation,
    gpus,
    placement,
    started,
)
from tests.e2e.ledger import end_jobs

from roost_engine.domain.model import JobId
from roost_slurm.hooks import heartbeat
from roost_slurm.hooks.heartbeat import Heartbeat
from roost_slurm.testing.local_slurm import LocalSlurm
from roost_slurm.text import commands
from roost_slurm.text.squeue import SlurmJobState, parse_queue

pytestmark = pytest.mark.slurm

UNITS = Path(__file__).parents[2] / "slurm_glue" / "systemd"
DEAD_S = 60  # how old the last beat is


@pytest.fixture(scope="module")
def real(local_slurm_factory: LocalSlurmFactory) -> LocalSlurm:
    return local_slurm_factory(PLAN)


@pytest.fixture
def slurm(real: LocalSlurm) -> Iterator[LocalSlurm]:
    yield real
    end_jobs(real)


def unit(name: str) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(UNITS / name)
    return parser


def run_as_the_timer_does(slurm: LocalSlurm, folder: Path) -> list[str]:
    """Run the command of the unit; returns the jobs that it has unpinned."""
    program, *arguments = shlex.split(unit("roost-unpin.service")["Service"]["ExecStart"])
    assert program == "/usr/bin/roost-slurm"
    return run_roost_slurm(slurm, folder, *arguments)


def run_roost_slurm(slurm: LocalSlurm, folder: Path, *arguments: str) -> list[str]:
    argv = [sys.executable, "-m", "roost_slurm.cli", *arguments, "--runtime-folder", str(folder)]
    env = {**os.environ, "SLURM_CONF": str(slurm.folder.slurm_conf)}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.split()


async def pinned_to_busy_gpus(cluster: RealCluster) -> JobId:
    """A job that waits for GPUs 0 and 1 of n1, which another job has taken in that moment."""
    blocker = cluster.submit("--gres=gpu:2")
    await cluster.port.pin(blocker, placement("n1", 0, 1))
    assert gpus(await started(cluster.port, blocker)) == {"n1": (0, 1)}
    job_id = cluster.submit("--gres=gpu:2")
    await cluster.port.pin(job_id, placement("n1", 0, 1))
    return job_id


async def test_a_job_pinned_just_before_roostd_died_starts_though_no_job_ends(
    slurm: LocalSlurm, tmp_path: Path
) -> None:
    cluster = RealCluster(slurm)
    job_id = await pinned_to_busy_gpus(cluster)
    await asyncio.sleep(3.0)
    assert slurm.state(job_id) == "PENDING", "it waits for exact GPUs, though three nodes are empty"
    heartbeat.write(
        tmp_path / "heartbeat", Heartbeat(at_epoch_s=int(time.time()) - DEAD_S, lease_s=60)
    )

    assert run_as_the_timer_does(slurm, tmp_path) == [job_id]
    slurm.wait_for_state(job_id, "RUNNING")
    ((node, indices),) = gpus(await allocation(cluster.port, job_id)).items()
    assert node != "n1" or indices != (0, 1)
    assert run_as_the_timer_does(slurm, tmp_path) == []


async def test_a_pin_of_a_roostd_that_lives_is_left_alone(
    slurm: LocalSlurm, tmp_path: Path
) -> None:
    job_id = await pinned_to_busy_gpus(RealCluster(slurm))
    heartbeat.write(tmp_path / "heartbeat", Heartbeat(at_epoch_s=int(time.time()), lease_s=60))
    assert run_as_the_timer_does(slurm, tmp_path) == []
    assert slurm.state(job_id) == "PENDING"


def test_leases_of_a_roostd_that_was_stopped_end_and_a_users_begin_stays(
    slurm: LocalSlurm, tmp_path: Path
) -> None:
    begin_s = int(time.time()) + 7_200
    leased, later = slurm.submit("--gres=gpu:1"), slurm.submit("--gres=gpu:1")  # leased by the plan
    two_hours = ("StartTime=now+7200", f"AdminComment=roost:lease begin={begin_s}")
    slurm.run("scontrol", "update", f"jobid={later}", *two_hours)
    assert slurm.state(leased) == "PENDING"

    assert set(run_roost_slurm(slurm, tmp_path, "release")) == {leased, later}
    slurm.wait_for_state(leased, "RUNNING")
    (job,) = parse_queue(slurm.run(*commands.queue(), "-j", later)).jobs
    assert job.state is SlurmJobState.PENDING
    assert job.start_epoch_s == pytest.approx(begin_s, abs=60)
    assert run_roost_slurm(slurm, tmp_path, "release") == []


def test_the_timer_takes_a_pin_back_within_a_lease() -> None:
    timer = unit("roost-unpin.timer")["Timer"]
    latest_s = heartbeat.FRESH_S + int(timer["OnUnitInactiveSec"]) + int(timer["AccuracySec"])
    assert latest_s == 26  # as docs/faults.md says; the default of slurm.lease_s is longer
