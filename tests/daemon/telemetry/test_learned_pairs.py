"""roostd.telemetry.learned_pairs: which pairs correct decisions."""

import math

import pytest

from roost_engine.prediction.interference.interference_model import PRIOR_SPREAD
from roost_engine.prediction.interference.interference_table import InterferenceTable
from roost_engine.scoring.neighbour_corrections import MOST_CORRECTION, Corrections
from roostd.telemetry import learned_pairs
from roostd.telemetry.learned_pairs import by_key, changes_of, pairs_of

FOE = ("2 foe", "nic")


def learned(report_count: int) -> InterferenceTable:
    """A kind that is predicted to lose a tenth alone and beside another, and loses more there."""
    table = InterferenceTable()
    for _ in range(report_count):
        table.observe("1 lm", [], 0.1, 0.2, math.exp(-0.1), "node")
        table.observe("1 lm", [FOE], 0.1, 0.2, math.exp(-0.5), "node")
    return table


def test_a_bad_pair_is_corrected_and_the_kind_s_own_row_is_not() -> None:
    pairs = pairs_of(learned(10).state())
    assert [(pair.kind, pair.beside, pair.level) for pair in pairs] == [("1 lm", *FOE)]
    found = Corrections(pairs)
    assert found.knows("1 lm")
    assert not found.knows("2 foe")  # its user has reported nothing
    assert 0.02 < found.of("1 lm", [FOE]) < 0.4
    assert found.of("1 lm", [("2 foe", "switch"), ("3 vgg", "nic")]) == 0.0


def test_more_reports_correct_more() -> None:
    means = [pairs_of(learned(count).state())[0].mean for count in (1, 5, 25)]
    assert means == sorted(means)


def test_only_the_largest_pairs_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learned_pairs, "MOST_PAIRS", 2)
    table = InterferenceTable()
    for at in range(4):
        table.observe(f"1 k{at}", [FOE], 0.0, 0.3, math.exp(-0.1 * at))
    assert [pair.kind for pair in pairs_of(table.state())] == ["1 k3", "1 k2"]


def test_the_limit_is_that_of_the_table() -> None:
    assert MOST_CORRECTION == PRIOR_SPREAD


def test_a_pair_is_bad_after_several_reports_of_a_large_loss() -> None:
    assert [pairs_of(learned(count).state())[0].is_bad for count in (1, 12)] == [False, True]
    table = InterferenceTable()
    for _ in range(12):
        table.observe("1 lm", [FOE], 0.0, 0.2, math.exp(-0.05), "node")
    assert not any(pair.is_bad for pair in pairs_of(table.state()))


def test_only_what_has_changed_is_told_and_what_is_gone_is_forgotten() -> None:
    few, many = (pairs_of(learned(count).state()) for count in (5, 6))
    assert changes_of({}, few) == few
    assert changes_of(by_key(few), few) == ()
    told = Corrections(few)
    told.apply(changes_of(by_key(few), many))
    assert told.of("1 lm", [FOE]) == pytest.approx(many[0].mean, abs=0.005)
    told.apply(changes_of(by_key(many), ()))
    assert len(told) == 0
    assert not told.knows("1 lm")
