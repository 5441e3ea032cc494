"""Jobs that the delay gate lets wait on a real Slurm: what people see, and whose will counts."""

import json
import signal
import time
from collections.abc import Iterator
from datetime import datetime

import grpc
import pytest
from tests.conftest import missing
from tests.e2e.ledger import has_roostd, known_jobs, until

from roost_demo.stack import NodeKind, Stack
from roost_proto.v1 import operator_pb2 as pb
from roost_proto.v1 import operator_pb2_grpc as pb_grpc
from roost_slurm.testing.availability import LocalSlurmUnavailable

pytestmark = [pytest.mark.slurm, pytest.mark.nvml]

NODES = (NodeKind(name="n1", topology="nvswitch8"), NodeKind(name="n2", topology="nvswitch8"))
# A job waits whenever not all GPUs are free, and is not started by a lease that ran out.
# With two nodes on offer: the default placement offers a job of four GPUs one node only.
SETTINGS = {
    "gate": {"kind": "delay", "idle_frac": 1.0},
    "placement": {"kind": "consolidation"},
}
PINNED_S = 1800.0
FIRST_LEASE_S, LEASE_S = 5, 20
SENTENCE = "waits for GPUs on one node: about 1.4 times as fast, until "


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """Two nodes, on each of which five of eight GPUs are taken; timers for six GPUs are pinned."""
    try:
        with Stack(NODES, lease_s=LEASE_S, settings=SETTINGS) as running:
            with grpc.insecure_channel(f"unix:{running.folder}/admin.sock") as channel:
                pin = pb_grpc.AdminStub(channel).PinTimer
                for name in ("4/low", "4/mid", "4/high"):
                    pin(pb.PinTimerRequest(name=name, pinned_s=PINNED_S, by="alice"))
            for _ in NODES:
                job_id = running.slurm.submit("--gres=gpu:5")
                running.slurm.wait_for_state(job_id, "RUNNING")
            yield running
    except LocalSlurmUnavailable as error:
        missing(str(error))


@pytest.fixture
def job_id(stack: Stack) -> Iterator[str]:
    """Six GPUs on one node or three on each of two: it waits for the former."""
    job_id = stack.slurm.submit(
        "--gpus=6", "-N1-2", "-n2", "--comment=roost:modle=bert,checkpoint=soon"
    )
    try:
        until(lambda: SENTENCE in stack.slurm.show_job(job_id), "it says what it waits for")
        yield job_id
    finally:
        if not has_roostd(stack):
            stack.start_roostd()
        stack.slurm.run("scancel", job_id, check=False)
        until(lambda: job_id not in known_jobs(stack), "roostd has seen its end")


def explain(stack: Stack, job_id: str) -> pb.Explanation:
    return stack.operator().ExplainJob(pb.ExplainJobRequest(job_id=job_id))


def lease_left_s(stack: Stack, job_id: str) -> float:
    """How long the lease of a waiting job still holds it."""
    until_text = stack.slurm.show_job(job_id).partition("EligibleTime=")[2].split()[0]
    return datetime.fromisoformat(until_text).timestamp() - time.time()


def gpu_counts(stack: Stack, job_id: str) -> dict[str, int]:
    """GPUs that a job got on each node, once roostd knows it."""
    until(lambda: bool(explain(stack, job_id).job.allocated), "roostd sees it run")
    allocated = explain(stack, job_id).job.allocated
    return {share.node: len(share.gpu_indices) for share in allocated}


def test_it_says_until_when_and_what_of_its_comment_was_passed_over(
    stack: Stack, job_id: str
) -> None:
    told = explain(stack, job_id)
    ends_s = time.time() + told.job.wait_left_s
    offs_s = (-30, -2, 0, 2)  # roostd was asked before
    minutes = {time.strftime("%H:%M", time.localtime(ends_s + off_s)) for off_s in offs_s}
    shown = stack.slurm.show_job(job_id)
    assert any(f" roost:advice {SENTENCE}{at}" in shown for at in minutes)
    assert told.job.reason in SENTENCE
    assert PINNED_S - 60 < told.job.wait_left_s <= PINNED_S
    assert list(told.comment.problems) == [
        "'modle': unknown key, did you mean model?",
        "checkpoint: want seconds above 0, such as 600, got 'soon'",
    ]


def test_a_hold_counts_at_once_and_a_release_lets_it_wait_again(stack: Stack, job_id: str) -> None:
    stack.slurm.run("scontrol", "hold", job_id)
    until(
        lambda: explain(stack, job_id).job.reason.startswith("is held"), "Roost takes the hold in"
    )
    stack.slurm.run("scontrol", "release", job_id)
    until(lambda: explain(stack, job_id).job.reason in SENTENCE, "it waits again")
    assert stack.slurm.state(job_id) == "PENDING"


def test_a_cancelled_job_is_gone_at_once(stack: Stack, job_id: str) -> None:
    stack.slurm.run("scancel", job_id)
    until(lambda: explain(stack, job_id).job.state == pb.JOB_STATE_ENDED, "Roost knows it")


def test_a_job_that_its_owner_starts_now_starts(stack: Stack, job_id: str) -> None:
    # A renewal under way would take the job back: the first one comes about when roostd says why.
    until(lambda: lease_left_s(stack, job_id) > FIRST_LEASE_S, "its lease is renewed")
    stack.slurm.run("scontrol", "update", f"jobid={job_id}", "StartTime=now")
    stack.slurm.wait_for_state(job_id, "RUNNING")
    assert gpu_counts(stack, job_id) == {"n1": 3, "n2": 3}


def test_a_changed_request_is_judged_again(stack: Stack, job_id: str) -> None:
    stack.slurm.run("scontrol", "update", f"jobid={job_id}", "TresPerJob=gres:gpu:2")
    stack.slurm.wait_for_state(job_id, "RUNNING")
    assert sorted(gpu_counts(stack, job_id).values()) == [2]


def test_timers_and_waits_outlive_a_kill_and_every_change_is_on_record(
    stack: Stack, job_id: str
) -> None:
    stack.stop_roostd(signal.SIGKILL)
    stack.start_roostd()
    listed = stack.operator().ListTimers(pb.ListTimersRequest())
    pinned = {timer.name for timer in listed.timers if timer.pinned_s == PINNED_S}
    assert pinned == {"4/low", "4/mid", "4/high"}
    until(lambda: explain(stack, job_id).job.reason in SENTENCE, "it waits for the same")
    time.sleep(LEASE_S + 1.0)
    assert stack.slurm.state(job_id) == "PENDING"
    audit = (stack.folder / "state" / "audit.log").read_text().splitlines()
    facts = [json.loads(line) for line in audit]
    assert [(fact["action"], fact["by"]) for fact in facts] == [("pin_timer", "alice")] * 3
