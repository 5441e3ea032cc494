import math
from collections.abc import Callable

import numpy as np
import pytest
from tests.daemon.rpc.probes import floats, hello, sample

from roost_engine.domain.errors import ProbeError
from roost_proto.v1 import telemetry_pb2 as pb
from roostd.telemetry.probe_messages import check_sample, column, faults, read_hello, read_load


def test_gpus_come_in_the_order_of_their_device_files() -> None:
    read = read_hello(hello(minors=[2, 3, 0, 1], lanes={(0, 1): 4}))

    assert read.order == (2, 3, 0, 1)
    assert read.gpu_uuids == ("GPU-n1-2", "GPU-n1-3", "GPU-n1-0", "GPU-n1-1")
    assert read.links.score((2, 3)) == 400
    assert read.links.score((0, 1)) == 20


@pytest.mark.parametrize("minors", [[None] * 4, [0, 1, None, 3], [0, 0, 1, 2], [None, 9, 2, 1]])
def test_nvml_s_order_stands_where_minors_are_unknown(minors: list[int | None]) -> None:
    assert read_hello(hello(minors=minors)).order == (0, 1, 2, 3)


def test_a_lost_gpu_keeps_the_others_at_their_device_files() -> None:
    """Otherwise the fault counts for another GPU, and jobs are placed on the lost one."""
    read = read_hello(hello(minors=[3, None, 1, 0]))
    told = sample()
    told.lost_mask = 0b0010

    assert read.order == (3, 2, 1, 0)
    assert faults(told, read.order) == {2: "lost"}


def test_load_follows_the_gpus() -> None:
    read = read_hello(hello(minors=[2, 3, 0, 1]))
    told = sample(
        sm_frac=floats(0.0, 0.1, 0.2, None),
        pcie_tx_bytes_per_s=floats(1.0, 1.0, 1.0, 1.0),
        pcie_rx_bytes_per_s=floats(1.0, 2.0, 3.0, 4.0),
    )

    load = read_load(told, read.order)

    np.testing.assert_allclose(load[:, 0], [0.2, np.nan, 0.0, 0.1], rtol=1e-6)
    np.testing.assert_allclose(load[:, 2], [4.0, 5.0, 2.0, 3.0])
    assert np.isnan(load[:, 1]).all()
    assert column(told.sm_frac, read.order)[1] is None


def test_one_direction_that_the_driver_reports_is_the_load_and_an_unknown_gpu_stays_so() -> None:
    told = sample(
        pcie_tx_bytes_per_s=floats(1.0, 2.0, 3.0, 4.0),
        nvlink_tx_bytes_per_s=floats(16777216.0, 1.0, None, 0.0),
        nvlink_rx_bytes_per_s=floats(1.0, None, 1.0, 0.1),
    )
    load = read_load(told, (0, 1, 2, 3))
    assert load.dtype == np.float32
    np.testing.assert_array_equal(load[:, 2], [1.0, 2.0, 3.0, 4.0])
    summed = np.array([16777216.0, np.nan, np.nan, 0.1], dtype=np.float32)
    np.testing.assert_array_equal(load[:, 3], summed)


def test_a_fraction_a_rounding_above_one_is_one() -> None:
    read = read_hello(hello())
    told = sample(sm_frac=floats(1.005, 1.0, 0.0, 0.0))
    check_sample(told, read)

    assert read_load(told, read.order)[0, 0] == 1.0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sm_frac", math.nan),
        ("sm_frac", math.inf),
        ("sm_frac", -0.01),
        ("sm_frac", 1.02),
        ("memory_activity_frac", 100.0),
        ("pcie_tx_bytes_per_s", 2e13),
        ("nvlink_rx_bytes_per_s", -1.0),
        ("power_w", 5e4),
        ("temperature_c", 9223372036854775794.0),
        ("sm_clock_hz", math.inf),
    ],
)
@pytest.mark.parametrize("position", range(4))
def test_what_cannot_be_true_is_rejected(name: str, value: float, position: int) -> None:
    values = [0.5] * 4
    values[position] = value
    told = sample()
    getattr(told, name).CopyFrom(floats(*values))

    with pytest.raises(ProbeError) as caught:
        check_sample(told, read_hello(hello()))

    assert caught.value.quantity == name


