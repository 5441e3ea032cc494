"""roostd.telemetry.job_load: means and variations of a job's GPUs, worked by hand."""

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.daemon.rpc.probes import floats, hello, sample

from roost_engine.cluster.features import LOAD_QUANTITIES
from roost_engine.prediction.interference.interference_vector import QUANTITIES as VECTOR
from roost_proto.v1 import telemetry_pb2 as pb
from roostd.telemetry.board import ProbeBoard
from roostd.telemetry.job_load import (
    LEAST_SAMPLES,
    QUANTITIES,
    LoadWindow,
    gpu_readings,
    has_changed,
    share_of,
)
from roostd.telemetry.probe_messages import read_hello

POWER, MEMORY, NIC = (QUANTITIES.index(name) for name in ("power", "memory_used", "nic"))


def readings(*gpus: dict[str, float]) -> NDArray[np.float64]:
    """Return one line for each GPU; what is not named is unknown."""
    found = np.full((len(gpus), len(QUANTITIES)), np.nan)
    for at, values in enumerate(gpus):
        for name, value in values.items():
            found[at, QUANTITIES.index(name)] = value
    return found


def window(*samples: NDArray[np.float64]) -> LoadWindow:
    found = LoadWindow(0.0)
    for one in samples:
        found.add([one])
    return found


def test_every_quantity_is_one_of_the_vector() -> None:
    assert set(QUANTITIES) <= set(VECTOR)
    assert QUANTITIES[:4] == LOAD_QUANTITIES


def test_mean_and_variation_of_a_window() -> None:
    low, high = readings({"power": 250.0, "sm": 0.4}), readings({"power": 450.0, "sm": 0.4})
    load = window(*[low, high] * 5).load()
    assert load["power"] == pytest.approx(0.5)  # mean 350 W of a half of 350 W
    assert load["power_variation"] == pytest.approx((100 / 350) / (1 + 100 / 350))
    assert load["sm_variation"] == pytest.approx(0.0, abs=1e-6)
    assert load.keys() == {"power", "power_variation", "sm_variation"}


def test_gpus_of_several_nodes_are_averaged() -> None:
    found = LoadWindow(0.0)
    for _ in range(LEAST_SAMPLES):
        found.add(
            [readings({"memory_used": 0.2}, {"memory_used": 0.4}), readings({"memory_used": 0.6})]
        )
    assert found.load()["memory_used"] == pytest.approx(0.4)


def test_what_one_sample_or_gpu_lacks_is_absent() -> None:
    known, lacking = readings({"clock": 1.5e9}), readings({})
    assert window(*[known] * 9, lacking).load() == {}
    pair = readings({"clock": 1.5e9}, {})
    assert window(*[pair] * 9).load() == {}


def test_too_few_samples_say_nothing() -> None:
    assert window(*[readings({"clock": 1.5e9})] * (LEAST_SAMPLES - 1)).load() == {}
    assert window(*[readings({"clock": 1.5e9})] * LEAST_SAMPLES).load()["clock"] == 0.5


def test_a_quantity_that_stays_at_zero_has_no_variation() -> None:
    load = window(*[readings({"nvlink": 0.0, "power": 0.0})] * 9).load()
    assert load == {"power": 0.0}


def test_small_changes_are_not_reported() -> None:
    assert not has_changed({"power": 0.50}, {"power": 0.51})
    assert has_changed({"power": 0.50}, {"power": 0.53})
    assert has_changed({}, {"power": 0.5})
    assert has_changed({"power": 0.5}, {})
    assert not has_changed({}, {})


def test_what_a_probe_reports_of_each_gpu() -> None:
    board = ProbeBoard(lambda: 0.0, lambda event: None)
    said = hello("a")
    report = board.apply_hello(read_hello(said), board)
    assert gpu_readings(report) is None
    count = len(said.gpus)
    told = sample(1, count, power_w=floats(*[300.0] * (count - 1), None), sm_frac=floats())
    used = pb.UintColumn(present_mask=(1 << count) - 1, values=[20 << 30] * count)
    told.memory_used_bytes.CopyFrom(used)
    board.apply_sample(report, told, is_checked=True)
    found = gpu_readings(report)
    assert found is not None
    assert found[:, MEMORY].tolist() == [0.25] * count
    assert found[:-1, POWER].tolist() == [300.0] * (count - 1)
    assert np.isnan(found[-1, POWER])
    assert np.isnan(found[:, QUANTITIES.index("clock")]).all()
    assert np.isnan(found[:, 0]).all()


def test_a_card_counts_by_its_busier_direction_for_a_job_with_all_gpus_of_the_node() -> None:
    board = ProbeBoard(lambda: 0.0, lambda event: None)
    said = hello("a")
    said.nics.add(name="mlx5_0", bytes_per_s=50e9).gpu_levels.extend([pb.ANCESTOR_LEVEL_SYSTEM] * 4)
    report = board.apply_hello(read_hello(said), board)
    told = sample(nic_tx_bytes_per_s=floats(10e9), nic_rx_bytes_per_s=floats(20e9))
    board.apply_sample(report, told, is_checked=True)
    found = gpu_readings(report)
    assert found is not None
    assert share_of(found, (0, 1, 2, 3))[:, NIC].tolist() == pytest.approx([0.4] * 4)
    assert np.isnan(share_of(found, (0, 1, 2))[:, NIC]).all()
    assert share_of(found, (0, 1, 2))[:, 0].tolist() == [0.5] * 3


def test_the_mean_of_a_card_is_not_reported() -> None:
    low, high = readings({"nic": 0.1}), readings({"nic": 0.3})
    assert window(*[low, high] * 5).load() == {"nic_variation": pytest.approx(1 / 3)}
