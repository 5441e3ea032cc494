"""Only pairs that were measured, and are good enough for sure, may share."""

from dataclasses import replace
from math import exp

import pytest

from roost_engine.domain.model import JobSpec
from roost_engine.sharing.pairs import Pairs, PairSpeed, SharingConfig
from roost_engine.testing.builders import job


def of_model(model: str) -> JobSpec:
    return replace(job("1"), model=model)


def pairs(*measured: PairSpeed, limit_frac: float = 0.15, certainty_frac: float = 0.8) -> Pairs:
    return Pairs(
        SharingConfig(limit_frac=limit_frac, certainty_frac=certainty_frac, pairs=measured)
    )


def test_both_sides_must_have_been_measured() -> None:
    one = pairs(PairSpeed("bert", "ncf", 0.99))
    assert one.judge(of_model("bert"), of_model("ncf")) is None
    both = pairs(PairSpeed("bert", "ncf", 0.99), PairSpeed("NCF", "Bert", 0.95))
    found = both.judge(of_model("Bert"), of_model("ncf"))
    assert found is not None
    assert found[0].mean < found[1].mean
    assert both.judge(of_model("bert"), of_model("bert")) is None
    assert both.judge(of_model(""), of_model("")) is None


@pytest.mark.parametrize(("speed", "is_good"), [(0.95, True), (0.9, True), (0.86, False)])
def test_the_spread_counts_against_a_pair(speed: float, *, is_good: bool) -> None:
    # 0.86 is above 0.85, but not with 80 % certainty at a spread of 0.05.
    found = pairs(PairSpeed("a", "a", speed)).judge(of_model("a"), of_model("a"))
    assert (found is not None) is is_good
    if found is not None:
        assert 1.0 - exp(-found[0].worst) < 0.15


def test_one_side_beyond_the_limit_is_enough() -> None:
    judged = pairs(PairSpeed("a", "b", 1.0), PairSpeed("b", "a", 0.7))
    assert judged.judge(of_model("a"), of_model("b")) is None
    assert judged.judge(of_model("b"), of_model("a")) is None


def test_words_are_percent() -> None:
    found = pairs(PairSpeed("a", "a", 0.95)).judge(of_model("a"), of_model("a"))
    assert found is not None
    assert found[0].in_words == "5%, surely less than 9%"
