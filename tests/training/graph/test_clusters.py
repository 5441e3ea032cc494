import numpy as np
import pytest

from roost_sim.clusters.cluster_spec import NetworkTier
from roost_train.graph.clusters import draw_cluster, draw_tiers, draw_trace


@pytest.mark.parametrize("seed", range(8))
def test_clusters_are_within_their_bounds(seed: int) -> None:
    cluster = draw_cluster(np.random.default_rng(seed))
    racks = {node.rack for node in cluster.nodes}
    assert 2 <= len(racks) <= 8
    assert len({node.pod for node in cluster.nodes}) <= 3
    assert 1 <= len({node.kind.name for node in cluster.nodes}) <= 3
    assert all(2 <= sum(node.rack == rack for node in cluster.nodes) <= 6 for rack in racks)


def test_a_seed_gives_the_same_cluster_and_trace() -> None:
    one, other = (np.random.default_rng(5) for _ in range(2))
    cluster = draw_cluster(one)
    assert cluster == draw_cluster(other)
    assert np.array_equal(
        draw_trace(one, cluster, 50).submit_s, draw_trace(other, cluster, 50).submit_s
    )


def test_every_tier_of_the_network_is_drawn() -> None:
    tiers = draw_tiers(np.random.default_rng(1))
    assert set(tiers) == set(NetworkTier)
    assert tiers[NetworkTier.RACK].oversubscription == 1


def test_no_job_is_larger_than_a_third_of_the_cluster() -> None:
    rng = np.random.default_rng(2)
    cluster = draw_cluster(rng)
    assert draw_trace(rng, cluster, 300).gpu_count.max() <= cluster.gpu_count // 3
