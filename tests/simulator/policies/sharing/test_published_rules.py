from dataclasses import replace
from math import log
from pathlib import Path

import pytest
from tests.simulator.measured import pairs_file

from roost_engine.domain.model import JobId
from roost_engine.testing.builders import job
from roost_sim.policies.sharing.published_rules import Blind, LifLinear, Lucid, lucid_classes
from roost_sim.worlds.sharing.measured_pairs import Kind, read_pairs
from roost_sim.worlds.sharing.sharing_spec import SharingJobs, SharingSpec

LIGHT, HEAVY, MID = Kind("light", ""), Kind("heavy", "8"), Kind("mid-1", "4")
IDS = [JobId(str(number)) for number in range(1, 5)]


@pytest.fixture
def jobs(tmp_path: Path) -> SharingJobs:
    pairs = read_pairs(pairs_file(tmp_path), "p100")
    spec = SharingSpec(pairs=pairs, digest=pairs.digest, known_frac=1.0, noise=0.0)
    kinds = dict(zip(IDS, (LIGHT, LIGHT, HEAVY, MID), strict=True))
    return replace(spec.build(IDS, 0), kind_of=kinds)


def test_blind_sharing_refuses_no_pair() -> None:
    assert Blind().judge(job("1"), job("2")) is not None


def test_lucid_pairs_classes_that_add_up_to_two(jobs: SharingJobs) -> None:
    rule = Lucid({LIGHT: 0, MID: 1, HEAVY: 2}, jobs, dict.fromkeys(IDS, 100.0))
    assert rule.judge(job("1"), job("3")) is not None  # 0 + 2
    assert rule.judge(job("4"), job("3")) is None  # 1 + 2
    assert rule.judge(job("1", gpus=2), job("2")) is None  # not as many GPUs
    longer = replace(rule, expected_s=dict.fromkeys(IDS, 100.0) | {JobId("1"): 201.0})
    assert longer.judge(job("1"), job("2")) is None
    assert longer.judge(job("2"), job("1")) is not None


def test_lucid_classes_are_by_the_mean_speed_beside_others(jobs: SharingJobs) -> None:
    # light: (0.95 + 2 * 0.9 + 2 * 0.7) / 5 = 0.83 is jumbo by Lucid's cuts, and the best third here
    assert set(lucid_classes(jobs.pairs).values()) == {2}
    thirds = lucid_classes(jobs.pairs, terciles=True)
    assert thirds[LIGHT] == 0
    assert sorted(set(thirds.values())) == [0, 1, 2]


def test_the_linear_model_refuses_what_it_expects_to_lose_more(jobs: SharingJobs) -> None:
    # Two kinds have different features; the fit of 25 pairs need not be exact, only finite and
    # the same for equal kinds.
    rule = LifLinear.of(jobs, 0.6)
    found = rule.judge(job("1"), job("2"))
    assert found is not None
    assert found[0] == found[1]
    assert 0.0 <= found[0].mean <= -log(1 - 0.6)
    assert replace(rule, most=found[0].mean / 2).judge(job("1"), job("2")) is None


def test_a_linear_model_without_a_table_shares_nothing(jobs: SharingJobs) -> None:
    assert LifLinear.of(replace(jobs, table=()), 0.15).judge(job("1"), job("1")) is None
