"""victim_search: what is found, and when the same search is made again."""

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.node_sets import NodeSet
from roost_engine.domain.model import JobId, JobSpec
from roost_engine.placement.candidates import Candidates
from roost_engine.placement.tightest_shapes import TightGangs
from roost_engine.policies.protocols import ShapedCandidates
from roost_engine.preemption.victim_search import VictimSearch
from roost_engine.scoring.scorer import Scorer
from roost_engine.testing.builders import job, node, share, waiting
from roost_engine.testing.fakes import FakeScore


class Proposing:
    """Proposes as `tight-gangs` does, and counts how often."""

    def __init__(self) -> None:
        self.rule, self.call_count = TightGangs(), 0
        self.hints, self.proposed_shapes = self.rule.hints, self.rule.proposed_shapes

    def propose(self, cluster: Cluster, job: JobSpec, reserved: NodeSet, at_s: float) -> Candidates:
        self.call_count += 1
        return self.rule.propose(cluster, job, reserved, at_s)


def full_racks() -> tuple[Cluster, list[JobId]]:
    """Four nodes of four GPUs in two racks; job i holds the i-th node."""
    cluster, jobs = Cluster(), [JobId(str(number)) for number in range(4)]
    for number, job_id in enumerate(jobs):
        cluster.apply_node(node(f"n{number}", 4, rack=f"r{number % 2}"))
        cluster.hold(job_id, [share(f"n{number}", 0, 1, 2, 3)])
    cluster.take_freed_nodes()
    return cluster, jobs


def searching(cluster: Cluster) -> tuple[VictimSearch, Proposing]:
    rule = Proposing()
    assert isinstance(rule, ShapedCandidates)
    return VictimSearch(cluster, rule, Scorer(FakeScore())), rule


def test_a_deferred_job_gets_only_the_closest_tier_and_one_proposal_finds_it() -> None:
    cluster, victims = full_racks()
    search, rule = searching(cluster)
    wide = job("9", gpus=4, nodes=2)
    for is_deferred, count in ((False, 2), (True, 3)):
        rule.call_count = 0
        found = search.run(wide, victims, is_deferred, 0.0).found.get()
        assert found is not None
        assert (found.victim_count, rule.call_count) == (count, 1)
        cluster.check_invariants()


def test_no_proposal_is_asked_for_where_no_rack_could_have_enough() -> None:
    cluster, victims = full_racks()
    search, rule = searching(cluster)
    assert search.run(job("9", gpus=4, nodes=2), victims[:2], True, 0.0).found.get() is None
    assert rule.call_count == 0


def test_a_search_is_made_again_only_after_a_change_of_the_cluster() -> None:
    cluster, victims = full_racks()
    search, rule = searching(cluster)
    small = job("9", gpus=2)
    first = search.run(small, victims, False, 0.0)
    assert first.found.get() is not None
    count = rule.call_count
    assert search.run(small, victims[:3], False, 1.0) is first  # only the first victim counts
    assert rule.call_count == count
    cluster.hold(JobId("8"), [share("n0", 0)])
    assert search.run(small, victims, False, 1.0) is not first


def test_a_failure_counts_for_fewer_victims_until_a_node_gains_capacity() -> None:
    cluster, victims = full_racks()
    search, _ = searching(cluster)
    record = waiting(job("9", gpus=4, nodes=3))
    search.note_failure(victims[:2], record, False)
    assert search.has_failed_with(victims[:1], record, False)
    assert not search.has_failed_with(victims, record, False)
    assert not search.has_failed_with(victims[:1], record, True)
    assert not search.has_failed_with(victims[:1], waiting(record.spec), False)  # a later wait
    cluster.release(victims[3])
    cluster.take_freed_nodes()
    assert not search.has_failed_with(victims[:1], record, False)
