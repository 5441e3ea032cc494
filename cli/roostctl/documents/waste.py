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


class WasteDocument(TypedDict):
    """`roostctl waste --json`."""

    schema: str
    counted_s: float | None
    fault: str
    entries: list[WasteEntryDocument]


def waste_document(found: pb.GetWasteResponse) -> WasteDocument:
    """One answer."""
    return {
        "schema": "roost.waste/1",
        "counted_s": finite(found.counted_s),
        "fault": found.fault,
        "entries": [_entry(one) for one in found.entries],
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
    }
