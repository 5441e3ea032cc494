"""The skill of predictions: what an order by them is worth, and how far they are trusted."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost_engine.domain.model import JobId
from roost_engine.prediction.run_time.prediction_skill import (
    LEFT_TRUST,
    PredictionSkill,
    SkillState,
    TrustConfig,
    skill_of,
)
from roost_formats.journal.codec import decode, encode

RUN_S = st.floats(0.0, 1e7)


def seen(runs: list[tuple[float, float]], skill: PredictionSkill | None = None) -> PredictionSkill:
    """Return a skill that has seen these runs, each expected and real."""
    skill = skill or PredictionSkill()
    for number, (expected_s, run_s) in enumerate(runs):
        skill.expect(JobId(str(number)), expected_s)
        skill.end(JobId(str(number)), run_s)
    return skill


def by_chance(count: int, seed: int = 1) -> list[tuple[float, float]]:
    random = Random(seed)
    return [(random.lognormvariate(6, 2), random.lognormvariate(6, 2)) for _ in range(count)]


def right(count: int, factor: float = 1.0) -> list[tuple[float, float]]:
    return [(factor * run_s, run_s) for _, run_s in by_chance(count)]


def wrong(count: int) -> list[tuple[float, float]]:
    return [(1.0 / run_s, run_s) for _, run_s in by_chance(count)]


@pytest.mark.parametrize(
    ("runs", "skill"),
    [
        ([], 0.0),
        ([(5.0, 9.0)], 0.0),
        ([(1.0, 4.0), (2.0, 4.0)], 0.0),  # equally long
        ([(1.0, 4.0), (2.0, 9.0)], 1.0),
        ([(2.0, 4.0), (1.0, 9.0)], -1.0),
        ([(1.0, 4.0), (1.0, 9.0)], 0.0),  # told apart by nothing
        # roots 1, 2, 4: of the pairs 1 + 3 - 2 is gained where 1 + 3 + 2 could be
        ([(1.0, 1.0), (3.0, 4.0), (2.0, 16.0)], 1.0 / 3.0),
    ],
)
def test_skill_is_the_share_of_what_a_perfect_order_gains(
    runs: list[tuple[float, float]], skill: float
) -> None:
    assert skill_of(runs) == pytest.approx(skill)


@given(st.lists(st.tuples(RUN_S, RUN_S), min_size=2, max_size=30))
def test_skill_is_what_the_pairs_say(runs: list[tuple[float, float]]) -> None:
    def sign(value: float) -> int:
        return (value > 0) - (value < 0)

    pairs = [(a, b) for place, a in enumerate(runs) for b in runs[place + 1 :]]
    roots = [(b[1] ** 0.5 - a[1] ** 0.5, sign(b[0] - a[0])) for a, b in pairs]
    most = sum(abs(more) for more, _ in roots)
    assert -1.0 - 1e-9 <= skill_of(runs) <= 1.0 + 1e-9
    if most > 1e-3:
        assert skill_of(runs) == pytest.approx(sum(m * s for m, s in roots) / most, abs=1e-6)


def test_predictions_are_trusted_while_little_is_known() -> None:
    assert seen([(2.0, 4.0), (1.0, 9.0)] * 49).trust_frac == 1.0
    assert seen([]).state() == SkillState()


def test_predictions_that_order_by_chance_lose_trust() -> None:
    skills = [seen(by_chance(1_000, seed)) for seed in range(10)]
    assert sum(skill.trust_frac for skill in skills) < 6.0


def test_few_runs_are_less_proof_than_many() -> None:
    doubtful, sure = TrustConfig(), TrustConfig(doubt=0.0)
    trust = {
        (config, count): sum(
            seen(by_chance(count, seed), PredictionSkill(None, config)).trust_frac
            for seed in range(20)
        )
        for config in (doubtful, sure)
        for count in (128, 1_024)
    }
    assert trust[doubtful, 128] < trust[sure, 128]
    assert trust[doubtful, 1_024] < 0.7 * trust[sure, 1_024]


def test_an_order_that_stops_jobs_asks_for_more_skill() -> None:
    def told(right_frac: float) -> list[tuple[float, float]]:
        random, runs = Random(4), by_chance(1_000)
        return [(run_s if random.random() < right_frac else s, run_s) for s, run_s in runs]

    assert 0.05 < skill_of(told(0.06)) < 0.1 < 0.2 < skill_of(told(0.4))
    usual, left = (
        [seen(told(frac), PredictionSkill(None, config)).trust_frac for frac in (0.06, 0.4)]
        for config in (TrustConfig(), LEFT_TRUST)
    )
    assert usual[0] > 0.5 > left[0]
    assert usual[1] == left[1] == 1.0


def test_predictions_that_order_the_wrong_way_lose_all_trust() -> None:
    assert seen(wrong(1_000)).trust_frac == 0.0


@pytest.mark.parametrize("factor", [1.0, 1e-3, 50.0])
def test_predictions_that_order_well_are_trusted_however_far_off(factor: float) -> None:
    skill = seen(right(1_000, factor))
    assert (skill.trust_frac, skill.generation) == (1.0, 0)


def test_trust_comes_back() -> None:
    skill = seen(wrong(600))
    assert skill.trust_frac == 0.0
    generation = skill.generation
    seen(right(1_000), skill)
    assert (skill.trust_frac, skill.generation > generation) == (1.0, True)


def test_a_job_that_was_not_expected_or_did_not_run_teaches_nothing() -> None:
    skill = PredictionSkill()
    skill.end(JobId("1"), 5.0)
    skill.expect(JobId("2"), 5.0)
    skill.forget(JobId("2"))
    skill.end(JobId("2"), 5.0)
    for expected_s, run_s in ((float("nan"), 1.0), (1.0, float("inf")), (1.0, -1.0)):
        seen([(expected_s, run_s)], skill)
    assert skill.state() == SkillState()


@pytest.mark.parametrize("count", [0, 700, 3_000])
def test_what_is_known_comes_through_the_journal(count: int) -> None:
    skill = seen(by_chance(count))
    later = PredictionSkill(decode(encode(skill.state()), SkillState))
    assert later.state() == skill.state()
    assert len(later.state().runs) <= 1_024
    more = right(160)
    assert seen(more, later).state() == seen(more, skill).state()
    assert len({hash(later.state()), hash(skill.state())}) == 1


def test_a_run_that_a_restart_falls_into_counts() -> None:
    skill = PredictionSkill()
    for name, expected_s in (("runs", 50.0), ("waits", 60.0), ("ended", 70.0)):
        skill.expect(JobId(name), expected_s)
    skill.begin(JobId("ended"))
    skill.begin(JobId("runs"))
    skill.end(JobId("ended"), 1.0)
    assert skill.state().expected == ((JobId("runs"), 50.0),)
    later = PredictionSkill(decode(encode(skill.state()), SkillState))
    later.expect(JobId("runs"), 5.0)  # what is expected now is no merit of then
    later.begin(JobId("runs"))
    for name in ("runs", "waits"):
        later.end(JobId(name), 90.0)
    assert later.state().runs.tolist() == [[70.0, 1.0], [50.0, 90.0]]
    assert not later.state().expected


def test_only_what_was_expected_of_running_jobs_is_written_and_once() -> None:
    skill = PredictionSkill()
    (table,) = skill.tables().values()
    for name in "12":
        skill.expect(JobId(name), 5.0)
    assert table.take_notes() == ()
    skill.begin(JobId("1"))
    assert (table.take_notes(), dict(table)) == (("1",), {"1": 5.0})
    skill.begin(JobId("1"))
    skill.forget(JobId("2"))
    assert table.take_notes() == ()
    assert skill.state_without_table().expected == ()


def test_jobs_that_never_end_are_forgotten() -> None:
    skill = PredictionSkill()
    for number in range(100_001):
        skill.expect(JobId(str(number)), 1.0)
        if number % 2:
            skill.begin(JobId(str(number)))
    assert len(skill.state().expected) == 50_000
    for number in range(50_000, 150_001):
        skill.expect(JobId(f"later{number}"), 1.0)
        skill.begin(JobId(f"later{number}"))
    assert len(skill.state().expected) == 100_000
    skill.end(JobId("1"), 5.0)
    skill.end(JobId("later150000"), 5.0)
    assert len(skill.state().runs) == 1
