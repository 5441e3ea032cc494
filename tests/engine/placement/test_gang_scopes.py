"""gang_scopes: both kinds of scope answer the same, and as a plain sort of the nodes does."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.link_table import subsets
from roost_engine.cluster.node_sets import NO_NODES, node_set, nodes_in
from roost_engine.domain.model import JobId, NodeName
from roost_engine.domain.topology import LinkMatrix
from roost_engine.placement.gang_scopes import FewNodes, ManyNodes, Scope, scope_of
from roost_engine.testing.builders import bridges, node, nvswitch, share, topology

KINDS: tuple[LinkMatrix, ...] = (bridges(4), bridges(8), nvswitch(8), bridges(10, 2))
BOTH = pytest.mark.parametrize("make", [FewNodes, ManyNodes])


@dataclass(frozen=True)
class SomeNode:
    """A node of a random cluster.

    Attributes:
        taken: mask of the GPUs that a job holds; bits past the last GPU count for nothing.
        load_frac: how busy each of its GPUs is; None: no probe has reported it.
    """

    links: LinkMatrix
    rack: str
    taken: int
    load_frac: float | None


some_nodes = st.builds(
    SomeNode,
    links=st.sampled_from(KINDS),
    rack=st.sampled_from("rst"),
    taken=st.one_of(st.sampled_from([0, 0b11, 0b1111]), st.integers(0, 0x3FF)),
    load_frac=st.sampled_from([None, 0.0, 0.25, 0.5, 1.0]),
)


def cluster_of(*nodes: SomeNode) -> Cluster:
    cluster = Cluster()
    for number, some in enumerate(nodes):
        name, gpu_count = f"n{number}", some.links.gpu_count
        cluster.apply_node(node(name, gpu_count, rack=some.rack))
        cluster.apply_topology(NodeName(name), some.links, topology(name, some.links).gpu_uuids)
        taken = (gpu for gpu in range(gpu_count) if some.taken >> gpu & 1)
        cluster.hold(JobId(f"on-{name}"), [share(name, *taken)])
        if some.load_frac is not None:
            load = np.full((gpu_count, 4), [some.load_frac, some.load_frac, 0.0, 0.0])
            cluster.apply_loads((NodeName(name),), load.astype(np.float32)[None])
    return cluster


def by_sorting(
    cluster: Cluster, nodes: list[int], racks: list[int], mask: int, count: int
) -> list[int]:
    """The best nodes for an index set, by the order that Scope.best documents."""

    def place(index: int) -> tuple[int, int, int, float, int]:
        return (
            -int(cluster.table(index).set_scores[mask]),
            racks.index(cluster.rack_of[index]),
            int(cluster.free_mask[index]).bit_count(),
            float(cluster.loads.mean[index]),
            index,
        )

    fits = [index for index in nodes if int(cluster.free_mask[index]) & mask == mask]
    return sorted(sorted(fits, key=place)[:count])


@given(st.lists(some_nodes, min_size=1, max_size=12), st.data())
def test_both_scopes_answer_the_same_and_as_sorting_does(
    listed: list[SomeNode], data: st.DataObject
) -> None:
    cluster = cluster_of(*listed)
    every = range(len(cluster))
    chosen = data.draw(st.lists(st.sampled_from(every), min_size=1, unique=True).map(sorted))
    racks = data.draw(st.permutations(range(len(cluster.rack_nodes))))
    few, many = (make(cluster, node_set(chosen), racks) for make in (FewNodes, ManyNodes))

    free = [int(cluster.free_mask[index]) for index in chosen]
    kinds = [int(cluster.kind[index]) for index in chosen]
    expected_kinds = {kind: kinds.count(kind) for kind in kinds}
    assert dict(few.count_by_kind) == dict(many.count_by_kind) == expected_kinds
    for mask in {0xFF, *free}:
        assert few.count_with(mask) == many.count_with(mask) == free.count(mask)
    alike = [(kinds[at], free[at]) for at in range(len(chosen))]
    largest = max(map(alike.count, alike))
    for count in range(1, len(chosen) + 2):
        assert few.has_alike(count) == many.has_alike(count) == (count <= largest)

    size = data.draw(st.integers(1, 4))
    masks = np.array(subsets(0x3FF, size))
    for kind in (None, *expected_kinds):
        ours, theirs = few.counts(size, kind), many.counts(size, kind)
        of_kind = [free[at] for at in range(len(chosen)) if kind in (None, kinds[at])]
        on_nodes = [sum(mask & ~here == 0 for here in of_kind) for mask in masks.tolist()]
        assert ours.of(masks).tolist() == theirs.of(masks).tolist() == on_nodes
        for wanted in (1, 2, 3):
            enough = [
                mask for mask, on in zip(masks.tolist(), on_nodes, strict=True) if on >= wanted
            ]
            assert ours.reaching(wanted).tolist() == theirs.reaching(wanted).tolist()
            assert sorted(ours.reaching(wanted).tolist()) == sorted(enough)

    for mask in masks[:: max(1, len(masks) // 20)].tolist():
        for count in (1, 2, 5, 20):
            expected = by_sorting(cluster, chosen, list(racks), mask, count)
            assert nodes_in(few.best(mask, count)) == expected
            assert nodes_in(many.best(mask, count)) == expected


def ranked(scope: Scope, mask: int, most: int) -> list[int]:
    """The nodes in the order in which they join the best 1, 2, 3, ..."""
    order, before = list[int](), NO_NODES
    for count in range(1, most + 1):
        now = scope.best(mask, count)
        order += nodes_in(now & ~before)
        before = now
    return order


@BOTH
def test_the_order_of_nodes_for_one_index_set(make: type[FewNodes] | type[ManyNodes]) -> None:
    cluster = cluster_of(
        SomeNode(bridges(8), "r", 0, None),  # 0: 8 GPUs free
        SomeNode(bridges(8), "r", 0b11000000, 0.5),  # 1: 6 GPUs free, busy
        SomeNode(bridges(8), "r", 0b11000000, None),  # 2: 6 GPUs free
        SomeNode(bridges(8), "r", 0b00110000, None),  # 3: as node 2, other GPUs
        SomeNode(bridges(8), "s", 0b11111100, None),  # 4: GPUs 0 and 1 only, in the later rack
        SomeNode(nvswitch(8), "s", 0, 1.0),  # 5: the best links
        SomeNode(nvswitch(8), "s", 0b1, None),  # 6: GPU 0 is taken
    )
    scope = make(cluster, 0b1111111, (0, 1))
    assert ranked(scope, 0b11, 9) == [5, 2, 3, 1, 0, 4]
    other_rack_first = make(cluster, 0b1111111, (1, 0))
    assert ranked(other_rack_first, 0b11, 9) == [5, 4, 2, 3, 1, 0]


@BOTH
def test_loads_within_a_thousandth_count_as_the_same(
    make: type[FewNodes] | type[ManyNodes],
) -> None:
    cluster = cluster_of(
        SomeNode(bridges(8), "r", 0, 0.5004),
        SomeNode(bridges(8), "r", 0, 0.5),
        SomeNode(bridges(8), "r", 0, 0.4),
    )
    assert ranked(make(cluster, 0b111, (0,)), 0b11, 3) == [2, 0, 1]


def test_a_scope_of_more_than_64_nodes_uses_arrays() -> None:
    cluster = cluster_of(*[SomeNode(bridges(4), "r", 0, None)] * 65)
    nodes = node_set(range(65))
    assert isinstance(scope_of(cluster, nodes, (0,)), ManyNodes)
    assert isinstance(scope_of(cluster, nodes ^ 1, (0,)), FewNodes)


@BOTH
def test_wide_nodes_are_counted(make: type[FewNodes] | type[ManyNodes]) -> None:
    """Free masks above 0xFF are counted by another kind of IndexSetCounts."""
    cluster = cluster_of(
        SomeNode(bridges(16), "r", 0, None),
        SomeNode(bridges(16), "r", 0x00FF, None),
        SomeNode(bridges(8), "r", 0, None),
    )
    counts = make(cluster, 0b111, (0,)).counts(8)
    assert counts.of(np.array([0x00FF, 0xFF00, 0x0FF0])).tolist() == [2, 2, 1]
    assert sorted(counts.reaching(2).tolist()) == [0x00FF, 0xFF00]
