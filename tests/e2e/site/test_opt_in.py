"""With slurmdbd: a job that names no account goes by its user's default account and QoS."""

import os
import signal
from collections.abc import Iterator

import pytest
from tests.e2e.site.bed import ALICE, BOB, assert_runs, cleared_afterwards, site

from roost_demo.stack import Stack
from roost_slurm.testing.site_plan import AccountingPlan

pytestmark = [pytest.mark.slurm, pytest.mark.nvml]

SETTINGS = {"accounts": ["vision"]}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Stack]:
    accounting = AccountingPlan(enforce=("associations",))
    with site(accounting=accounting, settings=SETTINGS) as stack:
        for account, user in (("vision", ALICE), ("speech", BOB)):
            stack.slurm.accounting.add_account(account)
            stack.slurm.accounting.add_user(user, account)
        yield stack


@pytest.fixture
def stack(cluster: Stack) -> Iterator[Stack]:
    with cleared_afterwards(cluster):
        yield cluster


@pytest.mark.skipif(os.environ.get("ROOST_SITE_PLAIN") == "1", reason="is about Roost's leases")
def test_only_users_of_the_listed_account_get_a_lease(stack: Stack) -> None:
    os.kill(stack.roostd_pid, signal.SIGSTOP)  # nothing but job_submit.lua acts
    try:
        hers = stack.slurm.submit("--gres=gpu:1", user=ALICE)
        his = stack.slurm.submit("--gres=gpu:1", user=BOB)
        assert "Account=vision" in stack.slurm.show_job(hers)
        assert "AdminComment=roost:lease" in stack.slurm.show_job(hers)
        assert "Account=speech" in stack.slurm.show_job(his)
        assert "AdminComment=roost:lease" not in stack.slurm.show_job(his)
    finally:
        os.kill(stack.roostd_pid, signal.SIGCONT)
    assert_runs(stack, hers, his)
