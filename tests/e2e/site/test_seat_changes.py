"""Two jobs on a GPU, on a real Slurm, when users and administrators change things meanwhile."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conftest import missing
from tests.e2e.ledger import clear, job_states
from tests.e2e.seats import (
    Seat,
    assert_rules,
    filled,
    holding,
    run,
    wait_for,
    wait_for_nodes,
    wait_reason,
    wait_rerunning,
    wait_running,
)
from tests.e2e.seats_site import OPTED_IN, seats_site

from roost_demo.stack import Stack
from roost_slurm.testing.availability import LocalSlurmUnavailable

pytestmark = [pytest.mark.slurm, pytest.mark.nvml, pytest.mark.timeout(300)]
ON_N1 = (OPTED_IN, "-w", "n1")


@pytest.fixture(scope="module")
def site(public_folder: Path) -> Iterator[Stack]:
    try:
        with seats_site(public_folder) as running:
            yield running
    except LocalSlurmUnavailable as error:
        missing(str(error))


@pytest.fixture
def stack(site: Stack) -> Iterator[Stack]:
    wait_for_nodes(site)
    yield site
    site.slurm.run("scontrol", "update", "nodename=n1", "state=resume", check=False)
    clear(site)


def test_a_task_of_an_array_is_requeued_and_shares_again(stack: Stack) -> None:
    host = filled(stack)
    array = run(stack, *ON_N1, "--array=0", "--gres=gpu:2")
    wait_for(lambda: len(holding(stack)) == 2)
    before = holding(stack)
    stack.slurm.run("scontrol", "requeue", f"{array}_0")
    wait_rerunning(stack, f"{array}_0")
    after = holding(stack)
    assert after[host] == before[host]
    [task] = after.keys() - {host}
    assert after[task].seat == 1 - after[host].seat
    assert_rules(stack, {host, task})


def test_a_host_that_is_requeued_comes_back_beside_its_guest(stack: Stack) -> None:
    host = filled(stack)
    guest = run(stack, *ON_N1, "--gres=gpu:8")
    wait_running(stack, guest)
    before = holding(stack)
    stack.slurm.run("scontrol", "requeue", host)
    wait_rerunning(stack, host)
    assert holding(stack) == before
    assert_rules(stack, {host, guest})


def test_a_pair_stays_on_a_node_that_is_drained_and_no_job_joins(stack: Stack) -> None:
    host = filled(stack)
    guest = run(stack, *ON_N1, "--gres=gpu:2")
    wait_running(stack, guest)
    before = holding(stack)
    stack.slurm.run("scontrol", "update", "nodename=n1", "state=drain", "reason=test")
    late = run(stack, *ON_N1, "--gres=gpu:2")
    elsewhere = run(stack, OPTED_IN, "--gres=gpu:2")
    wait_running(stack, elsewhere)
    assert holding(stack)[elsewhere].node == "n2"
    stack.slurm.run("scancel", guest)
    wait_for(lambda: guest not in holding(stack))
    assert holding(stack)[host] == before[host]
    assert late not in holding(stack)
    stack.slurm.run("scontrol", "update", "nodename=n1", "state=resume")
    wait_running(stack, late)
    assert holding(stack)[late].seat == 1 - holding(stack)[host].seat
    assert_rules(stack, {host, late, elsewhere})


def test_an_opt_in_that_is_taken_back_lets_no_other_job_join(stack: Stack) -> None:
    host = filled(stack)
    guest = run(stack, *ON_N1, "--gres=gpu:4")
    wait_running(stack, guest)
    before = holding(stack)
    stack.slurm.run("scontrol", "update", f"jobid={host}", "comment=roost:share=no")
    late = run(stack, *ON_N1, "--gres=gpu:4")
    wait_reason(stack, late, "waits for 4 GPUs")
    assert holding(stack) == before  # the pair stays
    stack.slurm.run("scancel", guest)
    wait_for(lambda: guest not in holding(stack))
    wait_reason(stack, late, "waits for 4 GPUs")
    assert holding(stack) == {host: before[host]}
    stack.slurm.run("scancel", host)
    wait_running(stack, late)


def test_an_opt_out_of_a_waiting_job_counts_at_once(stack: Stack) -> None:
    host, other = filled(stack), run(stack, OPTED_IN, "-w", "n2", "--gres=gpu:8")
    wait_running(stack, other)
    guest = run(stack, *ON_N1, "--gres=gpu:8")
    wait_running(stack, guest)
    late = run(stack, *ON_N1, "--gres=gpu:2")
    wait_reason(stack, late, "waits for 2 GPUs")  # roostd has read its comment
    stack.slurm.run("scontrol", "update", f"jobid={late}", "comment=roost:share=no")
    stack.slurm.run("scancel", guest)
    wait_for(lambda: guest not in holding(stack))
    wait_for(lambda: "has changed" in stack.log("roostd"))
    wait_reason(stack, late, "waits for 2 GPUs")
    assert set(holding(stack)) == {host, other}
    stack.slurm.run("scancel", host)
    wait_running(stack, late)
    assert_rules(stack, {host, other})


def test_tasks_of_one_array_share_and_one_that_is_requeued_comes_back(stack: Stack) -> None:
    other = run(stack, "-w", "n2", "--gres=gpu:8")
    wait_running(stack, other)
    array = run(stack, OPTED_IN, "--array=0-1", "--gres=gpu:8")
    wait_for(lambda: len(holding(stack)) == 3)
    before = holding(stack)
    tasks = before.keys() - {other}
    assert {before[task] for task in tasks} == {Seat("n1", tuple(range(8)), at) for at in (0, 1)}
    stack.slurm.run("scontrol", "requeue", f"{array}_1")
    wait_rerunning(stack, f"{array}_1")
    assert holding(stack).keys() == before.keys()
    assert_rules(stack, set(tasks))
    assert job_states(stack.slurm)[other] == "RUNNING"
