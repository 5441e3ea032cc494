"""roost_engine.scoring.neighbour_corrections: sums of pairs, and their limit."""

import pytest

from roost_engine.domain.pair_correction import PairCorrection
from roost_engine.scoring.neighbour_corrections import (
    MOST_CORRECTION,
    Corrections,
)


def test_neighbours_add_up_to_a_limit() -> None:
    pairs = [PairCorrection("1 lm", f"2 {at}", "nic", 0.3) for at in range(5)]
    beside = [(pair.beside, "nic") for pair in pairs]
    assert Corrections(pairs).of("1 lm", beside) == MOST_CORRECTION
    assert Corrections(pairs).of("1 lm", beside[:1] * 3) == pytest.approx(0.3)


def test_only_known_kinds_are_corrected() -> None:
    found = Corrections([PairCorrection("1 lm", "2 foe", "nic", -0.1)])
    assert found.knows("1 lm")
    assert not found.knows("2 foe")
    assert found.of("1 lm", [("2 foe", "nic")]) == -0.1
    assert found.of("1 lm", [("2 foe", "switch")]) == 0.0
