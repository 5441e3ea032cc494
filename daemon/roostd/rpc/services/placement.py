"""The Placement service: queries of the node agents on behalf of Slurm's hooks."""

from collections.abc import Awaitable, Callable, Sequence
from itertools import pairwise

import grpc
import structlog

from roost_engine.domain.events import SpeedSeen
from roost_engine.domain.model import NodeName
from roost_engine.domain.topology import LinkMatrix
from roost_engine.job_record import JobRecord, KnownJob
from roost_proto.v1 import placement_pb2 as pb
from roost_proto.v1 import placement_pb2_grpc as pb_grpc
from roostd.ops.metrics import Metrics
from roostd.rpc.access.auth import why_not_answered
from roostd.rpc.access.certificates import Revocations
from roostd.rpc.errors import Context
from roostd.rpc.messages import nodes
from roostd.state import DaemonState
from roostd.telemetry.interference_predictions import InterferencePredictions

_log = structlog.get_logger(__name__)


class PlacementService(pb_grpc.PlacementServicer):
    """Answers nodes with the planned GPUs, and checks the allocations that they report.

    Args:
        state: the daemon's state.
        metrics: counts.
        revocations: certificates that are no longer believed.
        report: puts an event to the engine; None: progress is not used.
    """

    def __init__(
        self,
        state: DaemonState,
        metrics: Metrics,
        revocations: Revocations,
        report: Callable[[SpeedSeen], Awaitable[None]] | None = None,
    ) -> None:
        self._state, self._metrics, self._revocations = state, metrics, revocations
        self._report, self._predictions = report, InterferencePredictions()

    async def GetPlan(self, request: pb.GetPlanRequest, context: Context) -> pb.Plan:
        """See placement.proto. A job that roostd does not manage is an answer, not an error."""
        await self._check_caller(request.node, context)
        node = NodeName(request.node)
        planned = self._planned(request.slurm_job_id, node)
        if planned is None:
            return pb.Plan(managed=False)
        report = self._state.board.report(node)
        ranked = rank_order(report.hello.links, planned) if report else planned
        return pb.Plan(
            managed=True,
            gpu_indices=planned,
            rank_order=ranked,
            gpu_uuids=nodes.uuids(self._state, node, planned),
        )

    async def ReportAllocation(
        self, request: pb.AllocationReport, context: Context
    ) -> pb.AllocationAck:
        """See placement.proto."""
        await self._check_caller(request.node, context)
        planned = self._planned(request.slurm_job_id, NodeName(request.node))
        allocated = tuple(sorted(request.gpu_indices))
        as_planned = planned in (None, allocated) or allocated in self._earlier(request)
        if not as_planned:
            self._metrics.mismatches.inc()
            _log.warning(
                "allocation_differs",
                slurm_job_id=request.slurm_job_id,
                node=request.node,
                planned=planned,
                allocated=allocated,
            )
        return pb.AllocationAck(as_planned=as_planned)

    async def Progress(self, request: pb.ProgressReport, context: Context) -> pb.ProgressAck:
        """See placement.proto."""
        await self._check_caller(request.node, context)
        state = self._state
        job_id = state.job_of(request.slurm_job_id)
        record = state.engine.managed(job_id)
        if record is None:
            return pb.ProgressAck(reason="Roost does not know this job")
        if request.node not in {share.node for share in record.shares}:
            return pb.ProgressAck(reason=f"the job does not run on {request.node}")
        dropped_count = state.progress.use_model(await self._predictions.ready(state.engine))
        if dropped_count:
            _log.warning("interference_table_dropped", row_count=dropped_count)
        state.progress.model_fault = self._predictions.fault
        verdict = state.progress.report(
            record,
            request.uid,
            request.step_count,
            state.clock.now_s(),
            lambda: self._predictions.of(state.engine, record),
        )
        if verdict.speed is not None and self._report is not None:
            await self._report(verdict.speed)
        return pb.ProgressAck(accepted=not verdict.reason, reason=verdict.reason)

    async def _check_caller(self, node: str, context: Context) -> None:
        why_not = why_not_answered(context, node, self._state.board.report(NodeName(node)))
        if why_not is None and self._revocations.is_revoked(context):
            why_not = "this certificate is revoked; give the agent a new one"
        if why_not is not None:
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, why_not)

    def _planned(self, slurm_job_id: int, node: NodeName) -> tuple[int, ...] | None:
        """Return a job's planned GPUs on a node; None where Roost did not place the job."""
        state = self._state
        job_id = state.job_of(slurm_job_id)
        record = state.engine.known(job_id)
        if record is None or not _is_bound(record):
            return None
        place = state.place(job_id, record)
        return None if place is None else dict(place.placement.by_node()).get(node)

    def _earlier(self, request: pb.AllocationReport) -> list[tuple[int, ...] | None]:
        """Return a job's GPUs on a node by each of its pins: Slurm may act on one late."""
        job_id = self._state.job_of(request.slurm_job_id)
        record, node = self._state.engine.find(job_id), NodeName(request.node)
        pins = record.pins if isinstance(record, JobRecord) else ()
        return [dict(placement.by_node()).get(node) for placement, _ in pins]


def _is_bound(record: KnownJob) -> bool:
    """Whether Slurm has the placement as a pin; a job that ran before this engine may have one."""
    return not isinstance(record, JobRecord) or record.is_binding


def rank_order(links: LinkMatrix, gpu_indices: Sequence[int]) -> list[int]:
    """Order GPUs so that neighbours in the list have fast links.

    A greedy search: from each GPU as the start, always continue with the unused GPU that has the
    best link to the last one; the best of these walks wins. Nearly optimal, in microseconds for the
    sixteen GPUs that a node has at most.

    Args:
        links: of the node.
        gpu_indices: the job's GPUs, ascending.
    """
    if any(gpu >= links.gpu_count for gpu in gpu_indices):
        return list(gpu_indices)

    def pair_score(a: int, b: int) -> int:
        link = links.links[a][b]
        return link.score if link is not None else 0

    def walk(start: int) -> list[int]:
        path, left = [start], [gpu for gpu in gpu_indices if gpu != start]
        while left:
            nearest = max(left, key=lambda gpu: (pair_score(path[-1], gpu), -gpu))
            left.remove(nearest)
            path.append(nearest)
        return path

    def length(path: list[int]) -> int:
        return sum(pair_score(a, b) for a, b in pairwise(path))

    return max(map(walk, gpu_indices), key=length, default=[])
