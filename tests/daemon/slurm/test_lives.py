"""The lives of a job: Slurm may reuse its number, and may requeue it."""

import pytest

from roost_engine.domain.model import JobId
from roost_slurm.text.squeue import QueuedJob, SlurmJobState
from roostd.slurm.lives import Life, Lives, is_next_life, life_of, life_of_holder

REQUEUED: Life = (7, 160.0, 1)  # record number, submission, restarts


@pytest.mark.parametrize(
    ("before", "is_next"),
    [
        pytest.param((7, 100.0, 0), True, id="requeued"),
        pytest.param(REQUEUED, False, id="the same life"),
        pytest.param((8, 100.0, 0), False, id="another record"),
        pytest.param((7, 90.0, 3), False, id="a reused number"),
        pytest.param(None, False, id="never seen"),
    ],
)
def test_a_life_is_the_next_one_after_more_restarts_of_the_same_record(
    before: Life | None, is_next: bool
) -> None:
    assert is_next_life(before, REQUEUED) is is_next


def test_a_life_that_goes_on_is_the_same_object() -> None:
    before = {JobId("7"): (7, 100.0, 0), JobId("8"): (8, 100.0, 0)}
    lives = Lives(before)
    for job_id, life in (("7", (7, float("100"), 0)), ("8", (8, 200.0, 1)), ("9", (9, 200.0, 0))):
        lives.note(JobId(job_id), life)
    assert lives.now[JobId("7")] is before[JobId("7")]
    assert [job_id for job_id in lives.now if lives.is_same(job_id)] == ["7"]


def test_a_task_that_has_left_its_arrays_record_stays_the_same() -> None:
    task = QueuedJob(number=12, array_number=7, submit_epoch_s=100.0)
    assert life_of(task) == life_of(QueuedJob(number=7, submit_epoch_s=100.0))


def test_a_requeued_job_that_still_completes_is_in_its_former_life() -> None:
    known: Life = (7, 100.0, 0)
    job = QueuedJob(number=7, submit_epoch_s=160.0, restart_count=1, state=SlurmJobState.COMPLETING)
    assert life_of_holder(job, known) == known
    assert life_of_holder(job, None) == REQUEUED
