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
from roost_slurm.text.scontrol import JobDetail, parse_jobs, parse_nodes
from roost_slurm.text.squeue import QueuedJob, parse_queue
from roostd.slurm.port import QueueSnapshot, SlurmNode
from roostd.slurm.slurm_cli import SlurmCli
from roostd.slurm.stranded_gpus import StrandedGpus


def a_node(*used: int, cpus: int = 0, state: str = "mixed") -> SlurmNode:
    return SlurmNode(
        spec=node("n1"),
        state=state,
        reason="",
        cpu_allocated_count=cpus,
        memory_allocated_bytes=0,
        used_gpus=used,
    )


def shot(*jobs: tuple[QueuedJob, JobDetail]) -> QueueSnapshot:
    details = {detail.number: detail for _, detail in jobs}
    return QueueSnapshot(at_epoch_s=1.0, jobs=tuple(job for job, _ in jobs), details=details)


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
