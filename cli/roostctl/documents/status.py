"""What `roostctl status --json` prints."""

from typing import TypedDict

from roost_proto.v1 import operator_pb2 as pb
from roostctl.documents.slots import SlotDocument, slot_documents
from roostctl.documents.values import finite, mode_word, real


class PartitionDocument(TypedDict):
    """The mode of one partition."""

    partition: str
    mode: str | None


class LeftDocument(TypedDict):
    """Waiting jobs that are left to Slurm for one reason."""

    reason: str
    job_count: int


class StatusDocument(TypedDict):
    """`roostctl status --json`."""

    schema: str
    version: str
    cluster: str | None
    uptime_s: float | None
    default_mode: str | None
    partitions: list[PartitionDocument]
    policy_model: str | None
    policy_sha256: str | None
    policy_fault: str | None
    node_count: int
    probe_count: int
    gpu_count: int
    gpu_free_count: int
    waiting_job_count: int
    running_job_count: int
    decision_count: int
    fallback_count: int
    refused_count: int
    slurm_version: str | None
    slurm_fault: str | None
    slots: list[SlotDocument]
    stack: str | None
    placement: str | None
    longest_beyond_slurm_s: float | None
    longest_beyond_slurm_job_id: str | None
    beyond_cap_count: int
    share_user_count: int | None
    slurm_answered_ago_s: float | None
    watched_start_count: int
    watched_elsewhere_count: int
    blocked_job_count: int
    left_jobs: list[LeftDocument]


def status_document(status: pb.Status) -> StatusDocument:
    """Schema roost.status/1."""
    return {
        "schema": "roost.status/1",
        "version": status.version,
        "cluster": status.cluster or None,
        "uptime_s": finite(status.uptime_s),
        "default_mode": mode_word(status.default_mode),
        "partitions": [
            {"partition": entry.partition, "mode": mode_word(entry.mode)}
            for entry in sorted(status.partitions, key=lambda entry: entry.partition)
        ],
        "policy_model": status.policy_model or None,
        "policy_sha256": status.policy_sha256 or None,
        "policy_fault": status.policy_fault or None,
        "node_count": status.node_count,
        "probe_count": status.probe_count,
        "gpu_count": status.gpu_count,
        "gpu_free_count": status.gpu_free_count,
        "waiting_job_count": status.waiting_job_count,
        "running_job_count": status.running_job_count,
        "decision_count": status.decision_count,
        "fallback_count": status.fallback_count,
        "refused_count": status.refused_count,
        "slurm_version": status.slurm_version or None,
        "slurm_fault": status.slurm_fault or None,
        "slots": slot_documents(status.slots),
        "stack": status.stack or None,
        "placement": status.placement or None,
        "longest_beyond_slurm_s": (
            finite(status.longest_beyond_slurm_s)
            if status.HasField("longest_beyond_slurm_s")
            else None
        ),
        "longest_beyond_slurm_job_id": status.longest_beyond_slurm_job_id or None,
        "beyond_cap_count": status.beyond_cap_count,
        "share_user_count": (
            status.share_user_count if status.HasField("share_user_count") else None
        ),
        "slurm_answered_ago_s": real(status, "slurm_answered_ago_s"),
        "watched_start_count": status.watched_start_count,
        "watched_elsewhere_count": status.watched_elsewhere_count,
        "blocked_job_count": status.blocked_job_count,
        "left_jobs": [
            {"reason": left.reason, "job_count": left.job_count} for left in status.left_jobs
        ],
    }
