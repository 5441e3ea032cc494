"""Killed at any step: no job is lost, doubled, or started without its GPUs."""

import random
import signal
import time
from collections.abc import Iterator

import pytest
from tests.e2e.ledger import assert_all_completed, submit, wait_for_death, wait_until_over
from tests.e2e.two_nodes import mended_afterwards, submit_all, two_nodes

from roost_demo.stack import Stack

pytestmark = [pytest.mark.slurm, pytest.mark.nvml, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with two_nodes() as running:
        yield running


@pytest.fixture
def roostd(stack: Stack) -> Iterator[Stack]:
    with mended_afterwards(stack):
        yield stack


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
    wait_until_over(roostd.slurm, jobs, 120.0)
    assert_all_completed(roostd.slurm, jobs)


@pytest.mark.parametrize("point", ["after_journal:2", "after_set:2", "after_pin:3"])
def test_takes_over_from_its_dead_self(roostd: Stack, point: str) -> None:
    roostd.stop_roostd()
    roostd.start_roostd(ROOST_FAILPOINT=point)
    jobs = submit_all(roostd)
    wait_for_death(roostd.roostd_pid)
    roostd.stop_roostd()
    roostd.start_roostd()
    wait_until_over(roostd.slurm, jobs, 120.0)
    assert_all_completed(roostd.slurm, jobs)


def test_survives_kills_at_random_instants(roostd: Stack) -> None:
    generator = random.Random(7)
    jobs: dict[str, int] = {}
    for _ in range(4):
        jobs |= submit_all(roostd)
        time.sleep(generator.uniform(0.0, 0.6))
        roostd.stop_roostd(signal.SIGKILL)
        roostd.start_roostd()
    wait_until_over(roostd.slurm, jobs, 120.0)
    assert_all_completed(roostd.slurm, jobs)
