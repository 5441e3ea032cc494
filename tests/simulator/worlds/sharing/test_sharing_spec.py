from dataclasses import replace
from pathlib import Path

import pytest
from tests.simulator.measured import pairs_file

from roost_engine.domain.model import JobId
from roost_sim.worlds.sharing.measured_pairs import read_pairs
from roost_sim.worlds.sharing.sharing_spec import SharingSpec

IDS = [JobId(str(number)) for number in range(1, 4001)]


@pytest.fixture
def spec(tmp_path: Path) -> SharingSpec:
    pairs = read_pairs(pairs_file(tmp_path), "p100")
    return SharingSpec(pairs=pairs, digest=pairs.digest)


def test_the_same_seed_draws_the_same_jobs(spec: SharingSpec) -> None:
    assert spec.build(IDS, 1) == spec.build(IDS, 1)
    assert spec.build(IDS, 1).kind_of != spec.build(IDS, 2).kind_of
    assert spec.build(IDS, 1).opted_in != spec.build(IDS, 2).opted_in


def test_families_are_equally_likely_and_half_of_the_jobs_opt_in(spec: SharingSpec) -> None:
    jobs = spec.build(IDS, 0)
    families = [kind.family for kind in jobs.kind_of.values()]
    assert all(0.3 < families.count(one) / len(IDS) < 0.37 for one in ("light", "heavy", "mid"))
    assert 0.47 < len(jobs.opted_in) / len(IDS) < 0.53
    assert len(replace(spec, opt_in_frac=1.0).build(IDS, 0).opted_in) == len(IDS)


def test_the_site_knows_pairs_of_known_families_only_and_with_an_error(spec: SharingSpec) -> None:
    jobs = replace(spec, known_frac=2 / 3).build(IDS, 0)
    assert len(jobs.known_families) == 2
    kinds = {kind.name: kind for kind in spec.pairs.kinds}
    known = [(kinds[pair.model], kinds[pair.beside]) for pair in jobs.table]
    assert {kind.family for pair in known for kind in pair} == set(jobs.known_families)
    errors = [
        pair.speed_frac / spec.pairs.speed[ab] for pair, ab in zip(jobs.table, known, strict=True)
    ]
    assert max(errors) > 1 > min(errors)
    assert all(0.8 < error < 1.25 for error in errors)
    assert len(jobs.whole_table) == len(spec.pairs.speed)


def test_known_families_do_not_depend_on_how_many_jobs_there_are(spec: SharingSpec) -> None:
    few, many = spec.build(IDS[:10], 5), spec.build(IDS, 5)
    assert few.known_families == many.known_families
    assert few.table == many.table
