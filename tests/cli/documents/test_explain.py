"""The JSON of a decision."""

import json

from tests.cli.conftest import Run

from roost_proto.v1 import operator_pb2 as pb
from roostctl.documents.explain import explain_document
from roostctl.testing import FakeOperator, build_candidate, build_job


def test_nan_becomes_null(operator: FakeOperator, run: Run) -> None:
    operator.add_job(
        build_job("1"),
        pb.Explanation(candidates=[build_candidate(["a"], [0], float("nan"), 0)]),
    )
    document = json.loads(run("explain", "1", "--json").stdout)
    assert document["candidates"][0]["score"] is None


def test_a_job_without_a_decision_has_no_decision_time() -> None:
    assert explain_document(pb.Explanation(decided_ago_s=5.0))["decided_ago_s"] is None
    decided = pb.Explanation(decided_ago_s=5.0, policy="heuristic")
    assert explain_document(decided)["decided_ago_s"] == 5.0


def test_parts_that_the_daemon_left_out_are_null() -> None:
    document = explain_document(pb.Explanation())
    assert [document[key] for key in ("comment", "sensitivity", "achieved")] == [None] * 3


def test_confidence_belongs_to_a_speed() -> None:
    found = pb.Explanation(achieved=pb.Achieved(nvlink_frac=0.5, confidence_frac=0.9))
    achieved = explain_document(found)["achieved"]
    assert achieved is not None
    assert (achieved["speed_frac"], achieved["confidence_frac"]) == (None, None)
    assert achieved["nvlink_frac"] == 0.5
    found.achieved.speed_frac = 0.8
    achieved = explain_document(found)["achieved"]
    assert achieved is not None
    assert (achieved["speed_frac"], achieved["confidence_frac"]) == (0.8, 0.9)


def test_the_chosen_candidate_has_no_reason_against_it() -> None:
    candidates = [
        build_candidate(["n1"], [0], 4.1, 400),
        build_candidate(["n2"], [0], 1.0, 10, "breaks a pair"),
    ]
    document = explain_document(pb.Explanation(candidates=candidates))
    assert [one["why_not"] for one in document["candidates"]] == [None, "breaks a pair"]
    assert [one["score"] for one in document["candidates"]] == [4.1, 1.0]
    assert list(document["candidates"][0]["features"]) == ["link_frac", "tier_frac"]
