"""documents.policies: every field by its name, null for what is absent."""

import json

from roost_proto.v1 import policy_pb2 as pb
from roostctl.documents.policies import message_document


def test_a_message_field_by_field() -> None:
    message = pb.ShowPoliciesResponse(
        slots=[pb.SlotState(slot="order", promotion=pb.Promotion(policy="order:las", job_count=3))]
    )
    found = message_document("roost.policy/1", message)
    told = json.loads(json.dumps(found, allow_nan=False))
    assert (told["schema"], told["shadow"], told["fault"]) == ("roost.policy/1", None, "")
    (slot,) = told["slots"]
    assert slot["promotion"]["job_count"] == 3
    assert slot["promotion"]["predicted_lost_frac"] is None
    assert slot["canary"] is None


def test_numbers_that_json_cannot_hold_are_null() -> None:
    found = message_document("s", pb.PolicyRatio(value=float("nan"), low=1.0))
    assert (found["value"], found["low"]) == (None, 1.0)
