"""The rack of each node."""

import pytest

from roost_engine.cluster.node_sets import node_set
from roost_engine.cluster.racks import Racks


def racks_of(*names: str) -> Racks:
    racks = Racks()
    for node, name in enumerate(names):
        racks.add_node()
        racks.change(node, name)
    return racks


def test_racks_are_numbered_as_they_are_first_reported() -> None:
    racks = racks_of("b", "a", "b")
    assert list(racks.names) == ["b", "a"]
    assert racks.of_node == [0, 1, 0]
    assert racks.nodes == [node_set([0, 2]), node_set([1])]
    racks.check()


def test_a_node_that_moves_leaves_its_rack() -> None:
    racks = racks_of("a", "a")
    racks.change(1, "b")
    assert racks.nodes == [node_set([0]), node_set([1])]
    racks.check()


def test_there_may_be_any_number_of_nodes() -> None:
    racks = racks_of(*[f"r{node // 16}" for node in range(200)])
    assert racks.ids[:200].tolist() == racks.of_node
    racks.check()


def test_a_node_that_is_in_two_racks_is_found() -> None:
    racks = racks_of("a", "b")
    racks.nodes[0] |= 0b10
    with pytest.raises(AssertionError, match="nodes of racks drifted"):
        racks.check()
