"""GPUs that no job has, by what slurmctld shows of nodes and jobs."""

from dataclasses import replace

import pytest

from roost_slurm.text.scontrol import AllocatedNode, JobDetail
from roost_slurm.text.squeue import QueuedJob, SlurmJobState
from roost_slurm.text.stranded import Held, held_by_jobs, stranded

RUNNING, SUSPENDED = SlurmJobState.RUNNING, SlurmJobState.SUSPENDED
Job = tuple[QueuedJob, JobDetail]


def a_job(
    number: int,
    *gpus: int,
    state: SlurmJobState = RUNNING,
    asks: str = "gres/gpu:1",
    shared: tuple[int, ...] = (),
) -> tuple[QueuedJob, JobDetail]:
    """A job with two CPUs of n1."""
    allocated = (AllocatedNode("n1", gpus, 2, 0, shared_indices=shared),)
    tres = (("TresPerNode", asks),) if asks else ()
    return QueuedJob(number=number, state=state, nodes="n1", tres=tres), JobDetail(
        number=number,
        state=state,
        reason="",
        is_held=False,
        min_node_count=1,
        max_node_count=None,
        excluded_nodes="",
        required_nodes="",
        allocated=allocated,
    )


def found(*used: int, jobs: tuple[Job, ...] = (), cpus: int = 0, state: str = "mixed") -> set[int]:
    """The stranded GPUs of n1."""
    details = {detail.number: detail for _, detail in jobs}
    held = held_by_jobs([job for job, _ in jobs], details)
    return set(stranded(used, cpus, state, held.get("n1", Held())))


def test_what_no_job_of_a_busy_node_has_is_stranded() -> None:
    jobs = a_job(1, 0), a_job(2, 2), a_job(3, asks="")
    assert found(0, 1, 2, 5, jobs=jobs, cpus=6) == {1, 5}


def test_what_an_idle_node_counts_as_used_is_stranded() -> None:
    assert found(3, state="idle") == {3}
    assert found(state="idle") == set()


def test_a_suspended_job_has_its_gpus_and_no_cpu() -> None:
    jobs = a_job(1, 0), a_job(2, 1, state=SUSPENDED)
    assert found(0, 1, jobs=jobs, cpus=2) == set()
    assert found(0, 1, 2, jobs=jobs, cpus=2) == {2}


def test_a_gpu_of_which_a_job_has_shards_is_not_stranded() -> None:
    assert found(3, jobs=(a_job(1, asks="gres/shard:1", shared=(3,)),), cpus=2) == set()


@pytest.mark.parametrize(
    "jobs",
    [
        (),  # the job that has GPU 0 ended before the queue was read
        (a_job(1), a_job(2, 5)),  # slurmctld does not know which GPU the first has
        (a_job(1, state=SlurmJobState.COMPLETING),),
        (a_job(1, state=SlurmJobState.CONFIGURING),),
    ],
)
def test_nothing_is_told_where_nodes_and_jobs_do_not_fit(jobs: tuple[Job, ...]) -> None:
    assert found(0, jobs=jobs, cpus=2 * max(len(jobs), 1)) == set()


def test_nothing_is_told_of_a_job_without_details() -> None:
    job, _ = a_job(1, 0)
    assert not held_by_jobs([job], {})["n1"].is_known
    assert held_by_jobs([replace(job, nodes="n[1")], {}) == {}


def test_nothing_is_told_of_a_node_where_a_job_completes() -> None:
    assert found(0, state="idle+completing") == set()
