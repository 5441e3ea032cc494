"""loads: what is known of how busy GPUs are, node by node."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from roost_engine.cluster.loads import NodeLoads
from roost_engine.cluster.node_sets import NO_NODES
from roost_engine.domain.model import JobId, NodeName, NodeShare

UNKNOWN = np.nan


def loads_of(node_count: int) -> NodeLoads:
    loads = NodeLoads()
    for _ in range(node_count):
        loads.add_node()
    return loads


def load(*gpus: tuple[float, float, float, float]) -> NDArray[np.float32]:
    """SM fraction, memory fraction, PCIe and NVLink bytes per second of each GPU."""
    return np.array(gpus, dtype=np.float32)


def test_nodes_without_a_report_count_as_idle_and_unknown() -> None:
    loads = loads_of(2)
    assert loads.reported == NO_NODES
    assert not loads.mean[:2].any()
    assert not loads.known_frac[:2].any()


def test_a_report_is_stored_as_fractions_and_as_their_mean() -> None:
    loads = loads_of(2)
    loads.apply([1], load((0.5, 0.25, 63e9, 450e9), (0.5, 0.25, 0.0, 0.0))[None])
    np.testing.assert_allclose(loads.by_gpu[1, :2], [[0.5, 0.25, 0.5, 0.5], [0.5, 0.25, 0, 0]])
    assert not loads.by_gpu[1, 2:].any()
    assert loads.mean[1] == pytest.approx((1.75 + 0.75) / 8)  # 2 GPUs, 4 quantities each
    assert loads.known_frac[1] == 1.0
    assert loads.reported == 0b10
    assert loads.mean[0] == 0.0


def test_a_gpu_is_known_if_one_of_its_quantities_is() -> None:
    loads = loads_of(1)
    nothing = (UNKNOWN,) * 4
    loads.apply([0], load((UNKNOWN, 0.4, UNKNOWN, UNKNOWN), nothing, nothing, nothing)[None])
    assert loads.known_frac[0] == 0.25
    assert loads.mean[0] == pytest.approx(0.4 / 16)


def test_a_report_in_which_nothing_is_known_is_a_report() -> None:
    loads = loads_of(1)
    loads.apply([0], load((UNKNOWN,) * 4)[None])
    assert (loads.known_frac[0], loads.mean[0], loads.reported) == (0.0, 0.0, 0b1)


def test_the_newest_report_replaces_the_one_before() -> None:
    loads = loads_of(1)
    loads.apply([0], load((1.0, 1.0, 0.0, 0.0))[None])
    loads.apply([0], load((0.5, UNKNOWN, 0.0, 0.0))[None])
    assert loads.by_gpu[0, 0].tolist() == [0.5, 0.0, 0.0, 0.0]
    assert loads.mean[0] == 0.125


def test_forgetting_the_load_of_a_node_leaves_that_of_others() -> None:
    loads = loads_of(2)
    for node in range(2):
        loads.apply([node], load((1.0, 1.0, 0.0, 0.0))[None])
    loads.forget(0)
    assert not loads.by_gpu[0].any()
    assert loads.mean[:2].tolist() == [0.0, 0.5]
    assert loads.known_frac[:2].tolist() == [0.0, 1.0]
    assert loads.reported == 0b10


def test_loads_survive_the_growth_of_the_arrays() -> None:
    loads = loads_of(64)
    loads.apply([63], load((1.0, 1.0, 0.0, 0.0))[None])
    for _ in range(64):
        loads.add_node()
    loads.apply([127], load((0.5, 0.5, 0.0, 0.0))[None])
    assert loads.mean[[63, 64, 127]].tolist() == [0.5, 0.0, 0.25]
    assert loads.by_gpu[63, 0].tolist() == [1.0, 1.0, 0.0, 0.0]
    assert loads.reported == 1 << 63 | 1 << 127


def test_a_version_changes_only_with_the_load() -> None:
    loads = loads_of(2)
    loads.apply(
        [1], load((0.0, UNKNOWN, 0.0, 0.0))[None]
    )  # reported idle is not the same as not reported
    loads.apply([1], load((0.0, UNKNOWN, 0.0, 0.0))[None])
    assert loads.version == [0, 1]
    loads.apply([1], load((0.0, 0.0, 0.0, 0.0))[None])  # nor is an idle quantity an unknown one
    assert loads.version == [0, 2]
    assert loads.known[1, 0].all()
    loads.apply([1], load((0.5, 0.0, 0.0, 0.0))[None])
    loads.forget(1)
    assert loads.version == [0, 4]
    assert not loads.known[1].any()


def test_the_load_of_a_job_is_of_the_shares_it_held() -> None:
    loads, job_id = loads_of(2), JobId("1")
    here, there = (NodeShare(NodeName("a"), (0,)),), (NodeShare(NodeName("a"), (1,)),)
    loads.apply_job(job_id, here, [1], {"power": 0.5}, [job_id])
    assert loads.version == [0, 1]
    assert loads.job_load(job_id, here) == {"power": 0.5}
    assert loads.job_load(job_id, there) == {}
    assert loads.job_load(JobId("2"), here) == {}


def test_jobs_that_hold_nothing_any_more_are_forgotten() -> None:
    loads, held = loads_of(1), [JobId("90"), JobId("99")]
    for number in range(100):
        shares = (NodeShare(NodeName("a"), (0,)),)
        loads.apply_job(JobId(str(number)), shares, [0], {"power": 0.5}, held)
    assert list(loads.of_job) == held


values = st.sampled_from([0.0, 0.1, 0.7, 1.0, -1.0, 1e9, 4e11, math.nan, math.inf])


@given(
    st.integers(1, 16).flatmap(
        lambda gpu_count: st.lists(
            st.lists(
                st.lists(values, min_size=4, max_size=4), min_size=gpu_count, max_size=gpu_count
            ),
            min_size=1,
            max_size=6,
        )
    ),
    st.permutations(range(6)),
)
def test_several_nodes_at_once_are_the_same_as_one_after_the_other(
    reported: list[list[list[float]]], order: list[int]
) -> None:
    """Bit by bit: decisions of a journal are made again from either."""
    many, nodes = np.array(reported, dtype=np.float32), order[: len(reported)]
    together, alone = loads_of(6), loads_of(6)
    for _ in range(2):  # the second time nothing has changed
        together.apply(nodes, many)
        for node, one in zip(nodes, many, strict=True):
            alone.apply([node], one[None])
        for name in ("by_gpu", "mean", "known_frac"):
            assert getattr(together, name).tobytes() == getattr(alone, name).tobytes()
        for name in ("reported", "changed", "version", "report_count"):
            assert getattr(together, name) == getattr(alone, name)
