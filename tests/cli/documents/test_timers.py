"""The JSON of a class of timers."""

from roost_proto.v1 import operator_pb2 as pb
from roostctl.documents.timers import timer_document


def test_a_class_that_was_never_tuned_nor_pinned_has_nulls() -> None:
    document = timer_document(pb.Timer(name="8/high"))
    assert [document[key] for key in ("censored_frac", "tuned_ago_s", "pinned_s")] == [None] * 3
    assert document["node_timer_s"] == 0.0


def test_a_timer_pinned_to_zero_is_pinned() -> None:
    assert timer_document(pb.Timer(name="8/high", pinned_s=0.0))["pinned_s"] == 0.0


def test_a_timer_without_an_end_is_null() -> None:
    timer = pb.Timer(name="8/high", node_timer_s=60.0, rack_timer_s=float("inf"))
    document = timer_document(timer)
    assert (document["node_timer_s"], document["rack_timer_s"]) == (60.0, None)


def test_node_and_rack_timers_of_both_gates_keep_their_keys() -> None:
    timer = pb.Timer(
        node_timer_s=1.0, rack_timer_s=2.0, dally_node_timer_s=3.0, dally_rack_timer_s=4.0
    )
    document = timer_document(timer)
    assert (document["node_timer_s"], document["rack_timer_s"]) == (1.0, 2.0)
    assert (document["dally_node_timer_s"], document["dally_rack_timer_s"]) == (3.0, 4.0)
