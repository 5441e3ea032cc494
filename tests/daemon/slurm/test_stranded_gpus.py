"""GPUs that slurmctld counts as used though no job has them, also beside running jobs."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace

import pytest
from tests.conftest import LocalSlurmFactory
from tests.slurm_glue.recorded import RELEASES, numbers, read
from tests.slurm_glue.stranding import STRANDING_RELEASE, node_of, strand_gpu

from roost_engine.domain.model import NodeName
from roost_engine.testing.builders import node
from roost_slurm.testing.cluster_plan import ClusterPlan
from roost_slurm.testing.local_slurm import LocalSlurm
from roost_slurm.text.scontrol import AllocatedNode, JobDetail, parse_jobs, parse_nodes
from roost_slurm.text.squeue import QueuedJob, SlurmJobState, parse_queue
from roostd.slurm.port import QueueSnapshot, SlurmNode
from roostd.slurm.slurm_cli import SlurmCli
from roostd.slurm.stranded_gpus import StrandedGpus

RUNNING, SUSPENDED = SlurmJobState.RUNNING, SlurmJobState.SUSPENDED


def a_node(*used: int, cpus: int = 0, state: str = "mixed") -> SlurmNode:
    return SlurmNode(
        spec=node("n1"),
        state=state,
        reason="",
        cpu_allocated_count=cpus,
        memory_allocated_bytes=0,
        used_gpus=used,
    )


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


def shot(*jobs: tuple[QueuedJob, JobDetail]) -> QueueSnapshot:
    details = {detail.number: detail for _, detail in jobs}
    return QueueSnapshot(at_epoch_s=1.0, jobs=tuple(job for job, _ in jobs), details=details)


def twice(one: SlurmNode, snapshot: QueueSnapshot) -> Mapping[NodeName, int]:
    stranded = StrandedGpus()
    assert stranded.compare((one,), snapshot) == {}
    return stranded.compare((one,), snapshot)


def test_what_no_job_of_a_busy_node_has_is_stranded() -> None:
    jobs = shot(a_job(1, 0), a_job(2, 2), a_job(3, asks=""))
    assert twice(a_node(0, 1, 2, 5, cpus=6), jobs) == {"n1": 2}


def test_what_an_idle_node_counts_as_used_is_stranded() -> None:
    assert twice(a_node(3, state="idle"), shot()) == {"n1": 1}
    assert twice(a_node(state="idle"), shot()) == {}


def test_a_suspended_job_has_its_gpus_and_no_cpu() -> None:
    jobs = shot(a_job(1, 0), a_job(2, 1, state=SUSPENDED))
    assert twice(a_node(0, 1, cpus=2), jobs) == {}
    assert twice(a_node(0, 1, 2, cpus=2), jobs) == {"n1": 1}


def test_a_gpu_of_which_a_job_has_shards_is_not_stranded() -> None:
    jobs = shot(a_job(1, asks="gres/shard:1", shared=(3,)))
    assert twice(a_node(3, cpus=2), jobs) == {}


@pytest.mark.parametrize(
    "jobs",
    [
        (),  # the job that has GPU 0 ended before the queue was read
        (a_job(1), a_job(2, 5)),  # slurmctld does not know which GPU the first has
        (a_job(1, state=SlurmJobState.COMPLETING),),
        (a_job(1, state=SlurmJobState.CONFIGURING),),
    ],
)
def test_nothing_is_told_where_nodes_and_jobs_do_not_fit(
    jobs: tuple[tuple[QueuedJob, JobDetail], ...],
) -> None:
    assert twice(a_node(0, cpus=2 * max(len(jobs), 1)), shot(*jobs)) == {}


def test_nothing_is_told_of_a_job_without_details() -> None:
    job, _ = a_job(1, 0)
    unknown = QueueSnapshot(at_epoch_s=1.0, jobs=(job,), details={})
    assert twice(a_node(0), unknown) == {}
    unreadable = replace(unknown, jobs=(replace(job, nodes="n[1"),))
    assert twice(a_node(0, cpus=2), unreadable) == {}


def test_nothing_is_told_of_a_node_where_a_job_completes() -> None:
    assert twice(a_node(0, state="idle+completing"), shot()) == {}


def test_the_same_gpu_must_be_without_a_job_in_two_readings() -> None:
    stranded = StrandedGpus()
    assert stranded.compare((a_node(0),), shot()) == {}
    assert stranded.compare((a_node(1),), shot()) == {}
    assert stranded.compare((a_node(1, 2),), shot()) == {"n1": 1}
    assert stranded.compare((a_node(),), shot()) == {}
    assert stranded.compare((a_node(1),), shot()) == {}


@pytest.mark.parametrize("release", RELEASES)
def test_recorded_nodes_and_jobs_fit_on_each_release(release: str) -> None:
    queue = parse_queue(read(release, "squeue.txt"))
    details = parse_jobs(read(release, "show_job.txt"))
    jobs = QueueSnapshot(at_epoch_s=1.0, jobs=queue.jobs, details=details)
    nodes = [
        replace(
            a_node(*one.used_gpus, cpus=one.cpu_allocated_count, state=one.state),
            spec=node(one.name),
        )
        for one in parse_nodes(read(release, "show_nodes.txt"))
    ]
    assert [one.used_gpus for one in nodes] == [(0, 2, 3), (0, 1, 2, 3), ()]
    stranded = StrandedGpus()
    for _ in range(2):
        assert stranded.compare(nodes, jobs) == {}
    # The job with GPUs 2 and 3 of n1, and 2 CPUs, was forgotten.
    gone = numbers(release)["typed"]
    fewer = replace(jobs, jobs=tuple(job for job in queue.jobs if job.number != gone))
    less = [replace(nodes[0], cpu_allocated_count=nodes[0].cpu_allocated_count - 2), *nodes[1:]]
    for found in ({}, {"n1": 2}):
        assert stranded.compare(less, fewer) == found
    assert stranded.compare(nodes, fewer) == {}


@pytest.mark.slurm
@pytest.mark.timeout(400)
def test_slurm_22_05_strands_a_gpu_beside_a_running_job(
    local_slurm_factory: LocalSlurmFactory,
) -> None:
    slurm = local_slurm_factory(ClusterPlan.uniform(1, 3))
    if not slurm.run("scontrol", "--version").startswith(STRANDING_RELEASE):
        pytest.skip("later releases were not seen to do that")
    slurm.wait_for_state(slurm.submit("--gres=gpu:g2:1"), "RUNNING")
    assert asyncio.run(_compare(slurm)) == {}
    strand_gpu(slurm)
    assert node_of(slurm).cpu_allocated_count
    assert asyncio.run(_compare(slurm)) == {"n1": 1}
    slurm.run("scontrol", "reconfigure")
    assert asyncio.run(_compare(slurm)) == {}


async def _compare(slurm: LocalSlurm) -> Mapping[NodeName, int]:
    port, stranded = SlurmCli(conf=slurm.folder.slurm_conf), StrandedGpus()
    stranded.compare(await port.nodes(), await port.queue())
    return stranded.compare(await port.nodes(), await port.queue())
