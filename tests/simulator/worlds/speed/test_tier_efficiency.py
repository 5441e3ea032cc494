import pytest

from roost_sim.clusters.cluster_spec import ClusterSpec, NetworkTier, NodeKind, TierSpec, make_racks
from roost_sim.clusters.link_shapes import SHAPES
from roost_sim.clusters.presets import preset
from roost_sim.worlds.speed.dally_models import DALLY_MODELS
from roost_sim.worlds.speed.profiles import Profile
from roost_sim.worlds.speed.tier_efficiency import TierEfficiency

PLAIN = Profile(
    name="a/1@x",
    family="a",
    source="by hand",
    compute_s=1.0,
    local=0.1,
    spread=0.5,
    spread_log=0.25,
)


def cluster() -> ClusterSpec:
    """Racks of two nodes of eight; twice slower between the racks."""
    kind = NodeKind(name="plain", links=SHAPES["pcie8"])
    near, far = TierSpec(bandwidth_bytes_per_s=8e9), TierSpec(bandwidth_bytes_per_s=4e9)
    tiers = {
        NetworkTier.NODE: near,
        NetworkTier.RACK: near,
        NetworkTier.POD: far,
        NetworkTier.CORE: far,
    }
    return ClusterSpec("test", "by hand", make_racks(kind, {"r0": 2, "r1": 2}), tiers)


def test_three_tiers_by_hand() -> None:
    # 8 GPUs: 0.1 · 3 on one node; 0.5 + 0.25 · 3 in a rack; twice that across racks.
    found = TierEfficiency.of(cluster()).efficiencies(PLAIN, 8)
    assert found == pytest.approx((1 / 1.3, 1 / 2.25, 1 / 3.5))


def test_a_job_that_is_too_large_for_a_tier_has_the_next_ones() -> None:
    rack, across = 1 / (1 + 0.5 + 0.25 * 4), 1 / (1 + 2 * (0.5 + 0.25 * 4))
    assert TierEfficiency.of(cluster()).efficiencies(PLAIN, 16) == pytest.approx(
        (rack, rack, across)
    )
    far = 1 / (1 + 2 * (0.5 + 0.25 * 5))
    assert TierEfficiency.of(cluster()).efficiencies(PLAIN, 32) == pytest.approx((far, far, far))


def test_one_gpu_is_nowhere_far() -> None:
    assert TierEfficiency.of(cluster()).efficiencies(PLAIN, 1) == (1.0, 1.0, 1.0)


def test_scale_and_congestion_are_in_it() -> None:
    found = TierEfficiency.of(cluster(), compute_scale=2.0, congestion=4.0).efficiencies(PLAIN, 8)
    assert found == pytest.approx((1 / 1.15, 1 / (1 + 1.25 * 4 / 2), 1 / (1 + 2.5 * 4 / 2)))


def test_leaving_the_node_is_never_better_for_dally_models() -> None:
    # Dally's core has twice the bandwidth of its racks, so racks may be worse than several of them.
    for model in DALLY_MODELS:
        for gpus in (2, 3, 8, 16, 64, 100):
            node, rack, across = TierEfficiency.of(preset("dally-256")).efficiencies(model, gpus)
            assert 1.0 >= node >= max(rack, across)
            assert min(rack, across) > 0
