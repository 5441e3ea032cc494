"""The nodes of the last poll: what has changed, and what the readings of the queue need of them."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from roost_engine.domain.events import NodeLost, NodeSeen
from roost_engine.domain.model import NodeName
from roost_engine.testing.builders import node
from roostd.app.polls.seen_nodes import SeenNodes
from roostd.slurm.port import QueueSnapshot, SlurmNode
from roostd.slurm.rules.site_rules import SiteRules


def shown(name: str, state: str = "idle", usable: bool = True) -> SlurmNode:
    spec = node(name, usable=usable)
    return SlurmNode(
        spec=spec, state=state, reason="", cpu_allocated_count=0, memory_allocated_bytes=0
    )


def test_only_changes_are_events() -> None:
    seen = SeenNodes()
    assert [type(event) for event in seen.apply((shown("a"), shown("b")), 1.0)] == [NodeSeen] * 2
    assert not seen.apply((shown("a"), shown("b")), 2.0)
    assert [type(event) for event in seen.apply((shown("a"),), 3.0)] == [NodeLost]


def test_what_has_not_changed_stays_the_same_object() -> None:
    """Rules that are the same object are not evaluated again."""
    seen, rules = SeenNodes(), SiteRules()
    seen.apply((shown("a"),), 1.0)
    before = seen.added_to(rules)
    seen.apply((shown("a", "allocated"),), 2.0)
    assert seen.added_to(rules) is before
    assert seen.states == {"a": "allocated"}
    seen.apply((shown("a"), shown("b")), 3.0)
    assert set(seen.added_to(rules).nodes) == {"a", "b"}


def test_partitions_without_a_node_are_known_once_there_are_nodes() -> None:
    seen = SeenNodes()
    (partition,) = node("a").partitions
    with capture_logs() as logs:
        assert seen.warn_of_absent({"mian"}) == frozenset()
        assert logs == []
        seen.apply((shown("a"),), 1.0)
        for _ in range(2):
            assert seen.warn_of_absent({"mian", partition}) == {"mian"}
    assert [log["partitions"] for log in logs] == [["mian"]]


def test_nodes_are_registering_until_half_of_them_have_and_a_minute_at_most() -> None:
    seen = SeenNodes()
    assert not seen.are_registering
    awaited = [replace(shown(name, "unknown"), is_registering=True) for name in "ab"]
    found = []
    for at_s, nodes in (
        (1.0, awaited),
        (2.0, [shown("a"), awaited[1]]),
        (100.0, awaited),
        (159.0, awaited),
        (160.0, awaited),
    ):
        seen.apply(tuple(nodes), at_s)
        found.append(seen.are_registering)
    assert found == [True, False, True, True, False]


def test_nodes_without_types_by_index_are_told_with_their_partitions() -> None:
    seen, enforced = SeenNodes(), set[str]()
    stock = replace(shown("b"), is_typed=False)
    seen.apply((shown("a"), stock), 1.0)
    with capture_logs() as logs:
        assert seen.untyped(enforced.__contains__) == {"b": stock.spec.partitions}
        assert logs == []
        enforced.update(stock.spec.partitions)
        for _ in range(2):
            assert seen.untyped(enforced.__contains__) == {"b": stock.spec.partitions}
    assert [(one["event"], one["nodes"]) for one in logs] == [
        ("nodes_without_types_by_index", ["b"])
    ]


@pytest.mark.parametrize(
    ("state", "usable", "is_changing"),
    [
        ("idle+powering_up", False, True),
        ("idle+not_responding", False, True),
        ("down+not_responding", False, False),
        ("idle+drain", False, False),
        ("idle", True, False),
    ],
)
def test_a_node_that_boots_is_expected_soon(state: str, usable: bool, is_changing: bool) -> None:
    seen = SeenNodes()
    seen.apply((shown("a", state, usable),), 1.0)
    assert seen.are_changing is is_changing


def test_gpus_that_slurm_strands_are_told_at_the_second_reading_and_logged_once() -> None:
    seen, stranded = SeenNodes(), replace(shown("a"), used_gpus=(0, 1, 3))
    with capture_logs() as logs:
        assert _read(seen, stranded) == {}
        assert _read(seen, stranded) == {"a": 3}
        assert _read(seen, stranded) == {"a": 3}
        assert _read(seen, shown("a")) == {}
        assert _read(seen, stranded) == {}
    assert [(one["event"], one["nodes"]) for one in logs] == [("gpus_stranded_in_slurm", ["a"])]
    assert "scontrol reconfigure" in logs[0]["cure"]


def _read(seen: SeenNodes, one: SlurmNode) -> Mapping[NodeName, int]:
    seen.apply((one,), 1.0)
    return seen.stranded(QueueSnapshot(at_epoch_s=1.0, jobs=(), details={}))
