"""job_queue: groups of one demand, tried once, recalled when a node gains capacity."""

import pytest

from roost_engine.cluster.cluster import Cluster
from roost_engine.domain.model import JobId, JobSpec
from roost_engine.placement.candidates import Candidates
from roost_engine.placement.eligibility import Hint
from roost_engine.placement.search import find_candidates
from roost_engine.policies.heuristics import PriorityOrder, ShapeByShape
from roost_engine.policies.slots import FaultLog, OrderSlot
from roost_engine.queue.job_queue import JobQueue
from roost_engine.testing.builders import job, node, shape, share, waiting
from roost_engine.testing.fakes import FixedOrder


def cluster_of_two() -> Cluster:
    """Two full nodes; none has gained capacity."""
    cluster = Cluster()
    for name in ("a", "b"):
        cluster.apply_node(node(name))
        cluster.hold(JobId(name), [share(name, *range(8))])
    cluster.take_freed_nodes()
    return cluster


def no_capacity(cluster: Cluster, spec: JobSpec, *, reserved: bool = False) -> Candidates:
    """The failure of a search; with `reserved` as if capacity on node a were reserved."""
    found = find_candidates(cluster, spec, spec.shapes[0])
    found.hints = (Hint(shape(1), 0b01, 1),) if reserved else found.hints
    return found


def one_pass(
    queue: JobQueue, cluster: Cluster, *, impatient_s: float = -1.0, reserved: bool = False
) -> list[str]:
    """Try every offer; no job has capacity. Returns the jobs that were offered."""
    offered = []
    if queue.begin_pass(cluster, ShapeByShape(), 0.0):
        for group, job_id in queue.offers(impatient_s):
            offered.append(job_id)
            group.note_failure(no_capacity(cluster, group.sample, reserved=reserved))
    queue.check_invariants()
    return [str(job_id) for job_id in offered]


def reported(queue: JobQueue) -> dict[str, tuple[tuple[str, int], ...]]:
    """The jobs reported as without capacity, and why."""
    return {
        job_id: group.last_failure.exclusions
        for job_id, group in queue.end_pass()
        if group.last_failure is not None
    }


def test_one_of_each_kind_is_offered_in_order() -> None:
    cluster, queue = cluster_of_two(), JobQueue(OrderSlot(PriorityOrder(), FaultLog()))
    for spec in (job("4", gpus=2), job("3", gpus=1), job("2", gpus=2), job("5", gpus=1)):
        queue.add(waiting(spec, 0.0), 0.0)
    assert one_pass(queue, cluster) == ["2", "3"]
    assert one_pass(queue, cluster) == []


def test_a_job_that_joins_a_group_without_capacity_is_reported_at_once() -> None:
    cluster, queue = cluster_of_two(), JobQueue(OrderSlot(PriorityOrder(), FaultLog()))
    queue.add(waiting(job("1", gpus=2), 0.0), 0.0)
    one_pass(queue, cluster)
    assert reported(queue) == {"1": (("too few free GPUs", 2),)}
    queue.add(waiting(job("2", gpus=2), 0.0), 0.0)
    assert not queue.begin_pass(cluster, ShapeByShape(), 0.0)
    assert reported(queue) == {"2": (("too few free GPUs", 2),)}
    assert reported(queue) == {}


def test_a_job_that_was_not_tried_or_left_is_not_reported() -> None:
    queue = JobQueue(OrderSlot(PriorityOrder(), FaultLog()))
    for job_id, gpus in (("1", 1), ("2", 2), ("3", 4)):
        queue.add(waiting(job(job_id, gpus=gpus), 0.0), 0.0)
    queue.remove(JobId("2"))
    queue.defer(JobId("3"))
    assert reported(queue) == {}
    assert one_pass(queue, cluster_of_two()) == ["1"]
    assert list(reported(queue)) == ["1"]


@pytest.mark.parametrize(("freed", "offered"), [(1, ["1"]), (2, ["1", "2"]), (8, ["1", "2", "3"])])
def test_only_groups_that_could_use_the_capacity_are_recalled(
    freed: int, offered: list[str]
) -> None:
    cluster, queue = cluster_of_two(), JobQueue(OrderSlot(PriorityOrder(), FaultLog()))
    for position, gpus in enumerate((1, 2, 4), start=1):
        queue.add(waiting(job(f"{position}", gpus=gpus), 0.0), 0.0)
    one_pass(queue, cluster)
    cluster.hold(JobId("b"), [share("b", *range(8 - freed))])
    assert one_pass(queue, cluster) == offered


@pytest.mark.parametrize(("gpu", "offered"), [(3, []), (5, ["1"])])
def test_a_gang_is_recalled_when_its_nodes_have_gpus_in_common(
    gpu: int, offered: list[str]
) -> None:
    cluster, queue = cluster_of_two(), JobQueue(OrderSlot(PriorityOrder(), FaultLog()))
    queue.add(waiting(job("1", gpus=1, nodes=2), 0.0), 0.0)
    one_pass(queue, cluster)
    cluster.hold(JobId("a"), [share("a", 0, 1, 2, 3, 4, 6, 7)])
    cluster.hold(JobId("b"), [share("b", *({*range(8)} - {gpu}))])
    assert one_pass(queue, cluster) == offered


