"""node_groups: the nodes of one kind with the same GPUs free, after every move."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost_engine.cluster.node_groups import NodeGroups
from roost_engine.cluster.node_sets import NodeSet, node_set

Key = tuple[int, int]


def groups_of(*nodes: Key) -> NodeGroups:
    """Nodes of these kinds and with these free masks."""
    groups = NodeGroups()
    for number, (kind, free) in enumerate(nodes):
        groups.add_node()
        if (kind, free) != (0, 0):
            groups.move(number, kind, free)
    return groups


def nodes_by_key(groups: NodeGroups) -> dict[Key, NodeSet]:
    return {(group.kind, group.free): group.nodes for group in groups}


def check(groups: NodeGroups, *nodes: Key) -> None:
    groups.check([kind for kind, _ in nodes], [free for _, free in nodes])


def test_a_new_node_is_of_kind_0_and_has_no_gpu_free() -> None:
    groups = groups_of((0, 0), (0, 0))
    assert nodes_by_key(groups) == {(0, 0): 0b11}
    check(groups, (0, 0), (0, 0))


def test_nodes_of_one_kind_with_the_same_gpus_free_form_a_group() -> None:
    groups = groups_of((0, 0b11), (1, 0b11), (0, 0b11), (0, 0b01))
    assert nodes_by_key(groups) == {(0, 0b11): 0b0101, (1, 0b11): 0b0010, (0, 0b01): 0b1000}
    assert groups[0] is groups[2]
    assert groups[0] is not groups[1]


def test_a_group_that_lost_its_nodes_is_passed_over_and_taken_up_again() -> None:
    groups = groups_of((0, 0b11))
    before = groups[0]
    groups.move(0, 0, 0b01)
    assert nodes_by_key(groups) == {(0, 0b01): 0b1}
    assert before.nodes == 0
    groups.move(0, 0, 0b11)
    assert groups[0] is before
    assert nodes_by_key(groups) == {(0, 0b11): 0b1}
    assert len(groups.groups) == 3  # one of them for the new node


def test_groups_are_numbered_in_the_order_of_their_first_nodes() -> None:
    groups = groups_of((0, 0b10), (2, 0b10), (0, 0b10))
    assert [(group.number, group.kind, group.free) for group in groups.groups] == [
        (0, 0, 0b00),
        (1, 0, 0b10),
        (2, 2, 0b10),
    ]
    assert groups.number_of[:3].tolist() == [1, 2, 1]


def test_among_splits_some_nodes_by_group_and_leaves_the_others_out() -> None:
    groups = groups_of((0, 0b11), (0, 0b01), (0, 0b11), (0, 0b11), (1, 0b01))
    found = groups.among(0b10110)
    assert found == {groups[1]: 0b00010, groups[2]: 0b00100, groups[4]: 0b10000}
    assert groups.among(0) == {}


def test_more_nodes_than_the_first_array_holds() -> None:
    nodes = [(0, node % 4) for node in range(200)]
    groups = groups_of(*nodes)
    check(groups, *nodes)
    assert [group.nodes.bit_count() for group in groups] == [50] * 4


@given(
    st.integers(1, 5).flatmap(
        lambda count: st.tuples(
            st.just(count),
            st.lists(
                st.tuples(st.integers(0, count - 1), st.integers(0, 2), st.integers(0, 3)).map(
                    lambda move: (move[0], (move[1], move[2]))
                ),
                max_size=30,
            ),
        )
    )
)
def test_groups_follow_every_move(case: tuple[int, list[tuple[int, Key]]]) -> None:
    node_count, moves = case
    nodes = [(0, 0)] * node_count
    groups = groups_of(*nodes)
    for node, key in moves:
        if key == nodes[node]:
            continue  # a node is moved to another group than its own
        groups.move(node, *key)
        nodes[node] = key
        check(groups, *nodes)
        assert (groups[node].kind, groups[node].free) == key


@pytest.mark.parametrize("said", [(0, 0b01), (1, 0b11)])
def test_check_catches_a_node_in_the_wrong_group(said: Key) -> None:
    groups = groups_of((0, 0b11), (0, 0b11))
    with pytest.raises(AssertionError, match="group of node 1 drifted"):
        check(groups, (0, 0b11), said)


def test_check_catches_a_wrong_number() -> None:
    groups = groups_of((0, 0b11))
    groups.number_of[0] = 0
    with pytest.raises(AssertionError, match="group of node 0 drifted"):
        check(groups, (0, 0b11))


def test_check_catches_a_group_with_a_node_too_many_or_too_few() -> None:
    for wrong in (0b11, 0b00):
        groups = groups_of((0, 0b11))
        groups[0].nodes = wrong
        with pytest.raises(AssertionError, match="sets of nodes"):
            check(groups, (0, 0b11))


def test_groups_within_a_set_are_the_same_by_groups_and_by_nodes() -> None:
    groups = NodeGroups()
    for node in range(40):
        groups.add_node()
        groups.move(node, 0, node % 3 + 1)
    some = node_set([0, 1, 5, 39])
    assert groups.within(some) == groups.among(some)  # three groups: they are looked at
    one = node_set([4])
    for node in range(20, 40):
        groups.move(node, 0, node)
    assert groups.within(one) == groups.among(one)  # many groups: the node is looked at
