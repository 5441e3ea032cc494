"""Nodes of partitions that Slurm does not show, though it would wake them for a job."""

from dataclasses import replace

from roost_slurm.text.partitions import Partition
from roost_slurm.text.scheduling import Scheduling
from roost_slurm.text.scontrol import ShownNode
from roostd.slurm.rules.hidden_nodes import HiddenNodes
from roostd.slurm.rules.site_rules import SiteRules

RULES = SiteRules(
    scheduling=Scheduling(hides_nodes=True),
    partitions={
        "main": Partition(name="main", nodes="n[1-3]"),
        "cpu": Partition(name="cpu", nodes="n1,c1"),
    },
)


def shown(name: str, gpu_count: int = 8) -> ShownNode:
    return ShownNode(
        name=name,
        state="idle",
        reason="",
        is_open=True,
        is_asleep=False,
        is_future=False,
        partitions=("main",),
        features=(),
        cpu_count=16,
        cpu_allocated_count=0,
        memory_bytes=1 << 30,
        memory_allocated_bytes=0,
        gpu_count=gpu_count,
    )


def test_nodes_of_a_partition_that_are_not_shown_are_hidden() -> None:
    hidden = HiddenNodes()
    assert hidden.added_to(RULES).hidden == {}  # no node is known yet
    hidden.note([shown("n1"), shown("n2"), shown("c1", 0)])
    assert hidden.added_to(RULES).hidden == {"main": {"n3"}}
    hidden.note([shown("n1"), shown("n2"), shown("n3")])
    assert hidden.added_to(RULES).hidden == {}  # c1 had no GPUs when it was shown
    hidden.note([shown("n2")])
    assert hidden.added_to(RULES).hidden == {"main": {"n1", "n3"}, "cpu": {"n1"}}


def test_all_nodes_may_be_hidden() -> None:
    """Slurm says then that the system has none."""
    hidden = HiddenNodes()
    hidden.note([])
    assert hidden.added_to(RULES).hidden == {"main": {"n1", "n2", "n3"}, "cpu": {"n1", "c1"}}


def test_where_slurm_shows_cloud_nodes_none_is_hidden() -> None:
    hidden = HiddenNodes()
    hidden.note([shown("n1")])
    assert hidden.added_to(replace(RULES, scheduling=Scheduling())).hidden == {}


def test_rules_stay_the_same_object_while_nothing_changes() -> None:
    hidden = HiddenNodes()
    hidden.note([shown("n1")])
    first = hidden.added_to(RULES)
    hidden.note([shown("n1")])
    assert hidden.added_to(RULES) is first
    assert hidden.added_to(replace(RULES)).hidden is first.hidden


def test_a_host_list_that_cannot_be_read_hides_nothing() -> None:
    hidden, partition = HiddenNodes(), Partition(name="main", nodes="n[1-")
    hidden.note([shown("n1")])
    assert hidden.added_to(replace(RULES, partitions={"main": partition})).hidden == {}
