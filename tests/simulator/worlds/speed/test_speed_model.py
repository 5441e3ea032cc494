import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost_sim.clusters.cluster_spec import NetworkTier
from roost_sim.clusters.presets import PRESET_NAMES, preset
from roost_sim.worlds.speed.fitted_profiles import PROFILES
from roost_sim.worlds.speed.profiles import Profile
from roost_sim.worlds.speed.speed_model import SpeedModel, Spot

PROFILE = Profile(
    name="a/1@x",
    family="a",
    source="by hand",
    compute_s=1.0,
    local=0.1,
    spread=0.5,
    spread_log=0.25,
    pair_log=0.3,
)
TEN_TIMES = SpeedModel.of(preset("philly"))  # 100 Gbit/s in a rack, 10 above


def spot(tier: NetworkTier, node_count: int, each: int) -> Spot:
    return Spot(
        tier=tier, gpu_count=node_count * each, node_count=node_count, fullest_gpu_count=each
    )


def test_closest_placement_runs_at_rate_1() -> None:
    for profile in PROFILES:
        for gpu_count in (1, 2, 8, 16, 64):
            closest = TEN_TIMES.closest(gpu_count)
            assert TEN_TIMES.rate(profile, closest) == 1.0


def test_rate_by_hand() -> None:
    one_node = 1 + 0.1 * 3
    rack = 1 + 0.5 + 0.75 + 0.6
    assert TEN_TIMES.rate(PROFILE, spot(NetworkTier.NODE, 1, 8)) == 1.0
    assert TEN_TIMES.rate(PROFILE, spot(NetworkTier.RACK, 2, 4)) == pytest.approx(one_node / rack)
    pod = 1 + 10 * 1.85
    assert TEN_TIMES.rate(PROFILE, spot(NetworkTier.POD, 2, 4)) == pytest.approx(one_node / pod)
    half = 1 + 1.85 / 0.5
    assert TEN_TIMES.rate(PROFILE, spot(NetworkTier.RACK, 2, 4), 0.5) == pytest.approx(
        one_node / half
    )


def test_neighbours_stretch_what_is_exposed_and_nothing_else() -> None:
    # Alone 1 + 0.1 · log2(4) = 1.2; the 0.2 takes twice as long beside such neighbours.
    rate = TEN_TIMES.rate(PROFILE, spot(NetworkTier.NODE, 1, 4), node_stretch=2.0)
    assert rate == pytest.approx(1.2 / 1.4)
    assert TEN_TIMES.rate(PROFILE, spot(NetworkTier.NODE, 1, 1), node_stretch=2.0) == 1.0


def test_congestion_slows_everything_above_the_nodes() -> None:
    slow = SpeedModel.of(preset("philly"), congestion=4.0)
    assert slow.overhead(PROFILE, spot(NetworkTier.NODE, 1, 8)) == pytest.approx(0.3)
    assert slow.overhead(PROFILE, spot(NetworkTier.RACK, 2, 4)) == pytest.approx(4 * 1.85)
    with pytest.raises(ValueError, match="1 or more"):
        SpeedModel.of(preset("small"), congestion=0.5)


def test_link_share_plays_no_part_inside_a_node() -> None:
    assert TEN_TIMES.rate(PROFILE, spot(NetworkTier.NODE, 1, 8), 0.01) == 1.0


def test_communication_share_is_that_of_the_step() -> None:
    assert TEN_TIMES.communication_frac(PROFILE, spot(NetworkTier.NODE, 1, 1)) == 0.0
    assert TEN_TIMES.communication_frac(PROFILE, spot(NetworkTier.RACK, 2, 4)) == pytest.approx(
        1.85 / 2.85
    )


def test_scale_0_makes_every_placement_alike() -> None:
    free = SpeedModel.of(preset("philly"), communication_scale=0.0)
    assert free.rate(PROFILE, spot(NetworkTier.CORE, 8, 1), 0.1) == 1.0
    with pytest.raises(ValueError, match="0 or more"):
        SpeedModel.of(preset("small"), communication_scale=-1.0)


def test_a_faster_core_than_rack_gives_no_bonus() -> None:
    model = SpeedModel.of(preset("dally-128"))  # rack 200 GB/s, core 400
    assert model.far_factor[NetworkTier.CORE] == 1.0


@pytest.mark.parametrize(
    ("tier", "gpus", "nodes", "fullest"),
    [
        (NetworkTier.NODE, 4, 2, 2),
        (NetworkTier.RACK, 4, 1, 4),
        (NetworkTier.RACK, 2, 3, 1),
        (NetworkTier.RACK, 8, 2, 3),
    ],
)
def test_impossible_spots_are_refused(
    tier: NetworkTier, gpus: int, nodes: int, fullest: int
) -> None:
    with pytest.raises(ValueError, match=r"GPUs|nodes"):
        Spot(tier=tier, gpu_count=gpus, node_count=nodes, fullest_gpu_count=fullest)


@given(
    profile=st.sampled_from(PROFILES),
    cluster=st.sampled_from(PRESET_NAMES),
    nodes=st.integers(2, 16),
    each=st.integers(1, 8),
    shares=st.tuples(st.floats(0.0, 1.0), st.floats(0.0, 1.0)),
)
def test_farther_or_narrower_is_never_faster(
    profile: Profile, cluster: str, nodes: int, each: int, shares: tuple[float, float]
) -> None:
    model = SpeedModel.of(preset(cluster))
    low, high = sorted(shares)
    rates = [
        model.rate(profile, spot(tier, nodes, each), share)
        for tier, share in [
            (NetworkTier.RACK, 1.0),
            (NetworkTier.POD, 1.0),
            (NetworkTier.CORE, 1.0),
            (NetworkTier.CORE, high),
            (NetworkTier.CORE, low),
        ]
    ]
    assert rates == sorted(rates, reverse=True)
    assert all(0 < rate <= 1 for rate in rates)
