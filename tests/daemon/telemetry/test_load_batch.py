"""The load of many nodes: the same as that of each alone, whatever probes send."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.daemon.rpc.probes import floats, hello, sample

from roost_engine.domain.errors import ProbeError
from roost_engine.domain.events import LoadsSeen
from roost_proto.v1 import telemetry_pb2 as pb
from roostd.telemetry.board import NodeReport
from roostd.telemetry.load_batch import LoadBatch
from roostd.telemetry.probe_messages import check_values, read_hello, read_load

COLUMNS = (
    "sm_frac",
    "memory_activity_frac",
    "pcie_tx_bytes_per_s",
    "pcie_rx_bytes_per_s",
    "nvlink_tx_bytes_per_s",
    "nvlink_rx_bytes_per_s",
)


def report(newest: pb.Sample, name: str = "n1", minors: Sequence[int] | None = None) -> NodeReport:
    """A node whose newest sample has not been checked, and has no sample before it."""
    said = read_hello(hello(name, newest.gpu_count, minors=minors))
    return NodeReport(said, 0.0, unchecked=newest)


def events(*reports: NodeReport) -> list[LoadsSeen]:
    batch = LoadBatch()
    for one in reports:
        batch.add(one)
    return list(batch.events(7.0))


def test_nodes_with_the_same_number_of_gpus_are_one_event() -> None:
    small = report(sample(gpu_count=2), "small")
    usual = [report(sample(), f"n{number}") for number in range(3)]
    first, second = events(usual[0], small, *usual[1:])
    assert (first.at_s, first.names, first.load.shape) == (7.0, ("n0", "n1", "n2"), (3, 4, 4))
    assert (second.at_s, second.names, second.load.shape) == (7.0, ("small",), (1, 2, 4))


def test_without_a_sample_there_is_no_event() -> None:
    assert events(NodeReport(read_hello(hello()), 0.0)) == []


def test_the_load_is_in_gres_order_and_both_directions_together() -> None:
    busy = sample(
        sm_frac=floats(0.1, 0.2, 0.3, 1.005),
        pcie_tx_bytes_per_s=floats(1e9, 2e9, 3e9, 4e9),
        pcie_rx_bytes_per_s=floats(1e9, 1e9, 1e9, 1e9),
        nvlink_rx_bytes_per_s=floats(5.0, 6.0, 7.0, 8.0),
    )
    (event,) = events(report(busy, minors=[2, 3, 0, 1]), report(sample(), "n2"))
    assert event.load[0, :, 0].tolist() == pytest.approx([0.3, 1.0, 0.1, 0.2])  # at most 1
    assert np.isnan(event.load[0, :, 1]).all()
    assert event.load[0, :, 2].tolist() == pytest.approx([4e9, 5e9, 2e9, 3e9])
    assert event.load[0, :, 3].tolist() == [7.0, 8.0, 5.0, 6.0]


def test_an_implausible_sample_gives_way_to_the_last_plausible_one() -> None:
    wrong, sound = (
        report(sample(2, sm_frac=floats(0.1, math.nan, 0.1, 0.1))),
        report(sample(), "n2"),
    )
    wrong.checked = sample(1, sm_frac=floats(0.2, 0.2, 0.2, 0.2))
    (event,) = events(wrong, sound)
    assert event.names == ("n1", "n2")
    assert event.load[:, :, 0].tolist() == pytest.approx(np.array([[0.2] * 4, [0.5] * 4]))
    assert (wrong.is_suspect, sound.is_suspect) == (True, False)


@pytest.mark.parametrize(("sent", "received"), [(3e38, 3e38), (math.inf, -math.inf)])
def test_rates_beyond_all_numbers_leave_the_other_nodes_as_they_are(
    sent: float, received: float
) -> None:
    wrong = report(
        sample(pcie_tx_bytes_per_s=floats(*[sent] * 4), pcie_rx_bytes_per_s=floats(*[received] * 4))
    )
    (event,) = events(wrong, report(sample(), "n2"))  # a warning of numpy would be an error
    assert event.names == ("n2",)


def test_a_node_whose_only_sample_is_implausible_is_left_out() -> None:
    wrong = report(sample(sm_frac=floats(2.0, 0.1, 0.1, 0.1)))
    (event,) = events(wrong, report(sample(), "n2"))
    assert event.names == ("n2",)
    assert event.load[:, :, 0].tolist() == [[0.5] * 4]
    assert events(report(sample(sm_frac=floats(2.0, 0.1, 0.1, 0.1)))) == []


def test_what_no_policy_reads_is_not_checked_for_it() -> None:
    hot = report(sample(temperature_c=floats(0.0, 0.0, 9_999.0, 0.0)))
    (event,) = events(hot)
    assert event.names == ("n1",)
    assert not hot.is_suspect


levels = st.sampled_from([0.0, 0.3, 1.0, 1.01, 1e9])
oddities = st.sampled_from([None, math.nan, math.inf, -math.inf, -1.0, 1e14, 3e38])
columns = st.one_of(
    st.none(),
    st.lists(levels, min_size=4, max_size=4),
    st.lists(levels | oddities, min_size=4, max_size=4),
    st.lists(levels, min_size=1, max_size=5),
)


@st.composite
def samples(draw: st.DrawFn) -> pb.Sample:
    """Any columns: full, partial, absent, too long, beyond their limits."""
    message = pb.Sample(sequence=2, gpu_count=4)
    for name in COLUMNS:
        values = draw(columns)
        if values is not None:
            getattr(message, name).CopyFrom(floats(*values))
            if draw(st.booleans()) and draw(st.booleans()):
                getattr(message, name).present_mask = draw(st.integers(0, 31))
    return message


@given(st.lists(st.tuples(samples(), st.permutations(range(4)), st.booleans()), max_size=6))
def test_the_load_of_many_is_that_of_each_alone(
    nodes: list[tuple[pb.Sample, list[int], bool]],
) -> None:
    before = sample(1)
    reports, wanted = [], {}
    for number, (newest, minors, has_earlier) in enumerate(nodes):
        one = report(newest, f"n{number}", minors)
        one.checked = before if has_earlier else None
        reports.append(one)
        try:
            check_values(newest, one.hello)
            plausible: pb.Sample | None = newest
        except ProbeError:
            plausible = one.checked
        if plausible is not None:
            wanted[one.hello.node] = read_load(plausible, one.hello.order)
    got = {
        name: load
        for event in events(*reports)
        for name, load in zip(event.names, event.load, strict=True)
    }
    assert list(got) == list(wanted)
    for name, load in wanted.items():
        assert got[name].tobytes() == np.ascontiguousarray(load).tobytes()
