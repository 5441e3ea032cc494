"""What `roostctl jobs --json` and `job ID --json` print."""

from typing import TypedDict

from roost_proto.v1 import operator_pb2 as pb
from roostctl.documents.eta import TimeDocument, time_document
from roostctl.documents.values import finite, job_state_word, real, whole
from roostctl.output.logins import login


class AllocationDocument(TypedDict):
    """GPUs of one node."""

    node: str
    gpu_indices: list[int]


class StandingPinDocument(TypedDict):
    """The GPUs for which a job waits in Slurm while other jobs hold them."""

    shares: list[AllocationDocument]
    slurm_chooses_gpus: bool
    age_s: float | None
    start_left_s: float | None
    is_preempting: bool


class TurnDocument(TypedDict):
    """Where a waiting job is in the queue, and why."""

    position: int
    of_count: int
    slurm_position: int
    order: str | None
    precedence: int
    overtaken_for_s: float | None


class JobDocument(TypedDict):
    """One job."""

    job_id: str
    user_id: int | None
    user: str | None
    name: str | None
    account: str | None
    qos: str | None
    priority: int | None
    partition: str | None
    state: str | None
    reason: str | None
    gpu_count: int
    waited_s: float | None
    wait_left_s: float | None
    planned: list[AllocationDocument]
    allocated: list[AllocationDocument]
    link_score: int | None
    planned_link_score: int | None
    best_link_score: int | None
    slurm_chooses_gpus: bool
    standing: StandingPinDocument | None
    turn: TurnDocument | None
    expected_run: TimeDocument | None
    ended_ago_s: float | None


class JobsDocument(TypedDict):
    """`roostctl jobs --json`."""

    schema: str
    jobs: list[JobDocument]


class OneJobDocument(TypedDict):
    """`roostctl job ID --json`."""

    schema: str
    job: JobDocument


def job_document(job: pb.Job) -> JobDocument:
    """One job, as `jobs`, `job` and `explain` show it."""
    return {
        "job_id": job.job_id,
        "user_id": whole(job, "user_id"),
        "user": login(job) if job.HasField("user_id") else None,
        "name": job.name or None,
        "account": job.account or None,
        "qos": job.qos or None,
        "priority": whole(job, "priority"),
        "partition": job.partition or None,
        "state": job_state_word(job.state),
        "reason": job.reason or None,
        "gpu_count": job.gpu_count,
        "waited_s": finite(job.waited_s),
        "wait_left_s": real(job, "wait_left_s"),
        "planned": [_allocation_document(share) for share in job.planned],
        "allocated": [_allocation_document(share) for share in job.allocated],
        "link_score": whole(job, "link_score"),
        "planned_link_score": whole(job, "planned_link_score"),
        "best_link_score": whole(job, "best_link_score"),
        "slurm_chooses_gpus": job.slurm_chooses_gpus,
        "standing": _standing_document(job.standing) if job.HasField("standing") else None,
        "turn": turn_document(job.turn) if job.HasField("turn") else None,
        "expected_run": time_document(job.expected_run) if job.HasField("expected_run") else None,
        "ended_ago_s": real(job, "ended_ago_s"),
    }


def turn_document(turn: pb.Turn) -> TurnDocument:
    """Return where a waiting job is, as `jobs`, `job` and `explain` show it."""
    return {
        "position": turn.position,
        "of_count": turn.of_count,
        "slurm_position": turn.slurm_position,
        "order": turn.order or None,
        "precedence": turn.precedence,
        "overtaken_for_s": real(turn, "overtaken_for_s"),
    }


def _standing_document(pin: pb.StandingPin) -> StandingPinDocument:
    return {
        "shares": [_allocation_document(share) for share in pin.shares],
        "slurm_chooses_gpus": pin.slurm_chooses_gpus,
        "age_s": finite(pin.age_s),
        "start_left_s": real(pin, "start_left_s"),
        "is_preempting": pin.is_preempting,
    }


def _allocation_document(share: pb.NodeAllocation) -> AllocationDocument:
    return {"node": share.node, "gpu_indices": list(share.gpu_indices)}
