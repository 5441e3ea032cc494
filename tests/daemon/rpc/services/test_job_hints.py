"""What a caller is told to ask for instead of a job that is not known."""

import pytest
from tests.daemon.app.parts import Parts

from roost_engine.domain.events import JobEnded, JobQueued
from roost_engine.domain.model import JobId
from roost_engine.testing.builders import job
from roostd.rpc.services.job_hints import unknown_job
from roostd.state import ReportedRun, UnmanagedJob


def anything(job_id: JobId) -> bool:
    return True


@pytest.fixture
def parts() -> Parts:
    """Two tasks of array 7, of which one has ended, a third that is left to Slurm, and job 71_0."""
    parts = Parts("n1")
    for name in ("7_10", "7_9", "71_0"):
        parts.state.engine.step(JobQueued(at_s=100.0, job=job(name, gpus=1)))
    parts.state.engine.step(JobEnded(at_s=101.0, job_id=JobId("7_10")))
    parts.state.unmanaged[JobId("7_11")] = UnmanagedJob(reason="held", is_blocked=True)
    return parts


def test_an_arrays_number_names_its_tasks(parts: Parts) -> None:
    assert str(unknown_job(parts.state, "7", anything)) == (
        "no job '7': it is an array; ask for a task of it: 7_9, 7_10, 7_11"
    )


def test_of_many_tasks_some_are_named(parts: Parts) -> None:
    parts.state.unmanaged_reasons = {JobId(f"8_{task}"): "no GPUs" for task in range(1000)}
    assert str(unknown_job(parts.state, "8", anything)) == (
        "no job '8': it is an array; ask for a task of it: 8_0, 8_1, 8_2, 8_3, 8_4 and 995 more"
    )


@pytest.mark.parametrize("job_id", ["9", "7_12", "", "7_", "nonsense", "٧"])
def test_other_names_are_just_unknown(parts: Parts, job_id: str) -> None:
    assert str(unknown_job(parts.state, job_id, anything)) == f"no job {job_id!r}"


def test_tasks_of_another_user_are_not_named(parts: Parts) -> None:
    assert str(unknown_job(parts.state, "7", lambda job_id: False)) == "no job '7'"


def test_a_part_of_a_heterogeneous_job_has_a_number_of_its_own(parts: Parts) -> None:
    told = str(unknown_job(parts.state, "7+1", anything))
    assert "by a number of its own" in told
    assert "squeue -j 7 -o '%i %A'" in told


def test_a_job_that_only_the_hooks_have_seen_is_told_from_no_job(parts: Parts) -> None:
    now_s = parts.state.clock.now_s()
    parts.state.reported_runs[JobId("9")] = ReportedRun(started_s=now_s - 5, ended_s=now_s - 3)
    parts.state.reported_runs[JobId("7_13")] = ReportedRun(ended_s=now_s - 2)
    told = str(unknown_job(parts.state, "9", anything))
    assert told.startswith("no job '9': Slurm's hooks report that it started 5 s ago and ended 3 s")
    assert told.endswith("sacct -j 9 has the rest")
    assert "that it ended 2 s ago" in str(unknown_job(parts.state, "7_13", anything))
    assert str(unknown_job(parts.state, "9", anything, sees_all=False)) == "no job '9'"
