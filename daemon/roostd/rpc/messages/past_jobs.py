"""Jobs that the engine has forgotten, from the journal, in the words of operator.proto."""

from roost_engine.domain.actions import Place
from roost_engine.domain.model import JobId, NodeShare
from roost_formats.journal.past_jobs import PastJob
from roost_proto.v1 import operator_pb2 as pb
from roostd.rpc.messages.decision import add_decision
from roostd.rpc.messages.jobs import never_seen_to_run
from roostd.state import DaemonState

_UNKNOWN_USER = -1


async def past_explanation(state: DaemonState, job_id: JobId) -> pb.Explanation | None:
    """Return how a job was decided that is in the journal only; None: it is not there either."""
    found = None if state.find_past is None else await state.find_past(job_id)
    if found is None:
        return None
    job, place = found
    now_s = state.clock.to_epoch_s(state.clock.now_s())
    message = pb.Explanation(job=_job(job, now_s), is_from_journal=True)
    if place is not None and _gpus(place) == _planned_gpus(job):
        add_decision(message, place, state.clock.now_s())
        message.fallback_reason = place.decision.get().fallback_reason
    return message


def _job(job: PastJob, now_s: float) -> pb.Job:
    ran_s = job.ended_s if job.started_s is None else job.started_s
    message = pb.Job(
        job_id=job.job_id,
        user_id=None if job.user_id == _UNKNOWN_USER else job.user_id,
        partition=job.partition,
        state=pb.JOB_STATE_ENDED,
        reason=_reason(job),
        gpu_count=job.gpu_count,
        waited_s=max(ran_s - job.queued_s, 0.0),
        planned=map(_allocation, job.planned),
        allocated=map(_allocation, job.allocated),
        best_link_score=job.best_link_score,
        name=job.name,
        account=job.account,
        qos=job.qos,
        ended_ago_s=max(now_s - job.ended_s, 0.0),
    )
    if not job.allocated:
        if job.planned_link_score is not None:
            message.link_score = job.planned_link_score
    elif job.link_score is not None and job.best_link_score is not None:
        message.link_score = job.link_score
        if job.real_best_link_score is not None:
            message.best_link_score = job.real_best_link_score
        if not job.is_as_planned and job.planned_link_score is not None:
            message.planned_link_score = job.planned_link_score
    return message


def _reason(job: PastJob) -> str:
    if job.planned:
        return ""
    is_left = job.is_binding is None and job.started_s is None
    return never_seen_to_run(job.job_id, job.reason) if is_left else job.reason


def _allocation(share: NodeShare) -> pb.NodeAllocation:
    return pb.NodeAllocation(node=share.node, gpu_indices=share.gpu_indices)


def _gpus(place: Place) -> dict[str, tuple[int, ...]]:
    return {name: tuple(gpus) for name, gpus in place.placement.by_node()}


def _planned_gpus(job: PastJob) -> dict[str, tuple[int, ...]]:
    return {share.node: tuple(share.gpu_indices) for share in job.planned}
