"""`stack: roost` on a real Slurm: the job with most service stops, if it has a checkpoint."""

from collections.abc import Iterator

import pytest
from tests.conftest import missing
from tests.e2e.ledger import cleared, outcomes, submit, wait_until_over
from tests.e2e.test_local_preemption import assert_lost_no_more_than_an_interval, resumptions, train

from roost_demo.stack import NodeKind, Stack
from roost_slurm.testing.availability import LocalSlurmUnavailable

pytestmark = [pytest.mark.slurm, pytest.mark.nvml]

SETTINGS = {
    "stack": "roost",
    "partitions": {"main": {"mode": "enforce", "preemption": True}},
    "preemption": {"lease_s": 1.0},
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Stack]:
    try:
        with Stack([NodeKind(name="n1", topology="bridges8")], settings=SETTINGS) as running:
            yield running
    except LocalSlurmUnavailable as error:
        missing(str(error))


@pytest.fixture
def stack(cluster: Stack) -> Iterator[Stack]:
    with cleared(cluster):
        yield cluster


def test_a_newcomer_displaces_the_job_that_has_had_more_service(stack: Stack) -> None:
    trainer = train(stack)
    newcomer = submit(stack.slurm, "--gres=gpu:8", command="sleep 2")
    wait_until_over(stack.slurm, [newcomer, trainer], 100.0)

    assert len(resumptions(stack, trainer)) == 2
    assert_lost_no_more_than_an_interval(stack, trainer)
    assert outcomes(stack.slurm, [newcomer])[newcomer].state == "COMPLETED"
    assert f"event=job_stopped job_id={trainer} for_job={newcomer}" in stack.log("roostd")


def test_a_job_without_a_checkpoint_keeps_its_gpus(stack: Stack) -> None:
    kept = submit(stack.slurm, "--gres=gpu:8", command="sleep 4")
    stack.slurm.wait_for_state(kept, "RUNNING")
    newcomer = submit(stack.slurm, "--gres=gpu:8", command="true")
    wait_until_over(stack.slurm, [kept, newcomer], 100.0)

    first, second = (outcomes(stack.slurm, [job_id])[job_id] for job_id in (kept, newcomer))
    assert first.state == second.state == "COMPLETED"
    assert first.ended_s <= second.began_s
    assert f"job_id={kept} for_job=" not in stack.log("roostd")
