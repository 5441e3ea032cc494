"""roostd.telemetry.link_use: counters over what the links can do, known answers."""

import numpy as np
import pytest
from tests.daemon.rpc.probes import floats, hello, sample

from roost_engine.domain.errors import ProbeError
from roost_proto.v1 import telemetry_pb2 as pb
from roostd.telemetry.board import NodeReport
from roostd.telemetry.link_use import busy_fracs
from roostd.telemetry.probe_messages import check_sample, read_hello


def report(message: pb.Hello, told: pb.Sample | None) -> NodeReport:
    return NodeReport(read_hello(message), 0.0, checked=told)


def test_direct_lanes_are_shared_out_among_the_peers() -> None:
    assert read_hello(hello(lanes={(0, 1): 4, (0, 2): 2})).lane_counts == (6, 4, 2, 0)


def test_a_switch_names_all_lanes_with_every_peer() -> None:
    message = hello(lanes={(a, b): 18 for a in range(4) for b in range(a + 1, 4)})
    for link in message.links:
        link.nvswitch = True
    assert read_hello(message).lane_counts == (18, 18, 18, 18)


def test_share_is_both_directions_over_what_the_links_can_do() -> None:
    told = sample(
        nvlink_tx_bytes_per_s=floats(30e9, 0.0, 900e9, None),
        nvlink_rx_bytes_per_s=floats(20e9, 0.0, 0.0, None),
        pcie_tx_bytes_per_s=floats(6.3e9, 0.0, 63e9, None),
        pcie_rx_bytes_per_s=floats(0.0, 6.3e9, 63e9, 6.3e9),
    )
    busy = busy_fracs(report(hello(lanes={(0, 1): 4, (2, 3): 4}), told))
    assert busy is not None
    # 50 of 200 GB/s; nothing; more than there is; not told in either direction
    assert busy[:3, 0].tolist() == pytest.approx([0.25, 0.0, 1.0])
    assert busy[:3, 1].tolist() == pytest.approx([0.1, 0.1, 1.0])
    assert np.isnan(busy[3]).all()
    assert np.isnan(busy[:, 2]).all()


def with_nics(*nics: tuple[float, tuple[int, ...]]) -> pb.Hello:
    """A node with cards of these speeds; of each GPU (NVML index) how far away they are."""
    message = hello(minors=[1, 0, 2, 3])
    for number, (bytes_per_s, levels) in enumerate(nics):
        nic = message.nics.add(name=f"mlx5_{number}", bytes_per_s=bytes_per_s)
        nic.gpu_levels.extend(map(pb.AncestorLevel.ValueType, levels))
    return message


def test_the_nearest_card_counts_by_its_busier_direction() -> None:
    # The third is as near to GPU 3 as the second; the last is nearest to all, of unknown speed.
    nics = [(50e9, (2, 3, 6, 6)), (50e9, (6, 6, 2, 3)), (10e9, (6, 6, 6, 3)), (0.0, (1, 1, 1, 1))]
    told = sample(
        nic_tx_bytes_per_s=floats(10e9, 5e9, 8e9, 1e9), nic_rx_bytes_per_s=floats(20e9, 0.0)
    )
    busy = busy_fracs(report(with_nics(*nics), told))
    assert busy is not None
    assert busy[:, 2].tolist() == pytest.approx([0.4, 0.4, 0.1, 0.8])


def test_gpus_are_renumbered_before_their_cards_are_looked_up() -> None:
    told = sample(nic_tx_bytes_per_s=floats(5e9, 10e9))
    busy = busy_fracs(report(with_nics((10e9, (2, 6, 6, 6)), (10e9, (6, 2, 2, 2))), told))
    assert busy is not None
    # NVML's GPU 0 is the second by gres index.
    assert busy[:, 2].tolist() == pytest.approx([1.0, 0.5, 1.0, 1.0])


def test_a_card_at_an_unknown_distance_is_not_the_nearest() -> None:
    told = sample(nic_tx_bytes_per_s=floats(5e9, 10e9))
    busy = busy_fracs(report(with_nics((10e9, (0, 2, 6, 0)), (10e9, (0, 6, 2, 5))), told))
    assert busy is not None
    assert busy[:, 2].tolist() == pytest.approx([0.5, np.nan, 1.0, 1.0], nan_ok=True)


@pytest.mark.parametrize("speed", [-1.0, float("nan"), 1e30])
def test_a_card_of_an_absurd_speed_is_refused(speed: float) -> None:
    with pytest.raises(ProbeError, match="want speeds of 0 to"):
        read_hello(with_nics((speed, ())))


def test_rates_of_cards_that_the_hello_lacks_are_refused() -> None:
    told = sample(nic_tx_bytes_per_s=floats(1.0, 1.0))
    with pytest.raises(ProbeError, match="nic_tx_bytes_per_s: 2 values"):
        check_sample(told, read_hello(with_nics((1e9, ()))))


def test_without_lanes_or_samples_the_fraction_is_unknown() -> None:
    busy = busy_fracs(report(hello(), sample(nvlink_tx_bytes_per_s=floats(*[1e9] * 4))))
    assert busy is not None
    assert np.isnan(busy).all()
    assert busy_fracs(report(hello(), None)) is None
