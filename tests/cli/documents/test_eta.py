"""The document of `roostctl eta --json`."""

from math import inf, nan

from roost_proto.v1 import operator_pb2 as pb
from roostctl.documents.eta import eta_document


def test_a_job_that_runs_has_no_start() -> None:
    found = pb.GetEtaResponse(
        etas=[pb.Eta(job_id="1", state=pb.JOB_STATE_RUNNING, end=pb.ExpectedTime(low_s=1.0))]
    )
    (job,) = eta_document(found)["etas"]
    assert job["start"] is None
    assert job["end"] == {"low_s": 1.0, "median_s": None, "high_s": None}


def test_numbers_that_json_has_not_are_null() -> None:
    found = pb.GetEtaResponse(
        age_s=nan, etas=[pb.Eta(start=pb.ExpectedTime(low_s=inf, median_s=inf))]
    )
    document = eta_document(found)
    assert document["age_s"] is None
    assert document["etas"][0]["start"] == {"low_s": None, "median_s": None, "high_s": None}
