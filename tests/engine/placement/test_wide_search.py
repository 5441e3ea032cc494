from dataclasses import replace

import numpy as np
from tests.engine.scoring.graph_cluster import cluster_of

from roost_engine.cluster.node_sets import nodes_in
from roost_engine.domain.model import JobId, NodeName
from roost_engine.placement.options import NodeOption
from roost_engine.placement.search import first_candidates
from roost_engine.placement.wide_search import (
    GROUP_NODE_COUNT,
    KIND_GROUP_COUNT,
    SUBSET_COUNT,
    WideSearch,
    various_nodes,
)
from roost_engine.testing.builders import job, node, share

EVERY = (1 << 24) - 1


def test_every_kind_of_node_is_offered() -> None:
    cluster = cluster_of([[0] * 12, [2] * 12])
    found = WideSearch().propose(cluster, job("1", gpus=2), 0, 0.0)
    usual = first_candidates(cluster, job("1", gpus=2))
    kinds = {option.kind for option in found.options if isinstance(option, NodeOption)}
    assert len(kinds) == 2
    assert len({o.kind for o in usual.options if isinstance(o, NodeOption)}) == 1


def test_the_nodes_of_a_group_are_spread_over_it() -> None:
    cluster = cluster_of([[0] * 8, [0] * 8])
    (option,) = various_nodes(cluster, 2, (1 << 16) - 1)
    assert nodes_in(option.nodes) == [0, 4, 8, 12]
    assert len(option.choice.masks) == SUBSET_COUNT


def test_few_nodes_are_offered_all() -> None:
    cluster = cluster_of([[0, 0, 0]])
    (option,) = various_nodes(cluster, 8, 0b111)
    assert nodes_in(option.nodes) == [0, 1, 2]


def test_the_best_groups_of_a_kind_are_enough() -> None:
    cluster = cluster_of([[2] * 8, [2] * 8])
    for number in range(8):
        cluster.hold(JobId(f"{number}"), [share(f"n0-{number}", *range(number))])
    options = various_nodes(cluster, 1, (1 << 16) - 1)
    assert len(options) == KIND_GROUP_COUNT
    assert (
        sum(option.nodes.bit_count() for option in options) <= KIND_GROUP_COUNT * GROUP_NODE_COUNT
    )


def test_load_tells_nodes_apart() -> None:
    cluster = cluster_of([[2, 2]])
    cluster.apply_loads((NodeName("n0-1"),), np.full((8, 4), 0.5, dtype=np.float32)[None])
    options = various_nodes(cluster, 2, 0b11)
    assert [option.load is None for option in options] == [True, False]


def test_gangs_and_fixed_indices_are_searched_as_usual() -> None:
    cluster = cluster_of([[0, 0], [2, 2]])
    for spec in (job("1", gpus=4, nodes=2), replace(job("2", gpus=2), fixed_indices=(0, 1))):
        wide = WideSearch().propose(cluster, spec, 0, 0.0)
        assert len(wide) == len(first_candidates(cluster, spec))


def test_sleeping_nodes_are_left_asleep_where_others_are_as_good() -> None:
    cluster = cluster_of([[0, 0]])
    cluster.apply_node(node("n0-0", 8, cpu_count=64, rack="p0/r0", asleep=True))
    found = WideSearch().propose(cluster, job("1", gpus=2), 0, 0.0)
    (option,) = found.options
    assert isinstance(option, NodeOption)
    assert nodes_in(option.nodes) == [1]


def test_without_capacity_it_says_why_and_when_to_ask_again() -> None:
    cluster = cluster_of([[0]])
    cluster.hold(JobId("1"), [share("n0-0", *range(8))])
    search, spec = WideSearch(), job("2", gpus=2)
    assert not search.propose(cluster, spec, 0, 0.0)
    cluster.release(JobId("1"))
    assert search.hints(cluster, spec, 1)