def test_a_job_set_aside_is_recalled_by_any_capacity_for_a_part() -> None:
    cluster, queue = cluster_of_two(), JobQueue(OrderSlot(PriorityOrder(), FaultLog()))
    queue.add(waiting(job("1", gpus=1, nodes=2), 0.0), 0.0)
    assert queue.begin_pass(cluster, ShapeByShape(), 0.0)
    queue.defer(JobId("1"))
    cluster.hold(JobId("a"), [share("a", *range(1, 8))])
    cluster.hold(JobId("b"), [share("b", *range(7))])
    assert one_pass(queue, cluster) == ["1"]


def test_an_impatient_job_has_a_turn_without_capacity() -> None:
    cluster, queue = cluster_of_two(), JobQueue(OrderSlot(PriorityOrder(), FaultLog()))
    queue.add(waiting(job("1", gpus=2, priority=9), 50.0), 50.0)
    queue.add(waiting(job("2", gpus=2), 10.0), 10.0)
    queue.add(waiting(job("3", gpus=1, priority=5), 50.0), 50.0)
    assert one_pass(queue, cluster, impatient_s=10.0) == ["1", "3", "2"]
    queue.add(waiting(job("4", gpus=4), 60.0), 60.0)
    assert one_pass(queue, cluster, impatient_s=10.0) == ["2", "4"]


def test_a_head_that_is_impatient_has_one_turn() -> None:
    cluster, queue = cluster_of_two(), JobQueue(OrderSlot(PriorityOrder(), FaultLog()))
    queue.add(waiting(job("1", gpus=2), 0.0), 0.0)
    queue.add(waiting(job("2", gpus=2), 0.0), 0.0)
    assert one_pass(queue, cluster, impatient_s=0.0) == ["1"]


def test_kinds_that_reserved_nodes_shut_out_are_due_when_a_job_leaves() -> None:
    cluster, queue = cluster_of_two(), JobQueue(OrderSlot(PriorityOrder(), FaultLog()))
    queue.add(waiting(job("1", gpus=2), 0.0), 0.0)
    queue.add(waiting(job("2", gpus=1), 0.0), 0.0)
    one_pass(queue, cluster, reserved=True)
    assert not queue.begin_pass(cluster, ShapeByShape(), 0.0)
    assert list(reported(queue)) == ["1", "2"]
    queue.remove(JobId("1"))
    assert one_pass(queue, cluster) == ["2"]


@pytest.mark.parametrize(("next_s", "is_due"), [(0.0, False), (1.0, True)])
def test_who_leaves_in_a_pass_makes_the_next_due_only_later(next_s: float, is_due: bool) -> None:
    cluster, queue = cluster_of_two(), JobQueue(OrderSlot(PriorityOrder(), FaultLog()))
    for job_id, gpus in (("1", 2), ("2", 1), ("3", 4)):
        queue.add(waiting(job(job_id, gpus=gpus), 0.0), 0.0)
    assert one_pass(queue, cluster, reserved=True) == ["1", "2", "3"]
    queue.remove(JobId("3"))
    assert list(reported(queue)) == ["1", "2"]
    assert queue.begin_pass(cluster, ShapeByShape(), next_s) is is_due


def test_deferred_jobs_come_back_with_more_capacity_or_when_added_again() -> None:
    cluster, queue = cluster_of_two(), JobQueue(OrderSlot(PriorityOrder(), FaultLog()))
    spec = job("1", gpus=2)
    queue.add(waiting(spec, 0.0), 0.0)
    queue.add(waiting(job("2", gpus=2), 0.0), 0.0)
    queue.defer(JobId("1"))
    assert one_pass(queue, cluster) == ["2"]
    assert JobId("1") in queue
    cluster.release(JobId("b"))
    assert one_pass(queue, cluster) == ["1"]
    queue.defer(JobId("1"))
    queue.add(waiting(spec, 0.0), 0.0)
    queue.check_invariants()
    queue.defer(JobId("1"))
    queue.remove(JobId("1"))
    assert JobId("1") not in queue
    queue.remove(JobId("1"))
    queue.check_invariants()


def test_a_job_that_asks_for_something_else_changes_groups() -> None:
    cluster, queue = cluster_of_two(), JobQueue(OrderSlot(PriorityOrder(), FaultLog()))
    queue.add(waiting(job("1", gpus=2), 0.0), 0.0)
    queue.add(waiting(job("1", gpus=4), 0.0), 0.0)
    assert one_pass(queue, cluster) == ["1"]
    queue.check_invariants()


def test_an_order_without_keys_is_asked_when_a_job_came() -> None:
    cluster, order = cluster_of_two(), FixedOrder("3", "1", "2")
    queue = JobQueue(OrderSlot(order, FaultLog()))
    for job_id, gpus in (("1", 1), ("2", 2), ("3", 3)):
        queue.add(waiting(job(job_id, gpus=gpus), 0.0), 0.0)
    queue.defer(JobId("2"))
    assert one_pass(queue, cluster) == ["3", "1"]
    queue.remove(JobId("3"))
    cluster.release(JobId("a"))
    assert one_pass(queue, cluster) == ["1", "2"]
    assert order.call_count == 1
