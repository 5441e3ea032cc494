"""Slurm writes its estimate of a start where a user's --begin stands; Roost tells them apart."""

import re
import signal
import time
from collections.abc import Iterator

import pytest
from tests.e2e.ledger import until
from tests.e2e.site.bed import assert_runs, cleared_afterwards, occupy, site

from roost_demo.stack import Stack

pytestmark = [pytest.mark.slurm, pytest.mark.nvml, pytest.mark.timeout(180)]

LEASE_S = 10  # the shortest


@pytest.fixture(scope="module")
def cluster() -> Iterator[Stack]:
    with site(lease_s=LEASE_S) as stack:
        yield stack


@pytest.fixture
def stack(cluster: Stack) -> Iterator[Stack]:
    with cleared_afterwards(cluster):
        yield cluster


def submit_while_roostd_dies(stack: Stack) -> str:
    """Submit a job that gets a lease, by a heartbeat that is still fresh, and nothing else."""
    stack.stop_roostd(signal.SIGKILL)
    return stack.slurm.submit("--gres=gpu:8", "-t", "10")


def wait_for_estimate(stack: Stack, job_id: str) -> None:
    """Wait until a job's lease has run out and Slurm expects to start it minutes from now."""

    def is_there() -> bool:
        stack.slurm.submit("-c1", script="true")  # backfill rests until something changes
        shown = stack.slurm.show_job(job_id)
        found = re.search(r" Reason=(\S+) .* StartTime=(\S+) ", shown)
        if found is None or found[1] == "BeginTime" or found[2] == "Unknown":
            return False
        start_s = time.mktime(time.strptime(found[2], "%Y-%m-%dT%H:%M:%S"))
        return start_s > time.time() + 120

    until(is_there, "Slurm estimates its start", LEASE_S + 60.0)


def test_an_estimate_behind_running_jobs_is_no_begin(stack: Stack) -> None:
    holders = [occupy(stack, node.name, time_limit="60") for node in stack.nodes]
    job_id = submit_while_roostd_dies(stack)
    wait_for_estimate(stack, job_id)
    stack.start_roostd()
    stack.slurm.run("scancel", *holders)
    assert_runs(stack, job_id, within_s=60.0)


@pytest.fixture
def maintenance(stack: Stack) -> str:
    words = ("nodes=ALL", "starttime=now", "duration=60", "users=root", "flags=maint,ignore_jobs")
    return stack.slurm.run("scontrol", "create", "reservation", *words).split()[-1]


def test_an_estimate_behind_maintenance_is_no_begin(stack: Stack, maintenance: str) -> None:
    job_id = submit_while_roostd_dies(stack)
    wait_for_estimate(stack, job_id)
    stack.start_roostd()
    stack.slurm.run("scontrol", "delete", f"reservationname={maintenance}")
    assert_runs(stack, job_id, within_s=60.0)


def test_maintenance_that_ends_early_leaves_nothing_behind(stack: Stack, maintenance: str) -> None:
    job_ids = [stack.slurm.submit("--gres=gpu:8", "-t", "10") for _ in stack.nodes]
    time.sleep(LEASE_S + 2.0)  # roostd sees the estimate, and renews the lease in spite of it
    assert [stack.slurm.state(job_id) for job_id in job_ids] == ["PENDING"] * 2
    stack.slurm.run("scontrol", "delete", f"reservationname={maintenance}")
    assert_runs(stack, *job_ids, within_s=60.0)


def test_a_begin_that_the_user_asked_for_counts(stack: Stack) -> None:
    begin_s = time.time() + 12.0
    job_id = stack.slurm.submit("--gres=gpu:8", "--begin=now+12")
    assert_runs(stack, job_id, within_s=60.0)
    assert time.time() >= begin_s - 1.0
