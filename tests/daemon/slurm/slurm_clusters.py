"""Two Slurms behind one face, so that one test asks both: in memory, and real."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from roost_engine.domain.model import JobId, NodeName, NodeShare, Placement, Shape
from roost_engine.domain.tier import Tier
from roost_engine.testing.builders import node
from roost_slurm.testing.cluster_plan import ClusterPlan
from roost_slurm.testing.local_slurm import LocalSlurm
from roostd.slurm.port import SlurmPort
from roostd.slurm.request import shares_of
from roostd.slurm.slurm_cli import SlurmCli
from roostd.testing.slurm_stand_in import SlurmStandIn

LEASE_S = 300
# What job_submit.lua does to a GPU job while roostd lives, without a heartbeat to keep fresh.
LEASE_SCRIPT = f"""
function slurm_job_submit(job, partitions, uid)
  local asked = ""
  for _, form in ipairs({{"tres_per_node", "tres_per_job", "tres_per_task", "tres_per_socket"}}) do
    asked = asked .. (job[form] or "")
  end
  if not asked:find("gpu") or job.shared == 0 then return slurm.SUCCESS end
  local begin, earliest = tonumber(job.begin_time) or 0, os.time() + {LEASE_S}
  local has_begin = begin > os.time() and begin < 4294967294
  job.admin_comment = has_begin and "roost:lease begin=" .. begin or "roost:lease"
  job.begin_time = math.max(has_begin and begin or 0, earliest)
  return slurm.SUCCESS
end
function slurm_job_modify() return slurm.SUCCESS end
return slurm.SUCCESS
"""
PLAN = replace(ClusterPlan.uniform(4), job_submit_lua=LEASE_SCRIPT)
_START_TIMEOUT_S = 60.0


class Cluster(Protocol):
    """What the contract needs beside the port."""

    port: SlurmPort

    def submit(self, options: str) -> JobId:
        """Submit with sbatch's options; returns the job's id, an array's without a task."""

    def end(self, job_id: JobId) -> None:
        """Cancel or end a job."""


class RealCluster:
    """A throw-away Slurm through its commands."""

    def __init__(self, slurm: LocalSlurm) -> None:
        self.slurm = slurm
        self.port: SlurmPort = SlurmCli(conf=slurm.folder.slurm_conf)

    def submit(self, options: str) -> JobId:
        """See Cluster."""
        return JobId(self.slurm.submit(*options.split()))

    def end(self, job_id: JobId) -> None:
        """See Cluster."""
        self.slurm.run("scancel", job_id)


class StandInCluster:
    """The one in memory."""

    def __init__(self) -> None:
        nodes = [node(f"n{number}", cpu_count=16) for number in range(1, 5)]
        self.slurm = SlurmStandIn(nodes, lease_s=LEASE_S)
        self.port: SlurmPort = self.slurm

    def submit(self, options: str) -> JobId:
        """See Cluster."""
        words = [word.lstrip("-").partition("=")[::2] for word in options.split()]
        given = dict(words)
        per_node = given.get("gres", "").rpartition(":")[2] or given.get("gpus-per-node")
        per_socket = given.get("gpus-per-socket")
        first, _, last = given.get("nodes", "").partition("-")
        tasks, array = given.get("ntasks"), given.get("array", "")
        job_ids = self.slurm.submit(
            gpus=_number(given.get("gpus")),
            gpus_per_node=_number(per_node or per_socket),
            gpus_per_task=_number(given.get("gpus-per-task")),
            nodes=(int(first), int(last or first)) if first else (1, None),
            tasks=_number(tasks),
            node_list=given.get("nodelist", ""),
            exclude=given.get("exclude", ""),
            begin_epoch_s=_begin(given.get("begin")),
            array=range(int(array.partition("-")[2].partition("%")[0]) + 1) if array else (),
            task_limit=_number(array.partition("%")[2]),
        )
        return JobId(job_ids[0].partition("_")[0])

    def end(self, job_id: JobId) -> None:
        """See Cluster."""
        every = [job_id] if self.slurm.state(job_id) else []
        tasks = (JobId(f"{job_id}_{task}") for task in range(100))
        for one in every or [task for task in tasks if self.slurm.state(task)]:
            self.slurm.end(one)


def _number(text: str | None) -> int | None:
    return int(text) if text else None


def _begin(text: str | None) -> float | None:
    return time.time() + int(text.removeprefix("now+")) if text else None


def placement(nodes: str, *gpu_indices: int) -> Placement:
    """Say a placement: placement("n1,n2", 2, 3)."""
    names = tuple(map(NodeName, nodes.split(",")))
    shape = Shape(node_count=len(names), gpus_per_node=len(gpu_indices))
    return Placement(names, gpu_indices, shape, Tier.NODE if len(names) == 1 else Tier.RACK)


async def allocation(port: SlurmPort, job_id: JobId) -> tuple[NodeShare, ...]:
    """Return what a job holds now; empty when it holds nothing or is gone."""
    if isinstance(port, SlurmStandIn):
        return await port.allocation(job_id)
    assert isinstance(port, SlurmCli)
    detail = await port._detail(job_id)
    return shares_of(detail) if detail else ()


async def started(port: SlurmPort, job_id: JobId) -> tuple[NodeShare, ...]:
    """Wait until a job holds something, and return what."""
    deadline_s = time.monotonic() + _START_TIMEOUT_S
    while not (shares := await allocation(port, job_id)):
        assert time.monotonic() < deadline_s, f"{job_id} did not start: {await port.queue()}"
        await asyncio.sleep(0.05)
    return shares


def gpus(shares: Sequence[NodeShare]) -> dict[str, tuple[int, ...]]:
    """Which GPUs, by node."""
    return {str(share.node): share.gpu_indices for share in shares}
