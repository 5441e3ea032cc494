"""The document of `roostctl waste --json`."""

from math import inf, nan

from roost_proto.v1 import waste_pb2 as pb
from roostctl.documents.waste import waste_document


def test_no_user_and_no_number_are_null() -> None:
    entry = pb.WasteEntry(day="2026-11-23", held_gpu_h=inf, idle_gpu_h=2.0)
    document = waste_document(pb.GetWasteResponse(counted_s=nan, entries=[entry]))
    assert document["counted_s"] is None
    (one,) = document["entries"]
    assert (one["user_id"], one["held_gpu_h"], one["idle_gpu_h"]) == (None, None, 2.0)


def test_user_0_is_a_user() -> None:
    document = waste_document(pb.GetWasteResponse(entries=[pb.WasteEntry(day="d", user_id=0)]))
    assert document["entries"][0]["user_id"] == 0
