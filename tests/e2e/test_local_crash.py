"""Killed, hung or lied to at any step: no job is lost, doubled, or started without its GPUs."""

import os
import random
import signal
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conftest import missing
from tests.e2e.ledger import assert_all_completed, submit, wait_until_over

from roost_demo.stack import NodeKind, Stack
from roost_slurm.testing.local_slurm import LocalSlurmUnavailable

pytestmark = [pytest.mark.slurm, pytest.mark.nvml]

LEASE_S = 10
NODES = (
    NodeKind(name="n1", topology="bridges8"),
    NodeKind(name="n2", topology="cube8"),
)
GPU_COUNTS = (2, 4, 1, 8, 2, 3, 6, 1)


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    try:
        with Stack(NODES, lease_s=LEASE_S) as running:
            yield running
    except LocalSlurmUnavailable as error:
        missing(str(error))


@pytest.fixture
def roostd(stack: Stack) -> Iterator[Stack]:
    """The stack, with a fresh daemon before and a healthy one after the test."""
    yield stack
    stack.stop_roostd(signal.SIGKILL)
    stack.start_roostd()


def submit_all(stack: Stack) -> dict[str, int]:
    return {
        submit(stack.slurm, f"--gres=gpu:{count}", command="sleep 0.3"): count
        for count in GPU_COUNTS
    }


POINTS = ("after_decide", "after_journal", "after_set", "after_pin", "after_renew")


@pytest.mark.parametrize("point", POINTS)
def test_every_job_starts_by_its_lease_when_roostd_dies_for_good(roostd: Stack, point: str) -> None:
    roostd.stop_roostd()
    roostd.start_roostd(ROOST_FAILPOINT=point)
    filler = (
        [submit(roostd.slurm, "--gres=gpu:8", command="sleep 6") for _ in range(3)]
        if point == "after_renew"
        else []
    )
    jobs = submit_all(roostd) | dict.fromkeys(filler, 8)
    wait_for_death(roostd.roostd_pid)
    wait_until_over(roostd.slurm, jobs, 60.0)
    assert_all_completed(roostd.slurm, jobs)


@pytest.mark.parametrize("point", ["after_journal:2", "after_set:2", "after_pin:3"])
def test_takes_over_from_its_dead_self(roostd: Stack, point: str) -> None:
    roostd.stop_roostd()
    roostd.start_roostd(ROOST_FAILPOINT=point)
    jobs = submit_all(roostd)
    wait_for_death(roostd.roostd_pid)
    roostd.stop_roostd()
    roostd.start_roostd()
    wait_until_over(roostd.slurm, jobs, 60.0)
    assert_all_completed(roostd.slurm, jobs)


def wait_for_death(pid: int) -> None:
    deadline_s = time.monotonic() + 30.0
    while is_running(pid):
        assert time.monotonic() < deadline_s, "roostd never came by the fail point"
        time.sleep(0.05)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_survives_kills_at_random_instants(roostd: Stack) -> None:
    generator = random.Random(7)
    jobs: dict[str, int] = {}
    for _ in range(4):
        jobs |= submit_all(roostd)
        time.sleep(generator.uniform(0.0, 0.6))
        roostd.stop_roostd(signal.SIGKILL)
        roostd.start_roostd()
    wait_until_over(roostd.slurm, jobs, 90.0)
    assert_all_completed(roostd.slurm, jobs)


def test_slurmctld_restarts_under_load(roostd: Stack) -> None:
    jobs = submit_all(roostd)
    roostd.slurm.restart_controller()
    wait_until_nodes_are_known(roostd)
    jobs |= submit_all(roostd)
    wait_until_over(roostd.slurm, jobs, 90.0)
    assert_all_completed(roostd.slurm, jobs)


def wait_until_nodes_are_known(stack: Stack) -> None:
    """Slurm refuses GPU jobs until its nodes have registered again, with Roost or without."""
    deadline_s = time.monotonic() + 30.0
    while "unknown" in stack.slurm.run("sinfo", "-h", "-o", "%T"):
        assert time.monotonic() < deadline_s
        time.sleep(0.2)


def test_a_stopped_daemon_holds_nothing_past_its_lease(roostd: Stack) -> None:
    jobs = submit_all(roostd)
    os.kill(roostd.roostd_pid, signal.SIGSTOP)
    try:
        wait_until_over(roostd.slurm, jobs, 60.0)
        time.sleep(16.0)  # by now the heartbeat is stale
        began_s = time.monotonic()
        late = submit(roostd.slurm, "--gres=gpu:2")
        wait_until_over(roostd.slurm, [late], 10.0)
        assert time.monotonic() - began_s < LEASE_S
    finally:
        os.kill(roostd.roostd_pid, signal.SIGCONT)
    assert_all_completed(roostd.slurm, {**jobs, late: 2})


@pytest.mark.parametrize("fault", ["exit 1", "sleep 60"], ids=["fails", "hangs"])
def test_scontrol_that_fails_or_hangs_costs_time_and_no_job(
    stack: Stack, tmp_path: Path, fault: str
) -> None:
    """Every third update goes wrong, before or after slurmctld has done it."""
    stack.stop_roostd()
    bin_dir = make_faulty_commands(tmp_path, fault)
    stack.start_roostd(ROOST_SLURM_BIN_DIR=str(bin_dir), ROOST_SLURM_COMMAND_TIMEOUT_S="1.5")
    try:
        jobs = submit_all(stack) | submit_all(stack)
        wait_until_over(stack.slurm, jobs, 100.0)
        assert_all_completed(stack.slurm, jobs)
    finally:
        stack.stop_roostd()
        stack.start_roostd()


def make_faulty_commands(folder: Path, fault: str) -> Path:
    bin_dir = folder / "bin"
    bin_dir.mkdir()
    (bin_dir / "squeue").symlink_to("/usr/bin/squeue")
    script = bin_dir / "scontrol"
    script.write_text(
        f"""#!/bin/sh
case "$*" in *update*)
    n=$(cat {folder}/n 2>/dev/null || echo 0); n=$((n + 1)); echo $n > {folder}/n
    case $((n % 6)) in
        2) {fault} ;;
        4) /usr/bin/scontrol "$@"; {fault} ;;
    esac ;;
esac
exec /usr/bin/scontrol "$@"
"""
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    return bin_dir
