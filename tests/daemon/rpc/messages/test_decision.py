"""How a job was decided, in the words of operator.proto."""

from roost_engine.domain.actions import Place
from roost_engine.domain.events import JobQueued, NodeSeen
from roost_engine.engine import Engine, EngineConfig
from roost_engine.plugins.plugins import Policies
from roost_engine.testing.builders import job, node
from roost_proto.v1 import operator_pb2 as pb
from roostd.rpc.messages.decision import add_decision, exclusions_of


def test_a_decision_tells_its_age_its_candidates_and_what_was_free_before() -> None:
    engine = Engine(EngineConfig(), Policies())
    engine.step(NodeSeen(at_s=0.0, node=node("n1", 4)))
    actions = engine.step(JobQueued(at_s=10.0, job=job("1", gpus=2)))
    (place,) = (action for action in actions if isinstance(action, Place))
    message = pb.Explanation()
    add_decision(message, place, 25.0)
    assert (message.decided_ago_s, message.policy) == (15.0, "heuristic")
    assert message.candidates[0].why_not == ""
    assert all(one.why_not for one in message.candidates[1:])
    assert list(message.free_before[0].gpu_indices) == [0, 1, 2, 3]


def test_exclusions_keep_their_order() -> None:
    found = [(one.reason, one.node_count) for one in exclusions_of((("b", 2), ("a", 1)))]
    assert found == [("b", 2), ("a", 1)]
