"""group: when a try could find capacity, and which of its jobs has waited longest."""

from dataclasses import replace
from heapq import heappush

import pytest

from roost_engine.cluster.cluster import Cluster
from roost_engine.domain.model import JobId, JobSpec
from roost_engine.placement.candidates import Candidates
from roost_engine.placement.eligibility import Hint
from roost_engine.placement.search import find_candidates
from roost_engine.queue.group import Group, demand_of
from roost_engine.testing.builders import job, node, shape, share


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


def group_of(*since_s: float) -> Group:
    """Jobs 1, 2, ... in the order of their numbers."""
    group = Group(1, demand_of(job("1")), job("1"))
    for number, waits_since_s in enumerate(since_s, start=1):
        job_id = JobId(str(number))
        group.job_ids.append(((float(number),), job_id))
        group.since_s[job_id] = waits_since_s
        heappush(group.ages, (waits_since_s, job_id))
    group.check_invariants()
    return group


def test_a_kind_shut_out_by_kept_nodes_is_blocked_until_enough_of_them_are_not_kept() -> None:
    group = Group(1, demand_of(job("1")), job("1"))
    hint = Hint(shape(1, 2), nodes=0b0111, wanted=2)
    failure = no_capacity(cluster_of_two(), job("1"))
    failure.hints = (hint,)
    group.note_failure(failure)
    assert group.is_blocked(0b1110)
    assert not group.is_blocked(0b1100)
    assert group.hints


def test_jobs_have_one_demand_if_they_differ_in_nothing_that_decides_whether_they_fit() -> None:
    asked = job("1")
    assert demand_of(replace(asked, job_id=JobId("2"), user_id=7, priority=9)) == demand_of(asked)
    assert demand_of(replace(asked, partition="other")) != demand_of(asked)
    assert demand_of(asked, agent=1) != demand_of(asked)


def test_the_first_job_in_order_that_has_waited_since_a_moment_is_found() -> None:
    group = group_of(30.0, 20.0, 10.0)
    assert group.head() == ((1.0,), "1")
    assert group.first_since(25.0) == ((2.0,), "2")
    assert group.first_since(5.0) is None
    del group.since_s[JobId("3")], group.job_ids[2]  # its age stays in the heap
    assert group.has_since(10.0)
    assert group.first_since(10.0) is None


def test_an_empty_group_has_no_head() -> None:
    assert group_of().head() is None


def test_the_invariants_catch_a_job_that_is_deferred_and_queued() -> None:
    group = group_of(0.0)
    group.deferred[JobId("1")] = None
    with pytest.raises(AssertionError):
        group.check_invariants()