@pytest.mark.parametrize(
    ("break_it", "quantity"),
    [
        (lambda s: setattr(s, "gpu_count", 8), "gpu_count"),
        (lambda s: setattr(s, "lost_mask", 1 << 4), "lost_mask"),
        (lambda s: s.xid_events.add(gpu_index=9, code=79), "xid_events"),
        (lambda s: s.sm_frac.values.append(0.5), "sm_frac"),
        (lambda s: setattr(s.sm_frac, "present_mask", 1 << 63), "sm_frac"),
        (
            lambda s: s.memory_used_bytes.CopyFrom(
                pb.UintColumn(present_mask=1, values=[2**64 - 1])
            ),
            "memory_used_bytes",
        ),
    ],
)
def test_a_sample_that_contradicts_itself_is_rejected(
    break_it: Callable[[pb.Sample], object], quantity: str
) -> None:
    told = sample()
    break_it(told)

    with pytest.raises(ProbeError) as caught:
        check_sample(told, read_hello(hello()))
    assert caught.value.quantity == quantity


@pytest.mark.parametrize(
    ("break_it", "problem"),
    [
        (lambda h: setattr(h, "schema_version", 2), "schema_version: want 1, got 2"),
        (lambda h: setattr(h, "node", ""), "node: missing"),
        (lambda h: setattr(h, "session_id", ""), "session_id: missing"),
        (lambda h: h.ClearField("gpus"), "links: pair 0,1: want a < b < 0"),
        (lambda h: h.MergeFrom(hello(gpu_count=61)), "gpus: want at most 64, got 65"),
        (lambda h: setattr(h.gpus[1], "index", 3), "gpus: GPU at position 1 has index 3"),
        (lambda h: setattr(h.gpus[1], "uuid", h.gpus[0].uuid), "stands twice"),
        (lambda h: setattr(h.gpus[1], "pci_bus_id", ""), "pci_bus_id: missing"),
        (lambda h: h.links.pop(), "links: want every pair of 4 GPUs, 6, got 5"),
        (lambda h: setattr(h.links[1], "b", 1), "links: pair 0,1 stands twice"),
        (lambda h: setattr(h.links[0], "a", 1), "links: pair 1,1: want a < b < 4"),
        (lambda h: setattr(h.links[0], "level", 42), "has level 42"),
        (lambda h: setattr(h.links[0], "nvlink_count", 1000), "has 1000 lanes"),
        (lambda h: setattr(h.gpus[0], "model", "x" * 999), "text of 999 characters"),
        (lambda h: h.problems.extend(["p"] * 65), "more than 64"),
    ],
)
def test_a_hello_that_cannot_be_true_is_rejected(
    break_it: Callable[[pb.Hello], object], problem: str
) -> None:
    told = hello()
    break_it(told)

    with pytest.raises(ProbeError, match=problem):
        read_hello(told)


def test_lost_gpus_and_fatal_xids_are_faults_by_gres_index() -> None:
    order = read_hello(hello(minors=[2, 3, 0, 1])).order
    told = sample()
    told.lost_mask = 0b0001
    told.xid_events.add(gpu_index=3, code=79)
    told.xid_events.add(gpu_index=1, code=13)  # a program's own mistake

    assert faults(told, order) == {2: "lost", 1: "XID 79"}


def listed(mask: int, *entries: tuple[int, int, int]) -> pb.Sample:
    message = sample()
    message.process_mask = mask
    for gpu, job, used_bytes in entries:
        message.job_memory.add(gpu_index=gpu, slurm_job_id=job, used_bytes=used_bytes)
    return message


@pytest.mark.parametrize(
    ("mask", "entries"),
    [
        pytest.param(0b10000, [], id="a GPU beyond the last"),
        pytest.param(0b1, [(1, 7, 5)], id="a GPU that was not read"),
        pytest.param(0b1, [(1 << 31, 7, 5)], id="no GPU at all"),
        pytest.param(0b1, [(0, 7, 1 << 47)], id="more than any GPU has"),
        pytest.param(0b1, [(0, 7, 5), (0, 7, 6)], id="a job twice"),
        pytest.param(0b1, [(0, job, 5) for job in range(1_025)], id="too many"),
    ],
)
def test_absurd_lists_of_processes_are_refused(
    mask: int, entries: list[tuple[int, int, int]]
) -> None:
    with pytest.raises(ProbeError, match="job_memory"):
        check_sample(listed(mask, *entries), read_hello(hello()))


def test_a_list_of_processes_is_taken() -> None:
    check_sample(listed(0b1010, (1, 7, 5), (1, 8, 5), (3, 0, 9)), read_hello(hello()))
