from math import sqrt

import pytest

from roost_sim.clusters.presets import preset
from roost_sim.worlds.speed.tier_efficiency import TierEfficiency
from roost_sim.worlds.speed.union_tree import TREE_MODELS, TreeModel, UnionTree

TREE = UnionTree.of(preset("topdrl"))
BY_NAME = {model.name: model for model in TREE_MODELS}
TOY = TreeModel(name="toy", family="toy", source="by hand", compute_s=0.1, gradient_bytes=300e6)


@pytest.mark.parametrize(
    ("gpus", "best", "worst"),
    # The published table of best and worst costs; the worst places alternate between the racks.
    [
        (1, 0.775, 0.775),
        (2, 0.800, 1.550),
        (3, 0.825, 1.825),
        (4, 0.850, 2.100),
        (5, 1.125, 2.375),
        (8, 1.200, 3.200),
    ],
)
def test_costs_are_those_of_the_published_table(gpus: int, best: float, worst: float) -> None:
    assert TREE.cost(gpus, -(-gpus // 4), 1) == pytest.approx(best)
    assert TREE.cost(gpus, gpus, min(gpus, 2)) == pytest.approx(worst)


def test_rate_by_hand() -> None:
    # 300 MB lie half way between 28.29 and 139.77 ms: 84.03 ms, twice that on four GPUs.
    reduce_s = 0.08403 * sqrt(4)
    near_s, far_s = 0.1 + reduce_s, 0.1 + reduce_s * 1.2
    assert TREE.rate(TOY, 4, 1, 1) == 1.0
    assert TREE.rate(TOY, 4, 2, 1) == pytest.approx(0.850 / 1.100)
    assert TREE.rate(TOY, 4, 4, 2) == pytest.approx(near_s * 0.850 / (far_s * 2.100))
    assert TREE.compute_frac(TOY, 4) == pytest.approx(0.1 / near_s)


def test_compute_is_counted_from_multiply_adds() -> None:
    # 4.09e9 multiply-adds · 2 · 3 passes · 64 images / 10.6 TFLOP/s
    assert BY_NAME["resnet50"].compute_s == pytest.approx(4.09e9 * 384 / 10.6e12)


def test_efficiency_by_tier_is_the_rate() -> None:
    node, rack, across = TierEfficiency.of(preset("topdrl")).efficiencies(TOY, 4)
    assert (node, rack) == pytest.approx((1.0, 0.850 / 1.100))
    assert across == TREE.rate(TOY, 4, 2, 2)
