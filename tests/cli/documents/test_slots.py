"""The JSON of the policies in the slots."""

from roost_proto.v1 import operator_pb2 as pb
from roostctl.documents.slots import slot_documents


def test_a_policy_that_never_failed_has_no_last_fault() -> None:
    (document,) = slot_documents([pb.SlotPolicy(slot="gate", policy="delay", heuristic="open")])
    assert document == {
        "slot": "gate",
        "policy": "delay",
        "heuristic": "open",
        "fault_count": 0,
        "last_fault": None,
    }


def test_slots_keep_the_daemons_order_and_each_its_own_faults() -> None:
    slots = [
        pb.SlotPolicy(slot="order", fault_count=2, last_fault="took 60 ms"),
        pb.SlotPolicy(slot="gate", fault_count=0),
    ]
    documents = slot_documents(slots)
    assert [(one["slot"], one["fault_count"]) for one in documents] == [("order", 2), ("gate", 0)]
    assert [one["last_fault"] for one in documents] == ["took 60 ms", None]
