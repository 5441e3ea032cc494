"""What `roostctl waste --json` prints."""

from typing import TypedDict

from roost_proto.v1 import waste_pb2 as pb
from roostctl.documents.values import finite


class WasteEntryDocument(TypedDict):
    """The GPU-hours of one user on one day; `user_id` is null for what belongs to no user."""

    day: str
    user_id: int | None
    held_gpu_h: float | None
    idle_gpu_h: float | None
    unknown_gpu_h: float | None
    split_gpu_h: float | None
    unreachable_gpu_h: float | None
    half_free_gpu_h: float | None
    neighbours_gpu_h: float | None
    foreign_gpu_h: float | None


class ForeignMemoryDocument(TypedDict):
    """Memory of a GPU that processes of no job use which holds it; null where that is not known.

    `held_by` is null where the GPU is free. `slurm_job_id` is of the job that started the process,
    and has ended or holds other GPUs; null where no job did.
    """

    node: str
    gpu_index: int
    used_bytes: int
    held_by: str | None
    user_id: int | None
    slurm_job_id: int | None
    seen_for_s: float | None


class WasteDocument(TypedDict):
    """`roostctl waste --json`."""

    schema: str
    counted_s: float | None
    fault: str
    entries: list[WasteEntryDocument]
    foreign: list[ForeignMemoryDocument]


def waste_document(found: pb.GetWasteResponse) -> WasteDocument:
    """One answer."""
    return {
        "schema": "roost.waste/1",
        "counted_s": finite(found.counted_s),
        "fault": found.fault,
        "entries": [_entry(one) for one in found.entries],
        "foreign": [_foreign(one) for one in found.foreign],
    }


def _entry(one: pb.WasteEntry) -> WasteEntryDocument:
    return {
        "day": one.day,
        "user_id": one.user_id if one.HasField("user_id") else None,
        "held_gpu_h": finite(one.held_gpu_h),
        "idle_gpu_h": finite(one.idle_gpu_h),
        "unknown_gpu_h": finite(one.unknown_gpu_h),
        "split_gpu_h": finite(one.split_gpu_h),
        "unreachable_gpu_h": finite(one.unreachable_gpu_h),
        "half_free_gpu_h": finite(one.half_free_gpu_h),
        "neighbours_gpu_h": finite(one.neighbours_gpu_h),
        "foreign_gpu_h": finite(one.foreign_gpu_h),
    }


def _foreign(one: pb.ForeignMemory) -> ForeignMemoryDocument:
    return {
        "node": one.node,
        "gpu_index": one.gpu_index,
        "used_bytes": one.used_bytes,
        "held_by": one.held_by or None,
        "user_id": one.user_id if one.HasField("user_id") else None,
        "slurm_job_id": one.slurm_job_id if one.HasField("slurm_job_id") else None,
        "seen_for_s": finite(one.seen_for_s),
    }
