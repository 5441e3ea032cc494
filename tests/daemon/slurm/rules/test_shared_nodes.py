"""Jobs that Slurm may start on CPUs that Roost counts as taken, and nodes of one user."""

from typing import Any

import pytest
from tests.daemon.slurm.test_queue import detail

from roost_engine.testing.builders import node
from roost_slurm.text.partitions import Partition
from roost_slurm.text.scheduling import Scheduling
from roost_slurm.text.squeue import QueuedJob, SlurmJobState
from roostd.slurm.rules import shared_nodes
from roostd.slurm.rules.shared_nodes import NO_USER, cpu_sharing, users_of_nodes


def partitions(**given: dict[str, Any]) -> dict[str, Partition]:
    return {name: Partition(name=name, **fields) for name, fields in given.items()}


def why_left(
    partition: Partition | None, job: QueuedJob, node_count: int = 1, *, has_topologies: bool = True
) -> str | None:
    return shared_nodes.why_left(partition, job, node_count, has_topologies=has_topologies)


@pytest.mark.parametrize(
    ("over_subscribe", "asked", "left"),
    [
        ("YES:4", "YES", True),
        ("YES:4", "OK", False),
        ("YES:1", "YES", False),
        ("NO", "YES", False),  # Slurm ignores --oversubscribe there
        ("FORCE:4", "YES", False),  # squeue shows it of every job there
    ],
)
def test_a_job_that_may_share_its_cpus_is_left_to_slurm(
    over_subscribe: str, asked: str, left: bool
) -> None:
    partition = Partition(name="main", over_subscribe=over_subscribe)
    job = QueuedJob(number=1, partition="main", over_subscribe=asked)
    assert (why_left(partition, job) is not None) is left


def test_a_partition_of_one_user_at_a_time_is_left_to_slurm() -> None:
    job = QueuedJob(number=1, partition="main")
    assert why_left(None, job) is None
    assert why_left(Partition(name="main"), job) is None
    for word, left in (("USER", "a node to one user"), ("TOPO", "a switch or block to one job")):
        assert left in (why_left(Partition(name="main", exclusive_to=word), job) or "")


def test_several_nodes_of_one_of_several_topologies_are_left_to_slurm() -> None:
    job = QueuedJob(number=1, partition="blocks")
    blocks, default = Partition(name="blocks", topology="b"), Partition(name="main")
    assert "Topology=" in (why_left(blocks, job, 2) or "")
    assert why_left(blocks, job, 1) is None
    assert why_left(default, job, 2) is None
    assert why_left(blocks, job, 2, has_topologies=False) is None


def test_cpus_are_shared_where_slurm_is_forced_to_or_suspends_lower_jobs() -> None:
    plain = Scheduling()
    by_tier = Scheduling(
        preempt_type="preempt/partition_prio", preempt_modes=frozenset({"SUSPEND", "GANG"})
    )
    forced = partitions(
        one={"over_subscribe": "FORCE:1"}, four={"over_subscribe": "FORCE:4"}, plain={}
    )
    assert cpu_sharing(forced, plain) == {"four"}
    tiers = partitions(low={}, high={"tier": 10})
    assert cpu_sharing(tiers, plain) == frozenset()
    assert cpu_sharing(tiers, by_tier) == {"high"}
    spared = partitions(low={"preempt_modes": frozenset({"OFF"})}, high={"tier": 10})
    assert cpu_sharing(spared, by_tier) == frozenset()
    requeued = partitions(low={"preempt_modes": frozenset({"REQUEUE"})}, high={"tier": 10})
    assert cpu_sharing(requeued, by_tier) == frozenset()


def test_running_jobs_that_are_exclusive_to_a_user_keep_their_nodes() -> None:
    running: Any = {"state": SlurmJobState.RUNNING, "user_id": 7}
    jobs = (
        QueuedJob(number=1, nodes="n[1-2]", over_subscribe="USER", **running),
        QueuedJob(number=2, nodes="n3", over_subscribe="NO", **running),  # 26.05
        QueuedJob(number=3, nodes="n4", over_subscribe="NO", **running),
        QueuedJob(number=4, over_subscribe="USER", user_id=7),
        QueuedJob(number=5, nodes="n[", over_subscribe="USER", **running),
    )
    details = {2: detail(2, exclusive_to="USER"), 3: detail(3, exclusive_to="NODE")}
    assert users_of_nodes(jobs, details, {}, {}) == {"n1": 7, "n2": 7, "n3": 7}


def test_a_job_that_is_exclusive_to_its_switch_closes_all_nodes_there() -> None:
    specs = [node("n1", rack="sw1"), node("n2", rack="sw1"), node("n3", rack="sw2"), node("n4")]
    nodes = {one.name: one for one in specs}
    running: Any = {"state": SlurmJobState.RUNNING, "user_id": 7, "nodes": "n1"}
    for said, shown in (("TOPO", ""), ("NO", "TOPO")):  # 24.11, 26.05
        job = QueuedJob(number=1, over_subscribe=said, **running)
        found = users_of_nodes((job,), {1: detail(1, exclusive_to=shown)}, nodes, {})
        assert found == {"n1": NO_USER, "n2": NO_USER}
    alone = QueuedJob(number=1, over_subscribe="TOPO", **(running | {"nodes": "n[4-5]"}))
    assert users_of_nodes((alone,), {}, nodes, {}) == {"n4": NO_USER, "n5": NO_USER}


def test_a_job_of_an_exclusive_partition_is_as_one_that_asked_for_it() -> None:
    nodes = {one.name: one for one in (node("n1", rack="b1"), node("n2", rack="b1"))}
    given = partitions(main={}, blocks={"exclusive_to": "TOPO"}, users={"exclusive_to": "USER"})
    jobs = [
        QueuedJob(number=1, partition=name, nodes="n1", state=SlurmJobState.RUNNING, user_id=7)
        for name in (*given, "gone")
    ]
    found = [users_of_nodes((job,), {}, nodes, given) for job in jobs]
    assert found == [{}, {"n1": NO_USER, "n2": NO_USER}, {"n1": 7}, {}]
