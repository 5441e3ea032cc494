"""prediction.interference.interference_table: shrinkage, and what a liar can do."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost_engine.prediction.interference.interference_table import (
    InterferenceTable,
    Key,
    log_slowdown,
)

BESIDE = [("2 bert", "gpu")]


def learned(*speeds: float, kind: str = "1 lm", predicted: float = 0.1) -> InterferenceTable:
    table = InterferenceTable()
    for speed in speeds:
        table.observe(kind, BESIDE, predicted, 0.2, speed)
    return table


def residual_of(table: InterferenceTable, kind: str, *beside: tuple[str, str]) -> float:
    """What the rows of a kind beside others add up to."""
    own, pairs = table.kinds().get(kind), dict(table.worst(None))
    found = [pairs[key].mean for pair in beside if (key := Key(kind, *pair)) in pairs]
    return (0.0 if own is None else own.mean) + sum(found)


def test_an_unknown_kind_has_no_rows() -> None:
    assert not learned().kinds()
    assert not learned().worst(None)


def test_reports_count_more_the_more_there_are() -> None:
    speed = math.exp(-0.4)
    means = [residual_of(learned(*[speed] * count), "1 lm", *BESIDE) for count in (1, 4, 40)]
    assert means == sorted(means)
    assert 0.1 < means[0] < means[2] == pytest.approx(0.3, abs=0.03)


def test_another_pair_of_the_kind_has_the_residual_of_the_kind_alone() -> None:
    table = learned(*[math.exp(-0.4)] * 3)
    assert 0 < residual_of(table, "1 lm", ("3 vgg", "gpu")) < residual_of(table, "1 lm", *BESIDE)


@given(speeds=st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=30))
def test_a_liar_changes_no_row_of_other_users_and_few_of_the_own(speeds: list[float]) -> None:
    table = learned(0.8, 0.8, kind="2 bert")
    before = table.state().rows
    for speed in speeds:
        table.observe("1 lm", BESIDE, 0.1, 0.2, speed)
    assert [row for row in table.state().rows if row[0].kind == "2 bert"] == list(before)
    assert abs(residual_of(table, "1 lm", *BESIDE)) <= 2 * 0.6  # three spreads, in both its rows


def test_absurd_reports_are_counted_and_not_learned() -> None:
    table = learned(float("nan"), float("inf"), 0.0, -3.0)
    assert table.refused_count == 4
    assert not table.kinds()
    assert log_slowdown(50.0) == 0.0
    assert math.exp(-(log_slowdown(1e-9) or 0.0)) == pytest.approx(0.02)


def test_one_wild_report_counts_for_three_spreads_at_most() -> None:
    table = learned(1e-6)
    assert residual_of(table, "1 lm") == pytest.approx(0.6 / 3)


def test_the_worst_rows_come_first_and_state_is_plain() -> None:
    table = learned(0.5, 0.5)
    table.observe("1 vit", [], 0.1, 0.2, 0.9)
    worst = table.worst(2)
    assert worst[0][0].kind == "1 lm"
    assert list(table.kinds()) == ["1 lm", "1 vit"]
    again = InterferenceTable()
    again.restore(table.state())
    assert again.state() == table.state()
    table.observe("1 lm", [], 0.1, 0.2, 0.1)
    assert again.state() != table.state()


def test_a_kind_that_changes_is_learned_again() -> None:
    table = learned(*[0.5] * 200)
    for _ in range(60):
        table.observe("1 lm", BESIDE, 0.1, 0.2, math.exp(-0.1))
    assert residual_of(table, "1 lm") < 0.25


def test_an_observation_of_a_tenth_counts_as_a_tenth_of_a_report() -> None:
    whole, tenths = InterferenceTable(), InterferenceTable()
    whole.learn("1 lm", [("2 foe", "nic")], 0.1, 0.3, 0.4)
    tenths.learn("1 lm", [("2 foe", "nic")], 0.1, 0.3, 0.4, weight=0.1)
    assert whole.kinds()["1 lm"].mean == pytest.approx(0.3 / 3.0)
    found = tenths.kinds()["1 lm"]
    assert found.mean == pytest.approx(0.03 / 2.1)
    assert found.count == 0.1
    assert found.total == pytest.approx(0.03)
    assert found.square == pytest.approx(0.009)
    for _ in range(1_000):
        tenths.learn("1 lm", [], 0.1, 0.3, 0.4, weight=0.1)
    assert tenths.kinds()["1 lm"].count == pytest.approx(50.0, abs=0.1)
