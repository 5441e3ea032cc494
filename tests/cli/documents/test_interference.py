"""The document of `roostctl interference --json`."""

from math import nan

from roost_proto.v1 import interference_pb2 as pb
from roostctl.documents.interference import interference_document


def test_a_placement_has_no_neighbour_and_no_number_is_null() -> None:
    row = pb.InterferenceRow(user_id=1001, job_name="lm", level="rack", residual=nan)
    found = pb.GetInterferenceResponse(rows=[row])
    document = interference_document(found)
    (one,) = document["rows"]
    assert (one["beside_user_id"], one["beside_job_name"], one["residual"]) == (None, None, None)
    assert document["model"] is None


def test_user_0_is_a_neighbour() -> None:
    row = pb.InterferenceRow(beside_user_id=0, beside_job_name="vgg")
    (one,) = interference_document(pb.GetInterferenceResponse(rows=[row]))["rows"]
    assert (one["beside_user_id"], one["beside_job_name"]) == (0, "vgg")
