from dataclasses import replace
from pathlib import Path

from tests.simulator.measured import pairs_file

from roost_engine.domain.model import JobId, JobSpec
from roost_engine.testing.builders import job
from roost_sim.policies.sharing.measured_rule import MeasuredRule
from roost_sim.worlds.sharing.measured_pairs import Kind, read_pairs
from roost_sim.worlds.sharing.sharing_spec import SharingJobs, SharingSpec

LIGHT, HEAVY, MID = Kind("light", ""), Kind("heavy", "8"), Kind("mid-1", "4")


def site(folder: Path, known_frac: float = 1.0) -> SharingJobs:
    pairs = read_pairs(pairs_file(folder), "p100")
    spec = SharingSpec(pairs=pairs, digest=pairs.digest, known_frac=known_frac, noise=0.0)
    ids = [JobId("1"), JobId("2"), JobId("3")]
    found = spec.build(ids, 0)
    return replace(found, kind_of=dict(zip(ids, (LIGHT, HEAVY, MID), strict=True)))


def asks(number: int) -> JobSpec:
    # The model that a job names is its speed profile; what it does to others is its kind.
    return replace(job(str(number)), model="bert/4@t4")


def test_kinds_decide_and_not_the_names_of_profiles(tmp_path: Path) -> None:
    rule = MeasuredRule.of(site(tmp_path), 0.15, 0.8)
    assert rule.judge(asks(1), asks(2)) is not None
    assert rule.judge(asks(2), asks(3)) is None
    assert MeasuredRule.of(site(tmp_path), 0.4, 0.8).judge(asks(2), asks(3)) is not None


def test_families_that_the_site_did_not_measure_share_nothing(tmp_path: Path) -> None:
    jobs = site(tmp_path, known_frac=0.0)
    assert MeasuredRule.of(jobs, 0.5, 0.8).judge(asks(1), asks(2)) is None
    assert MeasuredRule.of(jobs, 0.5, 0.8, whole=True).judge(asks(1), asks(2)) is not None
