"""allocations: what jobs hold, what that leaves free, and which nodes gain capacity."""

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.node_sets import NO_NODES
from roost_engine.domain.model import JobId, NodeSpec
from roost_engine.testing.builders import GIB, node, share


def cluster_of(*nodes: NodeSpec) -> Cluster:
    cluster = Cluster()
    for spec in nodes:
        cluster.apply_node(spec)
    return cluster


def test_holds_and_releases() -> None:
    cluster = cluster_of(node("a"), node("b", 4))
    job_id = JobId("1")
    cluster.hold(job_id, [share("a", 0, 2, cpu_count=6, memory_bytes=GIB), share("b", 3)])
    assert cluster.free_mask[:2].tolist() == [0b11111010, 0b0111]
    assert [cluster.cpu_free[index] for index in (0, 1)] == [58, 63]
    assert cluster.memory_free[0] == 511 * GIB
    assert cluster.free_count() == 9
    assert list(cluster.held_jobs()) == [job_id]
    assert cluster.release(job_id)
    assert not cluster.release(job_id)
    assert cluster.free_count() == 12
    cluster.check_invariants()


def test_what_a_job_holds_replaces_what_it_held() -> None:
    cluster = cluster_of(node("a"))
    cluster.hold(JobId("1"), [share("a", 0, 1)])
    cluster.hold(JobId("1"), [share("a", 1, 2)])
    assert cluster.free_mask[0] == 0b11111001
    assert cluster.shares(JobId("1")) == (share("a", 1, 2),)
    cluster.check_invariants()


def test_a_gpu_with_two_holders_is_free_when_both_left() -> None:
    cluster = cluster_of(node("a"))
    cluster.hold(JobId("plan"), [share("a", 0)])
    cluster.hold(JobId("truth"), [share("a", 0)])
    cluster.release(JobId("plan"))
    assert cluster.free_mask[0] == 0b11111110
    cluster.release(JobId("truth"))
    assert cluster.free_mask[0] == 0b11111111


def test_shares_on_unknown_nodes_count_nowhere() -> None:
    cluster = cluster_of(node("a"))
    cluster.hold(JobId("1"), [share("ghost", 0)])
    assert cluster.shares(JobId("1")) == ()
    cluster.check_invariants()


def test_overbooked_cpus_go_below_zero_and_come_back() -> None:
    cluster = cluster_of(node("a", cpu_count=4))
    cluster.hold(JobId("1"), [share("a", 0, cpu_count=9)])
    assert cluster.cpu_free[0] == -5
    cluster.release(JobId("1"))
    assert cluster.cpu_free[0] == 4


def test_only_nodes_that_gained_capacity_are_returned_and_once() -> None:
    cluster = cluster_of(node("a"), node("b"))
    assert cluster.take_freed_nodes() == 0b11
    cluster.hold(JobId("1"), [share("b", 0), share("a", 0)])
    assert cluster.take_freed_nodes() == NO_NODES
    cluster.release(JobId("1"))
    assert cluster.take_freed_nodes() == 0b11
    assert cluster.take_freed_nodes() == NO_NODES


def test_holding_the_same_again_frees_nothing() -> None:
    cluster = cluster_of(node("a"))
    cluster.hold(JobId("1"), [share("a", 0)])
    cluster.take_freed_nodes()
    cluster.hold(JobId("1"), [share("a", 0)])
    assert cluster.take_freed_nodes() == NO_NODES


def test_the_jobs_whose_allocation_has_changed_are_told_once_and_all_again_on_request() -> None:
    cluster = cluster_of(node("a"))
    one, two = JobId("1"), JobId("2")
    cluster.hold(one, [share("a", 0)])
    assert cluster.take_changed_jobs() == (one,)
    assert cluster.take_changed_jobs() == ()
    cluster.hold(two, [share("a", 1)])
    cluster.release(one)
    assert cluster.take_changed_jobs() == (two, one)
    cluster.watch_again()
    assert cluster.take_changed_jobs() == (two,)


def test_what_is_left_out_for_a_trial_is_held_again_afterwards() -> None:
    cluster = cluster_of(node("a"))
    jobs = [JobId("1"), JobId("2")]
    for gpu, job_id in enumerate(jobs):
        cluster.hold(job_id, [share("a", gpu)])
    cluster.take_freed_nodes()
    with cluster.without_first(jobs) as leave_out:
        leave_out(1)
        assert cluster.free_count() == 7
        leave_out(2)
        assert cluster.free_count() == 8
    assert cluster.free_count() == 6
    assert cluster.take_freed_nodes() == NO_NODES
    cluster.check_invariants()
