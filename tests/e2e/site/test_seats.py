"""Two jobs on a GPU, on a real Slurm: who shares, who waits, and what faults do to it."""

import json
import random
import signal
import socket
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.conftest import missing
from tests.e2e.ledger import clear, has_roostd, job_states, wait_for_death, wait_until_over
from tests.e2e.seats import (
    OVER,
    Seat,
    assert_rules,
    filled,
    holding,
    run,
    wait_for,
    wait_for_nodes,
    wait_reason,
    wait_running,
)
from tests.e2e.seats_site import OPTED_IN, seats_site

from roost_demo.stack import Stack
from roost_formats.journal.journal import FILE_NAME
from roost_proto.v1 import operator_pb2
from roost_slurm.hooks import heartbeat
from roost_slurm.testing.availability import LocalSlurmUnavailable

pytestmark = [pytest.mark.slurm, pytest.mark.nvml, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def stack(public_folder: Path) -> Iterator[Stack]:
    try:
        with seats_site(public_folder) as running:  # slurmctld, another user, reads it
            yield running
    except LocalSlurmUnavailable as error:
        missing(str(error))


@pytest.fixture(autouse=True)
def _clean(stack: Stack) -> Iterator[None]:
    yield
    if not has_roostd(stack):
        stack.start_roostd()
    clear(stack)


def test_two_jobs_share_and_the_third_waits(stack: Stack) -> None:
    host = filled(stack)
    guest = run(stack, OPTED_IN, "-w", "n1", "--gres=gpu:8", command="srun sleep 300")
    wait_running(stack, guest)
    found = holding(stack)
    assert found[host].gpus == found[guest].gpus == tuple(range(8))
    assert {found[host].seat, found[guest].seat} == {0, 1}
    third = run(stack, OPTED_IN, "-w", "n1", "--gres=gpu:1")
    wait_reason(stack, third, "waits for 1 GPU")
    wait_reason(stack, guest, f"shares GPUs with job {host}")
    question = operator_pb2.ExplainJobRequest(job_id=guest)
    explained = stack.operator().ExplainJob(question, timeout=60.0)
    assert f"shares them with job {host}" in explained.neighbour
    assert_rules(stack, {host, guest, third})


def test_nobody_shares_without_opting_in(stack: Stack) -> None:
    host = filled(stack)
    others = [
        run(stack, "-w", "n1", "--gres=gpu:1"),
        run(stack, "-w", "n1", "--gres=gpu:1", "--comment=roost:memory=16G,model=good"),
        run(stack, "-w", "n1", "--gres=gpu:1", "--comment=roost:share=yes,model=good"),
        run(stack, "-w", "n1", "--gres=gpu:1", "--comment=roost:share=yes,memory=16G,model=bad"),
        run(stack, "-w", "n1", "--gres=gpu:1", "--comment=roost:share=yes,memory=79G,model=good"),
    ]
    for job_id in others:
        wait_reason(stack, job_id, "waits for 1 GPU")
    question = operator_pb2.ExplainJobRequest(job_id=others[2])  # one of a kind never seen
    explained = stack.operator().ExplainJob(question, timeout=60.0)
    assert "what it needs of a GPU's memory is not known; cure: " in explained.neighbour
    guest = run(stack, OPTED_IN, "-w", "n1", "--gres=gpu:1")
    wait_running(stack, guest)
    assert set(holding(stack)) == {host, guest}


def test_the_host_ends_first_and_the_gpu_is_not_free(stack: Stack) -> None:
    host = filled(stack)
    guest = run(stack, OPTED_IN, "-w", "n1", "--gres=gpu:2")
    wait_running(stack, guest)
    shared = holding(stack)[guest].gpus
    stack.slurm.run("scancel", host)
    wait_for(lambda: host not in holding(stack))
    alone = run(stack, "-w", "n1", "--gres=gpu:6")
    wait_running(stack, alone)
    assert not set(holding(stack)[alone].gpus) & set(shared)
    late = run(stack, "-w", "n1", "--gres=gpu:1")
    wait_reason(stack, late, "waits for 1 GPU")
    joins = run(stack, OPTED_IN, "-w", "n1", "--gres=gpu:2")
    wait_running(stack, joins)
    assert holding(stack)[joins] == Seat("n1", shared, 1 - holding(stack)[guest].seat)
    assert_rules(stack, {host, guest, joins})


def test_tasks_of_an_array_share(stack: Stack) -> None:
    host = filled(stack)
    run(stack, OPTED_IN, "-w", "n1", "--array=0-3", "--gres=gpu:2")
    wait_for(lambda: len(holding(stack)) == 5)
    found = {job: seat for job, seat in holding(stack).items() if job != host}
    assert sorted(gpu for seat in found.values() for gpu in seat.gpus) == list(range(8))
    assert {seat.seat for seat in found.values()} == {1 - holding(stack)[host].seat}
    assert_rules(stack, set(holding(stack)))


def test_roostd_killed_between_pin_and_start(stack: Stack) -> None:
    host = filled(stack)
    stack.stop_roostd()
    stack.start_roostd(ROOST_FAILPOINT="after_pin")
    guest = run(stack, OPTED_IN, "-w", "n1", "--gres=gpu:4")
    wait_for_death(stack.roostd_pid)
    wait_running(stack, guest)
    stack.stop_roostd(signal.SIGKILL)
    stack.start_roostd()
    assert holding(stack)[guest].seat == 1 - holding(stack)[host].seat
    wait_reason(stack, guest, f"shares GPUs with job {host}")
    assert_rules(stack, {host, guest})


def test_restarts_with_a_gpu_shared(stack: Stack) -> None:
    host = filled(stack)
    guest = run(stack, OPTED_IN, "-w", "n1", "--gres=gpu:8")
    wait_running(stack, guest)
    before = holding(stack)
    stack.stop_roostd()
    stack.slurm.restart_controller()
    stack.start_roostd()
    wait_for(lambda: holding(stack) == before)
    wait_reason(stack, guest, f"shares GPUs with job {host}")
    stack.slurm.run("scancel", host)
    wait_for(lambda: host not in holding(stack))
    other = run(stack, "-w", "n1", "--gres=gpu:1")
    wait_reason(stack, other, "waits for 1 GPU")
    assert_rules(stack, {host, guest})


def kill_roostd(stack: Stack) -> None:
    """Kill roostd, a minute ago by its heartbeat."""
    stack.stop_roostd(signal.SIGKILL)
    path = stack.folder / "heartbeat"
    beat = heartbeat.parse(path.read_text())
    heartbeat.write(path, replace(beat, at_epoch_s=beat.at_epoch_s - 60))


def run_timer(stack: Stack) -> None:
    """Do what roost-unpin.timer does every 10 s, as SlurmUser."""
    command = (sys.executable, "-m", "roost_slurm.cli", "unpin", "--runtime-folder")
    stack.slurm.run(*command, str(stack.folder), user="slurm")


def guards(stack: Stack) -> list[str]:
    return stack.slurm.run("squeue", "-h", "--name=roost-guard", "-o", "%A").split()


def test_without_roostd_no_job_takes_the_gpu_of_a_job_on_its_second_seat(stack: Stack) -> None:
    host = filled(stack)
    guest = run(stack, OPTED_IN, "-w", "n1", "--gres=gpu:2")
    wait_running(stack, guest)
    if holding(stack)[guest].seat == 0:  # the host then is on the second seats, and stays
        host, guest = guest, host
    shared = set(holding(stack)[guest].gpus) & set(holding(stack)[host].gpus)
    kill_roostd(stack)
    run_timer(stack)
    (guard,) = guards(stack)
    plain = [run(stack, "-w", "n1", "--gres=gpu:1") for _ in range(9)]
    stack.slurm.run("scancel", host)
    wait_running(stack, guard)
    taken = holding(stack)
    assert taken[guard].gpus == tuple(sorted(shared))
    for job_id in set(plain) & taken.keys():
        assert not set(taken[job_id].gpus) & shared
    run_timer(stack)
    assert guards(stack) == [guard]
    stack.slurm.run("scancel", guest)
    wait_for(lambda: guard not in holding(stack))  # it ends with the job that it was for


def test_a_roostd_that_comes_back_needs_no_guards(stack: Stack) -> None:
    host = filled(stack)
    guest = run(stack, OPTED_IN, "-w", "n1", "--gres=gpu:8")
    wait_running(stack, guest)
    kill_roostd(stack)
    run_timer(stack)
    assert guards(stack)
    stack.start_roostd()
    wait_for(lambda: not guards(stack))
    assert {host, guest} <= set(holding(stack))


def tell_steps(stack: Stack, job_id: str, step_count: int) -> None:
    """Report a job's progress to the agent of n1, as the job's user."""
    with socket.socket(socket.AF_UNIX) as agent:
        agent.settimeout(60.0)
        agent.connect(str(stack.folder / "nodes" / "n1" / "agent.sock"))
        report = {"op": "progress", "job_id": int(job_id), "steps": step_count}
        agent.sendall(json.dumps(report).encode() + b"\n")
        agent.recv(4096)


@pytest.fixture
def unlearned(stack: Stack) -> Iterator[Stack]:
    """A roostd that forgets afterwards what it has learned: a second try begins as the first."""
    yield stack
    stack.stop_roostd()
    for file in (stack.folder / "state").glob(f"{FILE_NAME}*"):
        file.unlink()
    stack.start_roostd()


def test_a_pair_that_turns_out_bad_is_separated(unlearned: Stack) -> None:
    stack = unlearned
    wait_for_nodes(stack)
    other = run(stack, "-w", "n2", "--gres=gpu:8")
    wait_running(stack, other)
    named = "--job-name=pair"
    again = "--comment=roost:share=yes,memory=16G,model=wrong,checkpoint=1"
    host = run(stack, OPTED_IN, named, "--gres=gpu:8")
    wait_running(stack, host)
    guest = run(stack, again, named, "--gres=gpu:8")
    wait_running(stack, guest)
    stack.slurm.run("scancel", other)
    for job_id in (host, guest):
        tell_steps(stack, job_id, 0)
    time.sleep(20.5)  # the shortest time from which a speed is computed
    tell_steps(stack, host, 20_000)
    tell_steps(stack, guest, 6_000)
    wait_for(lambda: holding(stack).get(guest, Seat("n1", (), 0)).node == "n2")
    assert holding(stack)[host].node == "n1"
    assert "leaves a shared GPU: beside job" in stack.log("roostd")
    assert_rules(stack, {host, guest})


def test_a_random_campaign_keeps_the_rules(stack: Stack) -> None:
    wait_for_nodes(stack)
    draws, opted_in, jobs = random.Random(7), set[str](), list[str]()
    shared_count = 0
    for _ in range(40):
        options = [f"--gres=gpu:{draws.choice([1, 2, 4, 8])}"]
        is_in = draws.random() < 0.7
        if is_in:
            options.append(OPTED_IN)
        job_id = run(stack, *options, command=f"sleep {draws.uniform(1, 6):.1f}")
        jobs.append(job_id)
        if is_in:
            opted_in.add(job_id)
        assert_rules(stack, opted_in)
        shared_count += any(seat.seat for seat in holding(stack).values())
    deadline_s = time.monotonic() + 240.0
    while set(jobs) - {job for job, state in job_states(stack.slurm).items() if state in OVER}:
        assert time.monotonic() < deadline_s
        assert_rules(stack, opted_in)
        shared_count += any(seat.seat for seat in holding(stack).values())
        time.sleep(0.2)
    wait_until_over(stack.slurm, jobs, 60.0)
    assert shared_count
    assert {job_states(stack.slurm)[job_id] for job_id in jobs} == {"COMPLETED"}
