"""roostd.telemetry.gpu_quantities: one sample on the scale of load vectors."""

import numpy as np
import pytest
from tests.daemon.rpc.probes import floats, hello, sample

from roost_engine.prediction.interference_vector import QUANTITIES, LoadWindow
from roost_proto.v1 import telemetry_pb2 as pb
from roostd.telemetry.board import NodeReport
from roostd.telemetry.gpu_quantities import quantities
from roostd.telemetry.probe_messages import read_hello


def of(found: np.ndarray, quantity: str) -> list[float]:
    values: list[float] = found[:, QUANTITIES.index(quantity)].tolist()
    return values


def test_every_quantity_of_a_sample_is_on_the_scale_of_vectors() -> None:
    message = hello()
    for gpu in message.gpus:
        gpu.memory_bytes = 80 << 30
    told = sample(
        sm_frac=floats(0.5, 1.0, 0.0, None),
        power_w=floats(350.0, None, 0.0, None),
        sm_clock_hz=floats(1.5e9, 0.0, None, None),
        pcie_tx_bytes_per_s=floats(63e9, 0.0, None, None),
    )
    told.memory_used_bytes.CopyFrom(pb.UintColumn(present_mask=0b11, values=[40 << 30, 0]))
    found = quantities(NodeReport(read_hello(message), 0.0, sample=told))
    assert found is not None
    assert of(found, "sm")[:3] == [0.5, 1.0, 0.0]
    assert of(found, "power")[0] == 0.5
    assert of(found, "clock")[:2] == [0.5, 0.0]
    assert of(found, "pcie")[0] == pytest.approx(0.5)
    assert of(found, "memory_used")[:2] == [0.5, 0.0]
    for quantity in ("nic", "nvlink", "step_time"):
        assert np.isnan(of(found, quantity)).all()
    assert np.isnan(found[3]).all()
    window = LoadWindow()
    window.add(found)
    assert window.vector()[QUANTITIES.index("sm")] == pytest.approx(0.5)


def test_memory_of_unknown_size_and_a_missing_sample_are_absent() -> None:
    message = hello()
    for gpu in message.gpus:
        gpu.ClearField("memory_bytes")
    told = sample()
    told.memory_used_bytes.CopyFrom(pb.UintColumn(present_mask=1, values=[1]))
    found = quantities(NodeReport(read_hello(message), 0.0, sample=told))
    assert found is not None
    assert np.isnan(of(found, "memory_used")).all()
    assert quantities(NodeReport(read_hello(message), 0.0)) is None
