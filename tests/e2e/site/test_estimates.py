"""Slurm writes its estimate of a start where a user's --begin stands; Roost tells them apart."""

import re
import signal
import time
from collections.abc import Iterator

import pytest
from tests.e2e.site.bed import assert_runs, cleared_afterwards, occupy, site, until

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


def wait_for_estimate(stack: Stack, job_id: str) -> None:
    """Wait until a job's lease has run out and Slurm expects to start it minutes from now."""

    def is_there() -> bool:
        shown = stack.slurm.show_job(job_id)
        found = re.search(r" Reason=(\S+) .* StartTime=(\S+) ", shown)
        if found is None or found[1] == "BeginTime" or found[2] == "Unknown":
            return False
        start_s = time.mktime(time.strptime(found[2], "%Y-%m-%dT%H:%M:%S"))
        return start_s > time.time() + 120

    until(is_there, "Slurm estimates its start", LEASE_S + 20.0)


def test_an_estimate_behind_running_jobs_is_no_begin(stack: Stack) -> None:
    holders = [occupy(stack, node.name, time_limit="60") for node in stack.nodes]
    job_id = stack.slurm.submit("--gres=gpu:8", "-t", "10")
    stack.stop_roostd(signal.SIGKILL)
    wait_for_estimate(stack, job_id)
    stack.start_roostd()
    stack.slurm.run("scancel", *holders)
    assert_runs(stack, job_id, within_s=15.0)


def test_an_estimate_behind_maintenance_is_no_begin(stack: Stack) -> None:
    words = ("nodes=ALL", "starttime=now", "duration=60", "users=root", "flags=maint,ignore_jobs")
    told = stack.slurm.run("scontrol", "create", "reservation", *words)
    name = told.split()[-1]
    job_id = stack.slurm.submit("--gres=gpu:8", "-t", "10")
    stack.stop_roostd(signal.SIGKILL)
    wait_for_estimate(stack, job_id)
    stack.start_roostd()
    stack.slurm.run("scontrol", "delete", f"reservationname={name}")
    assert_runs(stack, job_id, within_s=15.0)


def test_a_begin_that_the_user_asked_for_counts(stack: Stack) -> None:
    begin_s = time.time() + 12.0
    job_id = stack.slurm.submit("--gres=gpu:8", "--begin=now+12")
    assert_runs(stack, job_id, within_s=25.0)
    assert time.time() >= begin_s - 1.0
