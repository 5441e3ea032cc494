import pytest

from roost_engine.domain.model import NodeName, NodeShare
from roost_sim.clusters.cluster_spec import NetworkTier
from roost_sim.clusters.presets import preset
from roost_sim.worlds.speed.dally_models import DALLY_MODELS
from roost_sim.worlds.speed.ring_network import (
    RingNetwork,
    StepModel,
    gpu_counts,
    rings_of,
    spread_evenly,
)

DALLY = preset("dally-256")  # racks of 8 machines of 2 slots of 4
NETWORK = RingNetwork.of(DALLY)
BY_NAME = {model.name: model for model in DALLY_MODELS}
TOY = StepModel(
    name="toy", family="toy", source="by hand", compute_s=3e-3, gradient_bytes=400e6, layer_count=10
)
SLOT, MACHINE, RACK, POD = 0, 1, 2, 3


def test_reduction_by_hand() -> None:
    # Slot: 2·3/4 · 400 MB / 600 GB/s = 1 ms. Machine: 2·1/2 · 100 MB / 600 GB/s = 1/6 ms and
    # 10 · 2 · 500 ns = 10 us. Rack: 2·1/2 · 50 MB / 200 GB/s = 250 us and 10 · 2 · 5 us = 100 us.
    rings = rings_of(spread_evenly(16, 2, 1))
    assert rings == ((4, SLOT), (2, MACHINE), (2, RACK))
    assert NETWORK.reduce_s(TOY, rings) == pytest.approx(1e-3 + 1e-3 / 6 + 10e-6 + 350e-6)


def test_an_uneven_level_is_one_flat_ring() -> None:
    assert rings_of(spread_evenly(8, 2, 1)) == ((4, SLOT), (2, RACK))
    assert rings_of({("", 0, 0, 0): 3, ("", 0, 1, 0): 1}) == ((4, RACK),)


def test_what_fits_into_the_backward_pass_is_hidden() -> None:
    rings = rings_of(spread_evenly(16, 2, 1))
    exposed_s = (1e-3 + 1e-3 / 6 + 360e-6) - 2 / 3 * 3e-3  # negative: all of it is hidden
    assert exposed_s < 0
    assert NETWORK.efficiency(TOY, rings) == 1.0
    faster = RingNetwork.of(DALLY, compute_scale=0.1)
    exposed_s = (1e-3 + 1e-3 / 6 + 360e-6) - 2 / 3 * 0.3e-3
    assert faster.efficiency(TOY, rings) == pytest.approx(0.3e-3 / (0.3e-3 + exposed_s))


@pytest.mark.parametrize(
    ("name", "two_machines", "eight_machines", "two_racks"),
    # An independent program's figures for 8 GPUs with the published constants, layer by layer.
    [
        ("resnet50", 1.00, 0.99, 0.99),
        ("vgg11", 1.00, 0.58, 0.96),
        ("alexnet", 0.87, 0.39, 0.62),
        ("bert", 0.49, 0.17, 0.19),
        ("resnet18", 0.37, 0.09, 0.08),
        ("mobilenetv3", 0.09, 0.017, 0.012),
    ],
)
def test_dally_models_lose_what_a_layer_by_layer_program_says(
    name: str, two_machines: float, eight_machines: float, two_racks: float
) -> None:
    found = [
        NETWORK.efficiency(BY_NAME[name], rings_of(spread_evenly(8, *places)))
        for places in ((2, 1), (8, 1), (2, 2))
    ]
    assert found == pytest.approx([two_machines, eight_machines, two_racks], abs=0.04)


def test_shapes_of_real_placements() -> None:
    def rings(*placed: tuple[str, int, int]) -> tuple[tuple[int, int], ...]:
        shares = (NodeShare(NodeName(n), tuple(range(a, b))) for n, a, b in placed)
        return rings_of(gpu_counts(DALLY, tuple(shares)))

    assert rings(("n00000", 3, 4)) == ()
    assert rings(("n00000", 0, 4)) == ((4, SLOT),)
    assert rings(("n00000", 0, 8)) == ((4, SLOT), (2, MACHINE))
    assert rings(("n00000", 2, 5)) == ((3, MACHINE),)  # two in one slot, one in the other
    assert rings(("n00000", 0, 2), ("n00001", 0, 2)) == ((2, SLOT), (2, RACK))
    assert rings(("n00000", 0, 3), ("n00001", 0, 1)) == ((4, RACK),)
    assert rings(("n00000", 0, 2), ("n00008", 0, 2)) == ((2, SLOT), (2, POD))
    # Alike in number but not in shape: one flat ring a machine, then the rack.
    assert rings(("n00000", 0, 4), ("n00001", 2, 6)) == ((4, MACHINE), (2, RACK))


def test_congestion_divides_what_is_above_the_nodes() -> None:
    slow = DALLY.congested(4)
    assert slow.tiers[NetworkTier.NODE] == DALLY.tiers[NetworkTier.NODE]
    assert slow.tiers[NetworkTier.POD].bandwidth_bytes_per_s == 100e9
    assert slow.tiers[NetworkTier.RACK].latency_s == DALLY.tiers[NetworkTier.RACK].latency_s
    with pytest.raises(ValueError, match="1 or more"):
        DALLY.congested(0.5)
