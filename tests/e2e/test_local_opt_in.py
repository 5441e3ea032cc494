"""On real Slurm: jobs outside the opt-in start by themselves, and the others where Roost said."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conftest import missing
from tests.e2e.ledger import (
    assert_all_completed,
    cleared,
    job_states,
    planned,
    submit,
    until,
    until_exists,
    wait_until_over,
)

from roost_demo.stack import NodeKind, Stack
from roost_proto.v1 import operator_pb2
from roost_slurm.testing.availability import LocalSlurmUnavailable

pytestmark = [pytest.mark.slurm, pytest.mark.nvml, pytest.mark.timeout(300)]

NODES = (
    NodeKind(name="n1", topology="bridges8"),
    NodeKind(name="n2", topology="bridges8"),
)
SETTINGS = {"accounts": ["vision"], "partitions": {"main": {"mode": "enforce", "nodes": "n1"}}}
LEASE_S = 120  # longer than any wait below: no job starts because its lease runs out
PATIENCE_S = 100.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Stack]:
    try:
        with Stack(NODES, lease_s=LEASE_S, settings=SETTINGS) as running:
            yield running
    except LocalSlurmUnavailable as error:
        missing(str(error))


@pytest.fixture
def stack(cluster: Stack) -> Iterator[Stack]:
    with cleared(cluster):
        yield cluster


def reason(stack: Stack, job_id: str) -> str:
    return stack.operator().GetJob(operator_pb2.GetJobRequest(job_id=job_id)).reason


def test_a_job_of_another_account_is_not_held_and_not_pinned(stack: Stack) -> None:
    mine = submit(stack.slurm, "--account=vision", "--gres=gpu:2", command="srun true")
    other = submit(stack.slurm, "--account=speech", "--gres=gpu:2", command="srun true")
    nobody = submit(stack.slurm, "--gres=gpu:2", command="srun true")
    began_s = time.monotonic()
    wait_until_over(stack.slurm, [mine, other, nobody], PATIENCE_S)
    assert time.monotonic() - began_s < LEASE_S
    found = assert_all_completed(stack.slurm, {mine: 2, other: 2, nobody: 2})
    assert found[mine].gpus == planned(stack, mine)
    assert set(found[mine].gpus) == {"n1"}
    for job_id in (other, nobody):
        assert "is not in accounts of roostd.yaml: left to Slurm" in reason(stack, job_id)


def test_a_job_of_another_account_gets_no_lease_at_submission(stack: Stack) -> None:
    os.kill(stack.roostd_pid, signal.SIGSTOP)  # nothing but job_submit.lua acts
    try:
        mine = submit(stack.slurm, "--account=vision", "--gres=gpu:1", command="true")
        other = submit(stack.slurm, "--account=speech", "--gres=gpu:1", command="true")
        assert "AdminComment=roost:lease" in stack.slurm.show_job(mine)
        assert "AdminComment=roost:lease" not in stack.slurm.show_job(other)
    finally:
        os.kill(stack.roostd_pid, signal.SIGCONT)
    wait_until_over(stack.slurm, [mine, other], PATIENCE_S)
    assert_all_completed(stack.slurm, {mine: 1, other: 1})


def test_jobs_that_do_not_fit_on_the_listed_nodes_start_on_others(
    stack: Stack, tmp_path: Path
) -> None:
    may_end, left = tmp_path / "may-end", set[str]()
    options = ("--account=vision", "--gres=gpu:8")
    jobs = [submit(stack.slurm, *options, command=until_exists(may_end)) for _ in range(3)]

    def are_over() -> bool:
        known = stack.operator().ListJobs(operator_pb2.ListJobsRequest()).jobs
        left.update(job.job_id for job in known if "partitions.main.nodes" in job.reason)
        if left:
            may_end.touch()
        return {job_states(stack.slurm).get(job_id) for job_id in jobs} == {"COMPLETED"}

    until(are_over, "all jobs have run", PATIENCE_S)
    found = assert_all_completed(stack.slurm, dict.fromkeys(jobs, 8))
    assert 1 <= len(left) <= 2
    for job_id in set(jobs) - left:
        assert found[job_id].gpus == planned(stack, job_id)
        assert set(found[job_id].gpus) == {"n1"}
    assert {"n2"} in [set(found[job_id].gpus) for job_id in left]
