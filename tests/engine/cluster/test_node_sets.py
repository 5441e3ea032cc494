"""node_sets: sets of nodes as ints, and the levels that are reserved up to date."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost_engine.cluster.node_sets import (
    NO_NODES,
    Levels,
    first_nodes,
    node_array,
    node_set,
    node_set_where,
    nodes_in,
)

ROWS = st.sets(st.integers(0, 300))


@given(ROWS)
def test_sets_hold_what_was_put_in(nodes: set[int]) -> None:
    packed = node_set(nodes)
    assert nodes_in(packed) == node_array(packed).tolist() == sorted(nodes)
    chosen = np.zeros(301, dtype=np.bool_)
    chosen[list(nodes)] = True
    assert node_set_where(chosen) == packed


@given(ROWS, st.integers(0, 40))
def test_the_first_rows_are_the_lowest(nodes: set[int], count: int) -> None:
    assert nodes_in(first_nodes(node_set(nodes), count)) == sorted(nodes)[:count]


def test_no_rows() -> None:
    assert nodes_in(NO_NODES) == node_array(NO_NODES).tolist() == []
    assert node_set_where(np.zeros(0, dtype=np.bool_)) == NO_NODES


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(-3, 9), st.integers(-2, 10))))
def test_levels_follow_every_change(changes: list[tuple[int, int, int]]) -> None:
    levels, values = Levels(), [0, 0]
    levels.add_node()
    levels.add_node()
    for node, value, asked in changes:
        if node >= len(values):
            levels.add_node()
            values.append(0)
        else:
            levels[node] = values[node] = value
            assert levels[node] == value
        there = [node for node, value in enumerate(values) if value >= asked]
        assert nodes_in(levels.at_least[asked]) == there
        assert levels.of(np.arange(len(values))).tolist() == values
        levels.check(values, "it")


def test_levels_are_bounded_in_number() -> None:
    levels = Levels()
    levels.add_node()
    levels[0] = 500
    assert all(levels.at_least[level] == (level <= 500) for level in range(1000))
    levels[0] = 900
    assert [levels.at_least[level] for level in (900, 901)] == [1, 0]


def test_a_drift_is_noticed() -> None:
    levels = Levels()
    levels.add_node()
    levels.at_least[1]
    with pytest.raises(AssertionError, match="free CPUs drifted"):
        levels.check([1], "free CPUs")


def test_crossed_levels_are_remembered_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("roost_engine.cluster.node_sets._CROSSED_LIMIT", 3)
    levels = Levels()
    levels.add_node()
    for value in (0, 4, 9, 2, 9, 4, 7, 0, 9):
        levels[0] = value
        assert [levels.at_least[level] for level in (1, 3, 8)] == [
            value >= 1,
            value >= 3,
            value >= 8,
        ]
        assert len(levels._crossed) <= 3
    assert levels.at_least[5] == 1, "a level that is new counts from now on"
    levels[0] = 4
    assert levels.at_least[5] == 0
