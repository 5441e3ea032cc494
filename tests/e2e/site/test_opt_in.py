"""With slurmdbd: whose jobs Roost steers by their account, and whose jobs may share by their QoS.

A job that names no account or QoS goes by its user's default.
"""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conftest import missing
from tests.e2e.ledger import submit, until_exists, wait_until_over
from tests.e2e.seats import assert_rules, holding, wait_reason, wait_running
from tests.e2e.seats_site import seats_site
from tests.e2e.site.bed import ALICE, BOB, assert_runs, cleared_afterwards

from roost_demo.stack import Stack
from roost_slurm.testing.availability import LocalSlurmUnavailable
from roost_slurm.testing.site_plan import AccountingPlan
from roost_slurm.text.tres import parse_counts

pytestmark = [pytest.mark.slurm, pytest.mark.nvml, pytest.mark.timeout(300)]

CAROL = "mail"  # a user that every Debian has
SETTINGS = {"accounts": ["vision"]}
STATED = "--comment=roost:memory=16G,model=good"
OVER_S = 60.0


@pytest.fixture(scope="module")
def cluster(public_folder: Path) -> Iterator[Stack]:
    accounting = AccountingPlan(enforce=("associations", "qos"))
    try:
        with seats_site(
            public_folder, share_qos=("Together",), settings=SETTINGS, accounting=accounting
        ) as stack:
            slurmdbd = stack.slurm.accounting
            slurmdbd.add_qos("together")
            for account in ("vision", "speech"):
                slurmdbd.add_account(account)
            slurmdbd.add_user(ALICE, "vision", qos=("together",))
            slurmdbd.add_user(BOB, "speech")
            slurmdbd.add_user(CAROL, "vision", qos=("together",), DefaultQOS="together")
            yield stack
    except LocalSlurmUnavailable as error:
        missing(str(error))


@pytest.fixture
def stack(cluster: Stack) -> Iterator[Stack]:
    with cleared_afterwards(cluster):
        yield cluster


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


def test_jobs_of_a_listed_qos_share_and_sacct_shows_what_ran(
    stack: Stack, public_folder: Path
) -> None:
    done = public_folder / "done"
    done.unlink(missing_ok=True)  # of a try before

    def run(user: str, *options: str) -> str:
        words = ("-w", "n1", *options)
        return submit(stack.slurm, *words, command=until_exists(done), user=user)

    host = run(CAROL, STATED, "--gres=gpu:8")  # by her default QoS
    wait_running(stack, host)
    guest = run(ALICE, STATED, "--gres=gpu:2", "--qos=together")
    wait_running(stack, guest)
    held = holding(stack)
    assert set(held[guest].gpus) < set(held[host].gpus)
    assert {held[host].seat, held[guest].seat} == {0, 1}
    wait_reason(stack, guest, f"shares GPUs with job {host}")
    others = [
        run(ALICE, STATED, "--gres=gpu:1"),
        run(ALICE, f"{STATED},share=no", "--gres=gpu:1", "--qos=together"),
    ]
    for job_id in others:
        wait_reason(stack, job_id, "waits for 1 GPU")
    assert_rules(stack, {host, guest})
    stack.slurm.run("scancel", *others)
    done.touch()
    wait_until_over(stack.slurm, (host, guest), OVER_S)
    ran = {job_id: sacct(stack, job_id) for job_id in (host, guest)}
    for job_id, gpu_count in ((host, 8), (guest, 2)):
        assert ran[job_id][:3] == ["COMPLETED", "together", "n1"]
        assert parse_counts(ran[job_id][3])["gres/gpu"] == gpu_count
    (*_, began, _), (*_, ended) = ran[guest], ran[host]
    assert began <= ended  # both ran on the GPUs at one time


def sacct(stack: Stack, job_id: str) -> list[str]:
    """State, QoS, nodes, allocation, start and end of a job, once slurmdbd knows of all."""
    fields = "State,QOS,NodeList,AllocTRES,Start,End"
    deadline_s = time.monotonic() + OVER_S
    while True:
        told = stack.slurm.run("sacct", "-X", "-n", "-P", "-j", job_id, "-o", fields).strip()
        if told and "Unknown" not in told:  # sacct does not know a QoS at once either
            return told.split("|")
        assert time.monotonic() < deadline_s, told
        time.sleep(0.1)
