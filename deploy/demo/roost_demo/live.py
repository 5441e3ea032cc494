"""The demonstration on real Slurm: submits with sbatch, asks roostd and scontrol for the result."""

from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Protocol, Self

import grpc

from roost_demo.show import Row
from roost_demo.stack import DEMO_NODES, NodeKind, Stack
from roost_proto.v1 import operator_pb2
from roost_slurm.scontrol import parse_jobs
from roostd.core.topology import LinkMatrix
from roostd.testing.stock_slurm import choose_since_24_05


class Desk(Protocol):
    """Where the demonstration hands in its jobs."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def introduction(self) -> Iterator[str]:
        """What is running, in a few lines."""

    def submit(self, gpu_count: int, run_s: float) -> str:
        """Submit a job and return its id."""

    def started(self, job_id: str) -> Row | None:
        """What became of it; None while it waits."""


class LiveDesk:
    """Real sbatch, real slurmctld, real probes."""

    def __init__(self) -> None:
        self._stack = Stack()
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
        """See Desk."""
        status = self._operator.GetStatus(operator_pb2.GetStatusRequest())
        yield f"Slurm {status.slurm_version}, {_nodes_in_words(DEMO_NODES)}"
        yield (
            f"{status.probe_count} probes report {status.gpu_count} GPUs to roostd "
            f"{status.version}, policy {status.policy_model} {status.policy_sha256[:12]}"
        )
        yield f"look around meanwhile: roostctl --daemon {self._stack.operator_address} nodes"

    def submit(self, gpu_count: int, run_s: float) -> str:
        """See Desk."""
        nodes, per_node = max(1, gpu_count // 8), min(gpu_count, 8)
        options = (f"--gres=gpu:{per_node}", f"--nodes={nodes}", f"--job-name=demo{gpu_count}")
        return self._stack.slurm.submit(*options, script=f"sleep {run_s:g}")

    def started(self, job_id: str) -> Row | None:
        """See Desk."""
        try:
            explanation = self._operator.ExplainJob(operator_pb2.ExplainJobRequest(job_id=job_id))
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.NOT_FOUND:
                return None  # submitted just now
            raise
        job = explanation.job
        if job.state not in (operator_pb2.JOB_STATE_RUNNING, operator_pb2.JOB_STATE_ENDED):
            return None
        detail = parse_jobs(self._stack.slurm.show_job(job_id))[int(job_id)]
        if not detail.allocated:
            return None
        return make_row(explanation, detail.allocated[0].gpu_indices, self._matrices)


def make_row(
    explanation: operator_pb2.Explanation,
    allocated: tuple[int, ...],
    matrices: dict[str, LinkMatrix],
) -> Row:
    """Put one job's row together.

    Args:
        explanation: roostd's.
        allocated: Slurm's, by Slurm's own word.
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


def _nodes_in_words(nodes: Sequence[NodeKind]) -> str:
    return ", ".join(f"{node.name} ({node.topology})" for node in nodes)
