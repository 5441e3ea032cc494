"""The policies of the slots, as `status --json` and `explain --json` print them."""

from collections.abc import Iterable
from typing import TypedDict

from roost_proto.v1 import operator_pb2 as pb


class SlotDocument(TypedDict):
    """The policy that makes one decision of a pass over the queue."""

    slot: str
    policy: str
    heuristic: str
    fault_count: int
    last_fault: str | None


def slot_documents(slots: Iterable[pb.SlotPolicy]) -> list[SlotDocument]:
    """Return one object for each slot, in the daemon's order."""
    return [
        {
            "slot": entry.slot,
            "policy": entry.policy,
            "heuristic": entry.heuristic,
            "fault_count": entry.fault_count,
            "last_fault": entry.last_fault or None,
        }
        for entry in slots
    ]
