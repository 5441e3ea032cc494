import numpy as np
import pytest

from roost_engine.scoring import graph_columns as names
from roost_sim.worlds.world_spec import WorldSpec
from roost_train.graph.clusters import draw_cluster, draw_trace
from roost_train.graph.samples import MOST_CANDIDATES, MOST_COST, Sample, record


@pytest.fixture(scope="module")
def samples() -> list[Sample]:
    rng = np.random.default_rng(6)
    cluster = draw_cluster(rng)
    spec = WorldSpec(compute_scale=0.1, congestion=4.0)
    return record(cluster, draw_trace(rng, cluster, 60), 6, 1.0, spec)


def test_decisions_with_a_choice_are_recorded_with_their_costs(samples: list[Sample]) -> None:
    assert samples
    for one in samples:
        assert 2 <= len(one.cost) <= MOST_CANDIDATES
        assert len(one.candidates) == len(one.cost)
        assert np.isfinite(one.cost).all()
        assert one.cost.max() <= MOST_COST
    assert max(np.ptp(one.cost) for one in samples) > 0.01


def test_indices_point_into_the_tree(samples: list[Sample]) -> None:
    for one in samples:
        assert one.gpus.shape == (len(one.node_of_gpu), len(names.GPU_COLUMNS))
        assert one.node_of_gpu.max() < len(one.nodes) == len(one.rack_of_node)
        assert one.rack_of_node.max() < len(one.racks) == len(one.pod_of_rack)
        assert one.pod_of_rack.max() < len(one.pods)
        assert set(one.parts[0].tolist()) == set(range(len(one.cost)))
        # What a candidate takes is on the nodes of its parts, and free.
        on = set(zip(*one.parts.tolist(), strict=True))
        taken = zip(one.taken[0].tolist(), one.node_of_gpu[one.taken[1]].tolist(), strict=True)
        assert set(taken) == on
        assert (one.gpus[one.taken[1], 0] == 1).all()


def test_the_same_seed_records_the_same(samples: list[Sample]) -> None:
    rng = np.random.default_rng(6)
    cluster = draw_cluster(rng)
    spec = WorldSpec(compute_scale=0.1, congestion=4.0)
    again = record(cluster, draw_trace(rng, cluster, 60), 6, 1.0, spec)
    assert [one.cost.tolist() for one in again] == [one.cost.tolist() for one in samples]


def test_a_fraction_of_the_decisions_can_be_kept() -> None:
    rng = np.random.default_rng(6)
    cluster = draw_cluster(rng)
    assert record(cluster, draw_trace(rng, cluster, 30), 6, 0.0) == []
