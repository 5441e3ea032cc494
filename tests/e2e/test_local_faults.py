"""Slurm restarting, failing or hanging, and a stopped daemon: time is lost, jobs are not."""

import os
import re
import signal
import stat
from collections.abc import Collection, Iterator
from datetime import datetime
from pathlib import Path

import pytest
from tests.e2e.ledger import (
    assert_all_completed,
    let_beat_age,
    outcomes,
    submit,
    until,
    wait_until_over,
)
from tests.e2e.two_nodes import LEASE_S, mended_afterwards, submit_all, two_nodes

from roost_demo.stack import Stack
from roost_proto.v1 import operator_pb2
from roost_slurm.testing.local_slurm import LocalSlurmFailed

pytestmark = [pytest.mark.slurm, pytest.mark.nvml, pytest.mark.timeout(300)]

FIRST_LEASE_S = 5  # the default
ROUNDING_S = 1  # slurmctld reads the clock for each of the two times, in whole seconds
RECONFIGURED_AFTER_S = 30.0
_TIMES = re.compile(r"SubmitTime=(\S+) EligibleTime=(\S+)")


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with two_nodes() as running:
        yield running


@pytest.fixture
def roostd(stack: Stack) -> Iterator[Stack]:
    with mended_afterwards(stack):
        yield stack


def test_slurmctld_restarts_under_load(roostd: Stack) -> None:
    jobs = submit_all(roostd)
    roostd.slurm.restart_controller()
    # Slurm by itself refuses two GPUs of a node until nodes have registered.
    at_once = {submit(roostd.slurm, "--gres=gpu:2", command="sleep 0.3"): 2}
    wait_until_nodes_are_known(roostd)
    for job_id in never_launched(roostd) & jobs.keys():
        roostd.slurm.run("scancel", job_id)
        del jobs[job_id]
    later = submit_all(roostd) | at_once
    wait_until_over(roostd.slurm, jobs | later, 180.0)
    for job_id in without_any_gpu(roostd, jobs):
        del jobs[job_id]
    assert_all_completed(roostd.slurm, jobs | later)


def never_launched(stack: Stack) -> set[str]:
    """Jobs that slurmctld started as it was told to stop, or after that, and has not launched.

    It has them RUNNING until the node registers again, which may take half an hour: plain Slurm
    does that too. By now each node has what it was sent, as it has registered since.
    """
    before = stack.slurm.controller_log.rpartition("slurmctld version")[0]
    told = "".join(stack.slurm.node_log(node.name) for node in stack.nodes)
    started = re.findall(r"(?:Allocate|Started) JobId=(\d+)", before)
    return set(started) - set(re.findall(r"Launching batch job (\d+)", told))


def without_any_gpu(stack: Stack, jobs: Collection[str]) -> list[str]:
    """Jobs that slurmctld 22.05, just restarted, started without GPUs: with Roost or without.

    The crash test counts them (`Report.without_gpus_count`).
    """
    found = outcomes(stack.slurm, jobs)
    return [
        one for one, job in found.items() if job.state == "COMPLETED" and not any(job.gpus.values())
    ]


def wait_until_nodes_are_known(stack: Stack) -> None:
    """Slurm refuses to pin, or to take, GPU jobs until its nodes have registered again.

    Some time before it knows their GPUs, slurmctld 22.05 shows them as idle.
    """

    def are_known() -> bool:
        return all(has_gpus(stack, node.name) for node in stack.nodes)

    try:
        until(are_known, "the GPUs are known", RECONFIGURED_AFTER_S)
    except AssertionError:  # seen on a busy machine: they come with the next registration alone
        stack.slurm.run("scontrol", "reconfigure")
        until(are_known, "the GPUs are known")


def has_gpus(stack: Stack, node: str) -> bool:
    """Return whether Slurm would take a job for all GPUs of a node."""
    try:
        stack.slurm.run("sbatch", "--test-only", "-w", node, "--gres=gpu:8", "--wrap", "true")
    except LocalSlurmFailed:
        return False
    return True


def test_a_stopped_daemon_holds_nothing_past_its_lease(roostd: Stack) -> None:
    jobs = submit_all(roostd)
    os.kill(roostd.roostd_pid, signal.SIGSTOP)
    try:
        wait_until_over(roostd.slurm, jobs, 120.0)
        let_beat_age(roostd)
        late = submit(roostd.slurm, "--gres=gpu:2")
        assert lease_of(roostd, late) <= ROUNDING_S
        wait_until_over(roostd.slurm, [late], 60.0)
    finally:
        os.kill(roostd.roostd_pid, signal.SIGCONT)
    assert_all_completed(roostd.slurm, {**jobs, late: 2})


def test_a_job_submitted_to_a_hung_daemon_starts_within_seconds(roostd: Stack) -> None:
    """Also while the heartbeat is fresh: a first lease is short."""
    os.kill(roostd.roostd_pid, signal.SIGSTOP)
    try:
        job_id = submit(roostd.slurm, "--gres=gpu:2")
        assert FIRST_LEASE_S - ROUNDING_S <= lease_of(roostd, job_id) <= FIRST_LEASE_S < LEASE_S
        wait_until_over(roostd.slurm, [job_id], 60.0)
    finally:
        os.kill(roostd.roostd_pid, signal.SIGCONT)


def lease_of(stack: Stack, job_id: str) -> float:
    """Return how many seconds from its submission on a job is held."""
    found = _TIMES.search(stack.slurm.show_job(job_id))
    assert found is not None
    submitted, eligible = map(datetime.fromisoformat, found.groups())
    return (eligible - submitted).total_seconds()


@pytest.mark.parametrize("fault", ["exit 1", "sleep 60"], ids=["fails", "hangs"])
def test_scontrol_that_fails_or_hangs_costs_time_and_no_job(
    roostd: Stack, tmp_path: Path, fault: str
) -> None:
    """Every third update goes wrong, before or after slurmctld has done it."""
    roostd.stop_roostd()
    bin_dir = make_faulty_commands(tmp_path, fault)
    roostd.start_roostd(ROOST_SLURM_BIN_DIR=str(bin_dir), ROOST_SLURM_COMMAND_TIMEOUT_S="1.5")
    jobs = submit_all(roostd) | submit_all(roostd)
    wait_until_over(roostd.slurm, jobs, 100.0)
    assert_all_completed(roostd.slurm, jobs)


def test_a_job_with_an_absurd_range_of_nodes_stalls_nothing(roostd: Stack) -> None:
    """One `-N1-49999999` used to freeze roostd for good, in every mode."""
    busy = [submit(roostd.slurm, "--gres=gpu:8", command="sleep 3") for _ in range(2)]
    absurd = submit(roostd.slurm, "-N1-49999999", "--gres=gpu:1")
    after = submit(roostd.slurm, "--gres=gpu:2")

    wait_until_over(roostd.slurm, [*busy, after, absurd], 120.0)

    assert_all_completed(roostd.slurm, {**dict.fromkeys(busy, 8), after: 2})
    told = roostd.operator().ExplainJob(operator_pb2.ExplainJobRequest(job_id=absurd))
    assert "may get 49999999 nodes; Roost places jobs of at most 100000" in str(told)


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
