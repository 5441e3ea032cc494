"""Clusters: tiers, uplinks, parts, and the events for the engine."""

from pathlib import Path

import pytest

from roost_engine.domain.model import NodeName
from roost_sim.clusters.cluster_file import load_cluster, read_cluster
from roost_sim.clusters.cluster_spec import (
    ClusterSpec,
    NetworkTier,
    NodeKind,
    SimNode,
    TierSpec,
    make_racks,
)
from roost_sim.clusters.link_shapes import SHAPES
from roost_sim.errors import ClusterError


def names(*numbers: int) -> list[NodeName]:
    return [NodeName(f"n{number:05d}") for number in numbers]


def test_tier_is_the_farthest_pair(sample: Path) -> None:
    cluster = read_cluster(sample)
    assert cluster.network_tier(names(3)) == NetworkTier.NODE
    assert cluster.network_tier(names(3, 3)) == NetworkTier.NODE
    assert cluster.network_tier(names(3, 4)) == NetworkTier.RACK
    assert cluster.network_tier(names(3, 20)) == NetworkTier.POD
    assert cluster.network_tier(names(3, 20, 40)) == NetworkTier.CORE
    with pytest.raises(ValueError, match="has a node"):
        cluster.network_tier([])


def test_uplinks_carry_what_is_below_over_the_oversubscription(sample: Path) -> None:
    cluster = read_cluster(sample)
    assert cluster.port_bytes_per_s() == 25e9
    assert cluster.rack_uplink_bytes_per_s("r1") == pytest.approx(16 * 25e9 / 2)
    assert cluster.pod_uplink_bytes_per_s("p1") == pytest.approx(32 * 25e9 / 4)


def test_the_engine_gets_every_node(sample: Path) -> None:
    specs = read_cluster(sample).node_specs("main")
    assert len({spec.name for spec in specs}) == 48
    assert (specs[0].rack, specs[0].features, specs[0].partitions) == (
        "p1/r1",
        ("a100",),
        ("main",),
    )
    assert specs[0].gpu_count == 8


def test_a_cluster_must_hold_together() -> None:
    kind = NodeKind(name="k", links=SHAPES["pcie2"])
    tiers = dict.fromkeys(NetworkTier, TierSpec(bandwidth_bytes_per_s=1e9))
    twice = (SimNode(NodeName("a"), kind, "r"), SimNode(NodeName("a"), kind, "r"))
    with pytest.raises(ValueError, match="stands twice"):
        ClusterSpec("c", "test", twice, tiers)
    two_pods = (SimNode(NodeName("a"), kind, "r", "p"), SimNode(NodeName("b"), kind, "r", "q"))
    with pytest.raises(ValueError, match="in two pods"):
        ClusterSpec("c", "test", two_pods, tiers)
    del tiers[NetworkTier.POD]
    with pytest.raises(ValueError, match="no figures for tier POD"):
        ClusterSpec("c", "test", make_racks(kind, {"r": 2}), tiers)


def test_a_part_of_a_preset_has_every_so_manieth_rack() -> None:
    assert len(load_cluster("venus/3").nodes) == 3 * 19  # racks 0, 3 and 6 of seven
    assert load_cluster("venus/1") == load_cluster("venus")
    with pytest.raises(ClusterError, match="venus/0"):
        load_cluster("venus/0")
