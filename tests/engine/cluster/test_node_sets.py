"""node_sets: sets of nodes as ints, and the levels that are kept up to date."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost_engine.cluster.node_sets import (
    NO_ROWS,
    Levels,
    first_rows,
    row_array,
    row_set,
    row_set_where,
    rows_in,
)

ROWS = st.sets(st.integers(0, 300))


@given(ROWS)
def test_sets_hold_what_was_put_in(rows: set[int]) -> None:
    packed = row_set(rows)
    assert rows_in(packed) == row_array(packed).tolist() == sorted(rows)
    chosen = np.zeros(301, dtype=np.bool_)
    chosen[list(rows)] = True
    assert row_set_where(chosen) == packed


@given(ROWS, st.integers(0, 40))
def test_the_first_rows_are_the_lowest(rows: set[int], count: int) -> None:
    assert rows_in(first_rows(row_set(rows), count)) == sorted(rows)[:count]


def test_no_rows() -> None:
    assert rows_in(NO_ROWS) == row_array(NO_ROWS).tolist() == []
    assert row_set_where(np.zeros(0, dtype=np.bool_)) == NO_ROWS


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(-3, 9), st.integers(-2, 10))))
def test_levels_follow_every_change(changes: list[tuple[int, int, int]]) -> None:
    levels, values = Levels(), [0, 0]
    levels.add_row()
    levels.add_row()
    for row, value, asked in changes:
        if row >= len(values):
            levels.add_row()
            values.append(0)
        else:
            levels[row] = values[row] = value
            assert levels[row] == value
        there = [row for row, value in enumerate(values) if value >= asked]
        assert rows_in(levels.at_least[asked]) == there
        assert levels.of(np.arange(len(values))).tolist() == values
        levels.check(values, "it")


def test_levels_are_bounded_in_number() -> None:
    levels = Levels()
    levels.add_row()
    levels[0] = 500
    assert all(levels.at_least[level] == (level <= 500) for level in range(1000))
    levels[0] = 900
    assert [levels.at_least[level] for level in (900, 901)] == [1, 0]


def test_a_drift_is_noticed() -> None:
    levels = Levels()
    levels.add_row()
    levels.at_least[1]
    with pytest.raises(AssertionError, match="free CPUs drifted"):
        levels.check([1], "free CPUs")
