"""The demonstration's desk: submits its jobs, and asks roostd and Slurm what became of each."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

import grpc

from roost_demo.show import Row
from roost_demo.stack import DEMO_NODES, Stack
from roost_engine.domain.topology import LinkMatrix
from roost_engine.placement.stock_gpus import choose_since_24_05
from roost_proto.v1 import operator_pb2
from roost_slurm.text.scontrol import parse_jobs

_BEGUN = (operator_pb2.JOB_STATE_RUNNING, operator_pb2.JOB_STATE_ENDED)


class Cluster(Protocol):
    """Slurm, or its stand-in."""

    @property
    def backend(self) -> str:
        """What it is: "slurm" or "embedded"."""

    @property
    def stack(self) -> Stack:
        """The stack that runs it, with the probes and roostd."""

    def submit(self, node_count: int, gpus_per_node: int, run_s: float) -> str:
        """Submit a job and return its id."""

    def allocated(self, job_id: str) -> tuple[int, ...] | None:
        """GPU indices of a running job, the same on each node; None when it does not run."""


class RealCluster:
    """Real sbatch, real slurmctld: what was allocated is what scontrol shows."""

    backend = "slurm"

    def __init__(self) -> None:
        self.stack = Stack(has_page=True)

    def submit(self, node_count: int, gpus_per_node: int, run_s: float) -> str:
        """See Cluster."""
        options = (f"--gres=gpu:{gpus_per_node}", f"--nodes={node_count}")
        return self.stack.slurm.submit(*options, script=f"sleep {run_s:g}")

    def allocated(self, job_id: str) -> tuple[int, ...] | None:
        """See Cluster."""
        detail = parse_jobs(self.stack.slurm.show_job(job_id))[int(job_id)]
        return detail.allocated[0].gpu_indices if detail.allocated else None


class Desk:
    """One run of the demonstration, cluster and all."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster, self._stack = cluster, cluster.stack
        self._matrices = {node.name: node.describe().topology.links for node in DEMO_NODES}

    def __enter__(self) -> Self:
        self._stack.start()
        self._operator = self._stack.operator()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.stop()

    def introduction(self) -> Iterator[str]:
        """Yield what is running, in a few lines."""
        status = self._operator.GetStatus(operator_pb2.GetStatusRequest())
        nodes = ", ".join(f"{node.name} ({node.topology})" for node in DEMO_NODES)
        yield f"Slurm {status.slurm_version}, {nodes}"
        yield (
            f"{status.probe_count} probes report {status.gpu_count} GPUs to roostd "
            f"{status.version}, policy {status.policy_model} {status.policy_sha256[:12]}"
        )
        program = Path(sys.executable).with_name("roostctl")
        yield f"look around meanwhile: {program} --daemon {self._stack.operator_address} nodes"
        yield f"or in a browser on this machine: {self._stack.page_url}"

    @property
    def backend(self) -> str:
        """What the cluster is: "slurm" or "embedded"."""
        return self._cluster.backend

    def slurm_version(self) -> str:
        """Return the release of Slurm, or the one that its stand-in plays."""
        return self._operator.GetStatus(operator_pb2.GetStatusRequest()).slurm_version

    def has_ended(self, job_id: str) -> bool:
        """Return whether a job that has started has ended too."""
        job = self._operator.GetJob(operator_pb2.GetJobRequest(job_id=job_id))
        return job.state == operator_pb2.JOB_STATE_ENDED

    def submit(self, gpu_count: int, run_s: float) -> str:
        """Submit a job of so many GPUs, eight a node, and return its id."""
        return self._cluster.submit(max(1, gpu_count // 8), min(gpu_count, 8), run_s)

    def started(self, job_id: str) -> Row | None:
        """Return the row of a job that has started; None while the job waits."""
        try:
            explanation = self._operator.ExplainJob(operator_pb2.ExplainJobRequest(job_id=job_id))
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.NOT_FOUND:
                return None  # submitted just now
            raise
        if explanation.job.state not in _BEGUN:
            return None
        allocated = self._cluster.allocated(job_id)
        return None if allocated is None else make_row(explanation, allocated, self._matrices)


def make_row(
    explanation: operator_pb2.Explanation,
    allocated: tuple[int, ...],
    matrices: dict[str, LinkMatrix],
) -> Row:
    """Put one job's row together.

    Args:
        explanation: the job's, from roostd.
        allocated: the GPU indices that Slurm reports.
        matrices: the links of each node.
    """
    job = explanation.job
    planned = job.planned[0]
    per_node = len(planned.gpu_indices)
    free = tuple(explanation.free_before[0].gpu_indices)
    stock = choose_since_24_05(matrices[planned.node], free, per_node)
    return Row(
        job_id=job.job_id,
        gpu_count=per_node * len(job.planned),
        nodes=tuple(share.node for share in job.planned),
        chosen=tuple(planned.gpu_indices),
        allocated=allocated,
        link_score=job.link_score,
        best_link_score=job.best_link_score,
        stock=stock,
        stock_link_score=sum(matrices[share.node].score(stock) for share in job.planned),
    )
