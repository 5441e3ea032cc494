"""Only pairs that were measured, and are good enough for sure, may share."""

from dataclasses import replace
from math import exp, log

import pytest

from roost_engine.domain.model import JobId, JobSpec
from roost_engine.sharing.pairs import MOST_RUNS, Pairs, PairSpeed, SharingConfig
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


def run_of(number: int, user_id: int = 1000) -> JobSpec:
    return replace(of_model("a"), job_id=JobId(str(number)), user_id=user_id)


def test_speeds_of_runs_correct_what_was_measured() -> None:
    judged = pairs(PairSpeed("a", "a", 0.95, spread=0.02))
    judged.observe(run_of(1), run_of(2), 0.5)
    judged.observe(run_of(1), run_of(2), 0.9)  # the last report of a run counts
    loss = judged.loss(run_of(3), run_of(4))
    assert loss is not None
    assert loss.mean == pytest.approx((-2 * log(0.95) - log(0.9)) / 3)
    assert judged.judge(run_of(3), run_of(4)) is not None
    judged.observe(run_of(5), run_of(6), 0.6)
    assert judged.judge(run_of(3), run_of(4)) is None


def test_a_pair_that_has_become_good_again_is_made_again() -> None:
    judged = pairs(PairSpeed("a", "a", 0.95, spread=0.02))
    judged.observe(run_of(1), run_of(2), 0.4)
    assert judged.judge(run_of(3), run_of(4)) is None
    for number in range(10, 10 + MOST_RUNS):
        judged.observe(run_of(number), run_of(2), 0.95)
    assert judged.judge(run_of(3), run_of(4)) is not None


def test_a_user_who_reports_falsely_changes_no_other_users_pairs() -> None:
    judged = pairs(PairSpeed("a", "a", 0.95, spread=0.02))
    for number in range(5):
        judged.observe(run_of(number, user_id=1), run_of(9, user_id=2), 0.1)
    assert judged.judge(run_of(11, user_id=2), run_of(12, user_id=3)) is not None
    assert judged.judge(run_of(11, user_id=1), run_of(12, user_id=3)) is None


def test_reports_make_no_pair_that_was_not_measured() -> None:
    judged = pairs()
    judged.observe(run_of(1), run_of(2), 1.0)
    assert judged.judge(run_of(1), run_of(2)) is None


@pytest.mark.parametrize("speed_frac", [-1.0, 0.0, 1e9])
def test_absurd_speeds_are_capped(speed_frac: float) -> None:
    judged = pairs(PairSpeed("a", "a", 0.95))
    judged.observe(run_of(1), run_of(2), speed_frac)
    loss = judged.loss(run_of(1), run_of(2))
    assert loss is not None
    assert 0.0 <= loss.mean <= -log(0.05)


def test_what_runs_taught_is_known_to_a_later_engine() -> None:
    before = pairs(PairSpeed("a", "a", 0.95, spread=0.02), PairSpeed("a", "b", 0.95))
    before.note_speed(run_of(1), None, 0.8)
    assert before.note_speed(run_of(1), run_of(2), 0.4) == pytest.approx(0.5)
    before.note_speed(run_of(1), of_model("b"), 0.4)
    later = pairs(PairSpeed("a", "a", 0.95, spread=0.02))
    later.restore(before.state())
    assert later.judge(run_of(3), run_of(4)) is None
    assert [pair.beside for pair in later.corrected()] == ["a"]  # the table has lost the other one
    assert later.note_speed(run_of(1), run_of(2), 0.8) == 1.0
    later.forget(JobId("1"))
    assert later.note_speed(run_of(1), run_of(2), 0.8) == 0.8


def test_only_a_loss_beyond_the_limit_is_too_much() -> None:
    judged = pairs(PairSpeed("a", "a", 0.95), limit_frac=0.2)
    assert judged.is_beyond_limit(0.79)
    assert not judged.is_beyond_limit(0.81)
    assert judged.is_beyond_limit(0.0)
