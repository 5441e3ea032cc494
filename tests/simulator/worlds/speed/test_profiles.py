import numpy as np
import pytest

from roost_sim.errors import ProfileError
from roost_sim.traces.trace import UNKNOWN, Trace, make_trace
from roost_sim.worlds.speed.fitted_profiles import PROFILES
from roost_sim.worlds.speed.profiles import Profile, assign_profiles, select_profiles

PLAIN = Profile(
    name="a/1@x",
    family="a",
    source="by hand",
    compute_s=2.0,
    local=0.1,
    spread=0.5,
    spread_log=0.25,
    pair_log=0.3,
)


def jobs(count: int, names: tuple[str, ...] = (), model_id: list[int] | None = None) -> Trace:
    ids = None if model_id is None else np.array(model_id, dtype=np.int32)
    return make_trace(
        "jobs",
        np.arange(float(count)),
        np.ones(count),
        [1] * count,
        model_id=ids,
        model_names=names,
    )


def test_overheads_by_hand() -> None:
    assert PLAIN.local_overhead(1) == 0.0
    assert PLAIN.local_overhead(8) == pytest.approx(0.3)
    assert PLAIN.spread_overhead(8, 2, 4) == pytest.approx(0.5 + 0.75 + 0.6)
    assert PLAIN.spread_overhead(8, 4, 2) == pytest.approx(0.5 + 0.75)


def test_several_nodes_never_cost_less_than_one() -> None:
    odd = Profile(
        name="o", family="o", source="", compute_s=1.0, local=0.2, spread=-5.0, spread_log=0.1
    )
    assert odd.spread_overhead(8, 8, 1) == odd.local_overhead(8) == pytest.approx(0.6)


def test_excluding_a_family_leaves_the_others() -> None:
    left = select_profiles(PROFILES, ["bert", "lm"])
    assert {p.family for p in PROFILES} - {p.family for p in left} == {"bert", "lm"}
    with pytest.raises(ProfileError, match=r"no model 'brt'; there are a2c, bert"):
        select_profiles(PROFILES, ["brt"])
    with pytest.raises(ProfileError, match="every model is excluded"):
        select_profiles(PROFILES, {p.family for p in PROFILES})


def test_seed_decides_the_profiles() -> None:
    once, again, other = (assign_profiles(jobs(500), PROFILES, seed) for seed in (1, 1, 2))
    assert np.array_equal(once, again)
    assert not np.array_equal(once, other)


def test_families_are_equally_likely_and_so_are_their_variants() -> None:
    chosen = assign_profiles(jobs(50_000), PROFILES, 0)
    families = sorted({p.family for p in PROFILES})
    counts = dict.fromkeys(families, 0)
    for index, count in enumerate(np.bincount(chosen, minlength=len(PROFILES))):
        counts[PROFILES[index].family] += int(count)
        siblings = sum(p.family == PROFILES[index].family for p in PROFILES)
        assert count == pytest.approx(50_000 / len(families) / siblings, rel=0.2)
    assert max(counts.values()) < 1.1 * min(counts.values())


def test_a_job_that_names_its_model_gets_it() -> None:
    trace = jobs(300, ("BERT", "unheard-of"), [0, 1, UNKNOWN] * 100)
    chosen = [PROFILES[index].family for index in assign_profiles(trace, PROFILES, 0)]
    assert set(chosen[0::3]) == {"bert"}
    assert len(set(chosen[1::3])) > 5
    assert len(set(chosen[2::3])) > 5


def test_shipped_profiles_are_sound() -> None:
    assert len({profile.name for profile in PROFILES}) == len(PROFILES)
    assert len({profile.family for profile in PROFILES}) >= 12
    for profile in PROFILES:
        assert profile.compute_s > 0
        assert profile.local >= 0
        assert profile.source
        for nodes, each in [(2, 1), (2, 4), (4, 4), (8, 8), (32, 8)]:
            count = nodes * each
            assert profile.spread_overhead(count, nodes, each) >= profile.local_overhead(count)
