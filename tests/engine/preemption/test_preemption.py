"""Preemption: which jobs are stopped, when, and what may fail before the plan is carried out."""

from collections.abc import Sequence
from dataclasses import replace
from math import inf

import pytest
from tests.engine.conftest import HarnessFactory
from tests.engine.engine_questions import decision

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.node_sets import NodeSet
from roost_engine.domain.actions import Place, Preempt, WakeAt
from roost_engine.domain.events import (
    ForeignMemorySeen,
    JobChanged,
    JobQueued,
    JobStarted,
    JobWithdrawn,
    NodeLost,
    NodeSeen,
    SpeedSeen,
    Tick,
)
from roost_engine.domain.model import JobId, JobSpec, NodeName, NodeSpec
from roost_engine.engine import EngineConfig
from roost_engine.job_record import JobRecord, JobState
from roost_engine.placement.candidates import Candidates
from roost_engine.plugins.plugins import Policies
from roost_engine.policies.heuristics import ShapeByShape
from roost_engine.policies.preemption_protocols import PreemptPolicy
from roost_engine.policies.protocols import (
    Allow,
    Defer,
    GateVerdict,
    Offer,
    WaitEnded,
)
from roost_engine.preemption.rules import DisplaceBy
from roost_engine.queue.orders import OrderByValue, attained_service
from roost_engine.testing.builders import (
    GIB,
    EngineHarness,
    bridges,
    job,
    node,
    placed,
    preempted,
    share,
)
from roost_engine.testing.fakes import FakePreemption

CLEARING, PLACING, RUNNING = JobState.CLEARING, JobState.PLACING, JobState.RUNNING
STOPPING, WAITING = JobState.STOPPING, JobState.WAITING


@pytest.fixture
def make(make_harness: HarnessFactory) -> HarnessFactory:
    """Make engines in which a job of higher priority displaces one of lower priority."""

    def with_preemption(
        nodes: Sequence[NodeSpec] = (node("a"),),
        policy: PreemptPolicy | None = None,
        **options: object,
    ) -> EngineHarness:
        policies = options.pop("policies", Policies())
        assert isinstance(policies, Policies)
        policies = replace(policies, preemption=policy or FakePreemption())
        return make_harness(nodes, bridges(), policies=policies, **options)

    return with_preemption


def fill(harness: EngineHarness, *specs: JobSpec) -> None:
    """Run jobs that are there before the test's own."""
    harness.run(*specs)
    assert {harness.state(spec.job_id) for spec in specs} == {RUNNING}


# -- victims -----------------------------------------------------------------------------------


def test_a_waiting_job_displaces_one_of_lower_priority(make: HarnessFactory) -> None:
    harness = make()
    fill(harness, job("1", gpus=8, priority=1))
    actions = harness.queue(job("2", gpus=8, priority=2))
    assert preempted(actions) == {"1": "2"}
    assert (harness.state("1"), harness.state("2")) == (STOPPING, CLEARING)
    assert harness.reason("1") == "makes room for 2"
    assert harness.reason("2") == "waits until 1 has stopped"
    assert placed(harness.stop("1")) == {"2": harness.placement("2")}
    assert (harness.state("1"), harness.state("2")) == (WAITING, PLACING)


def see_foreign(harness: EngineHarness, name: str, gpu: int) -> None:
    """Report that processes of no job use memory of a GPU."""
    seen = ForeignMemorySeen(
        at_s=harness.now_s, name=NodeName(name), gpu_index=gpu, used_bytes=40 * GIB
    )
    harness.feed(seen)


def test_the_victims_are_those_on_gpus_without_foreign_memory(make: HarnessFactory) -> None:
    harness = make((node("a"), node("b")))
    fill(harness, job("1", gpus=8, priority=1), job("2", gpus=8, priority=2))
    see_foreign(harness, "a", 5)
    actions = harness.queue(job("3", gpus=8, priority=3))
    assert preempted(actions) == {"2": "3"}
    placed_at = placed(harness.stop("2"))["3"]
    assert decision(harness, "3").neighbour == ""
    assert placed_at.nodes == ("b",)


def test_no_further_job_is_stopped_for_foreign_memory(make: HarnessFactory) -> None:
    harness = make((node("a"), node("b")))
    low, high = (job(str(i), gpus=4, priority=2) for i in (2, 3)), job("1", gpus=8, priority=1)
    fill(harness, high, *low)
    see_foreign(harness, "a", 5)
    assert preempted(harness.queue(job("4", gpus=8, priority=3))) == {"1": "4"}
    harness.stop("1")
    said = decision(harness, "4").neighbour
    assert said.startswith(
        "processes of no job use 40 GiB of GPU 5 of a, and no other place needed"
    )


def test_within_the_victims_gpus_those_without_foreign_memory(make: HarnessFactory) -> None:
    harness = make()
    fill(harness, job("1", gpus=8, priority=1))
    for gpu in (0, 2, 4):  # one of each linked pair but the last
        see_foreign(harness, "a", gpu)
    harness.queue(job("2", gpus=2, priority=2))
    harness.stop("1")
    assert harness.gpus("2") == ("a:6", "a:7")


def test_no_job_is_placed_farther_apart_for_foreign_memory(make_harness: HarnessFactory) -> None:
    """Without foreign memory the rack has badly linked GPUs only, which score lower."""
    nodes = (node("a", 4, rack="r1"), node("b", 4, rack="r1"), node("c", 4, rack="r2"))
    harness = make_harness(nodes, bridges(4), policies=Policies(preemption=FakePreemption()))
    fill(harness, job("1", gpus=4, priority=1))
    assert harness.placement("1").nodes == ("a",)
    harness.start_elsewhere("x", share("b", 3))
    harness.start_elsewhere("y", share("c", 0, 1))
    see_foreign(harness, "a", 0)
    assert preempted(harness.queue(job("2", gpus=2, nodes=2, priority=2))) == {"1": "2"}
    harness.stop("1")
    assert harness.placement("2").nodes == ("a", "b")


def test_a_plan_that_the_policy_refuses_leaves_the_first_one(make: HarnessFactory) -> None:
    class OnlyTheLowest(FakePreemption):
        def approve(self, job: JobRecord, victims: Sequence[JobRecord], at_s: float) -> bool:
            return all(victim.spec.priority == 1 for victim in victims)

    harness = make((node("a"), node("b")), OnlyTheLowest())
    fill(harness, job("1", gpus=8, priority=1), job("2", gpus=8, priority=2))
    see_foreign(harness, "a", 5)
    assert preempted(harness.queue(job("3", gpus=8, priority=3))) == {"1": "3"}


def test_a_job_of_equal_priority_is_not_displaced(make: HarnessFactory) -> None:
    harness = make()
    fill(harness, job("1", gpus=8, priority=1))
    assert not preempted(harness.queue(job("2", gpus=8, priority=1)))
    assert (harness.state("1"), harness.state("2")) == (RUNNING, WAITING)


def test_no_job_is_stopped_for_a_job_that_fits(make: HarnessFactory) -> None:
    harness = make()
    fill(harness, job("1", gpus=4, priority=1))
    actions = harness.queue(job("2", gpus=4, priority=2))
    assert not preempted(actions)
    assert list(placed(actions)) == ["2"]


@pytest.mark.parametrize(
    ("wanted", "victims"), [(1, ["1"]), (2, ["1"]), (3, ["1", "2"]), (6, ["1", "2", "3"])]
)
def test_stops_as_few_victims_as_needed_in_the_order_of_the_policy(
    make: HarnessFactory, wanted: int, victims: list[str]
) -> None:
    harness = make()
    fill(harness, *(job(str(number), gpus=2, priority=number) for number in range(1, 5)))
    assert list(preempted(harness.queue(job("9", gpus=wanted, priority=9)))) == victims


def test_only_victims_in_the_way_are_stopped(make: HarnessFactory) -> None:
    # Job 1, the first victim, is alone on its node; the 8 GPUs are found where 2 and 3 run.
    harness = make([node("a", 4), node("b", 8)])
    fill(harness, job("1", gpus=4, priority=1, required=["a"]))
    fill(harness, *(job(str(number), gpus=4, priority=2, required=["b"]) for number in (2, 3)))
    assert list(preempted(harness.queue(job("9", gpus=8, priority=9)))) == ["2", "3"]
    assert harness.state("1") is RUNNING


def test_free_gpus_count_besides_those_of_victims(make: HarnessFactory) -> None:
    harness = make()
    fill(harness, *(job(str(number), gpus=2, priority=number) for number in (1, 2, 3)))
    assert list(preempted(harness.queue(job("9", gpus=4, priority=9)))) == ["1"]


def test_a_victim_that_holds_needed_cpus_is_stopped(make: HarnessFactory) -> None:
    harness = make([node("a", cpu_count=8)])
    for number in (1, 2):
        spec = job(str(number), gpus=1, priority=number)
        cpus = replace(spec.shapes[0], cpus_per_node=4)
        fill(harness, replace(spec, shapes=(cpus,)))
    wanted = replace(job("9").shapes[0], cpus_per_node=3)
    assert list(preempted(harness.queue(job("9", wanted, priority=9)))) == ["1"]


def test_no_job_is_stopped_where_stopping_all_would_not_suffice(make: HarnessFactory) -> None:
    harness = make()
    fill(harness, job("1", gpus=4, priority=1), job("2", gpus=4, priority=5))
    assert not preempted(harness.queue(job("9", gpus=8, priority=3)))
    assert harness.state("1") is RUNNING


def test_two_waiting_jobs_do_not_share_a_victim(make: HarnessFactory) -> None:
    harness = make()
    fill(harness, job("1", gpus=4, priority=1), job("2", gpus=4, priority=2))
    assert preempted(harness.queue(job("8", gpus=3, priority=8))) == {"1": "8"}
    assert preempted(harness.queue(job("9", gpus=4, priority=9))) == {"2": "9"}


def test_jobs_outside_roost_and_in_shadow_are_never_stopped(make: HarnessFactory) -> None:
    harness = make()
    harness.start_elsewhere("5", share("a", 0, 1, 2, 3))
    harness.queue(job("6", gpus=4, binding=False))
    harness.start_elsewhere("6", share("a", 4, 5, 6, 7))
    assert not preempted(harness.queue(job("9", gpus=8, priority=9)))


def test_no_job_is_stopped_for_a_job_in_shadow(make: HarnessFactory) -> None:
    harness = make()
    fill(harness, job("1", gpus=8))
    assert not preempted(harness.queue(job("9", gpus=8, priority=9, binding=False)))


# -- when --------------------------------------------------------------------------------------


def test_a_job_is_not_stopped_before_its_lease_ends(make: HarnessFactory) -> None:
    harness = make(policy=FakePreemption(lease_s=100.0, review_every_s=60.0))
    fill(harness, job("1", gpus=8))
    harness.now_s = 50.0
    harness.queue(job("2", gpus=8, priority=2))
    assert not preempted(harness.advance(119.0))
    assert preempted(harness.advance(120.0)) == {"1": "2"}


def test_reviews_are_requested_only_while_a_waiting_job_does_not_fit(make: HarnessFactory) -> None:
    harness = make(policy=FakePreemption(review_every_s=60.0))
    fill(harness, job("1", gpus=8, priority=5))
    assert harness.wake_at_s in (None, 10.0)
    harness.now_s = 20.0
    assert WakeAt(at_s=60.0) in harness.queue(job("2", gpus=8))
    harness.advance(60.0)
    assert harness.wake_at_s == 120.0
    harness.end("1")
    harness.start()
    harness.advance(500.0)
    assert harness.wake_at_s is None


def test_without_reviews_no_job_is_stopped_by_time_alone(make: HarnessFactory) -> None:
    harness = make(policy=FakePreemption(lease_s=100.0))
    fill(harness, job("1", gpus=8))
    harness.queue(job("2", gpus=8, priority=2))
    assert not preempted(harness.advance(1000.0))
    assert preempted(harness.queue(job("3"))) == {"1": "2"}


def test_no_job_is_stopped_while_the_gate_defers_the_waiting_job(make: HarnessFactory) -> None:
    class LateForSome:
        """Defers jobs of high priority until 30 s."""

        def decide(self, offer: Offer) -> GateVerdict:
            spec = offer.job.spec
            assert spec is not None
            if spec.priority > 5 and offer.at_s < 30:
                return Defer(until_s=30.0, reason="a better place may come")
            return Allow()

        def note(self, outcome: WaitEnded) -> None:
            pass

    harness = make(policies=Policies(gate=LateForSome()))
    fill(harness, job("1", gpus=8))
    assert not preempted(harness.queue(job("9", gpus=8, priority=9)))
    assert harness.reason("9") == "a better place may come"
    assert not preempted(harness.queue(job("2")))
    harness.advance(15.0)
    assert harness.wake_at_s == 30.0
    assert preempted(harness.advance(30.0)) == {"1": "9"}


# -- while victims stop ------------------------------------------------------------------------


def test_the_waiting_job_gets_the_planned_gpus_although_others_want_them(
    make: HarnessFactory,
) -> None:
    harness = make()
    fill(harness, *(job(str(number), gpus=2, priority=number) for number in range(1, 5)))
    harness.queue(job("9", gpus=6, priority=9))
    planned = harness.gpus("9")
    harness.queue(job("10", gpus=1, priority=20))  # does not fit either: it displaces job 4
    assert harness.state("10") is CLEARING
    for number, victim in enumerate(("1", "2"), start=1):
        assert "9" not in placed(harness.stop(victim))
        assert harness.state(victim) is WAITING, "its GPUs are held for job 9"
        held = harness.engine.cluster.shares(JobId("9"))
        assert sum(len(part.gpu_indices) for part in held) == 2 * number
    assert list(placed(harness.stop("3"))) == ["9"]
    assert harness.gpus("9") == planned
    harness.start("9")
    assert harness.state("9") is RUNNING


def test_cpus_that_a_victim_releases_pass_to_the_waiting_job(make: HarnessFactory) -> None:
    def asks(job_id: str, gpus: int, cpus: int, priority: int) -> JobSpec:
        spec = job(job_id, gpus=gpus, priority=priority)
        return replace(spec, shapes=(replace(spec.shapes[0], cpus_per_node=cpus),))

    harness = make([node("a", cpu_count=8)])
    fill(harness, asks("1", 4, 4, 1), asks("2", 3, 4, 2))
    harness.queue(asks("9", 7, 8, 9))
    assert (harness.state("1"), harness.state("2")) == (STOPPING, STOPPING)
    harness.queue(asks("3", 1, 4, 0))  # fits if the 4 CPUs of job 1 become free
    assert not placed(harness.stop("1"))
    assert list(placed(harness.stop("2"))) == ["9"]


def test_a_victim_may_end_by_itself(make: HarnessFactory) -> None:
    harness = make()
    fill(harness, job("1", gpus=4), job("2", gpus=4))
    harness.queue(job("9", gpus=8, priority=9))
    assert not placed(harness.end("1"))
    assert list(placed(harness.stop("2"))) == ["9"]


def test_a_victim_that_slurm_requeued_by_itself_counts_as_stopped(make: HarnessFactory) -> None:
    harness = make()
    victim = job("1", gpus=8)
    fill(harness, victim)
    harness.queue(job("9", gpus=8, priority=9))
    actions = harness.feed(JobQueued(at_s=harness.now_s, job=victim))
    assert list(placed(actions)) == ["9"]


def test_a_refused_stop_drops_the_plan(make: HarnessFactory) -> None:
    harness = make()
    fill(harness, job("1", gpus=4), job("2", gpus=4))
    harness.queue(job("9", gpus=8, priority=9))
    harness.refuse_stop("1")
    assert harness.state("9") is WAITING
    assert harness.reason("9") == "pauses: what should have made room for it did not stop"
    assert (harness.state("1"), harness.state("2")) == (RUNNING, RUNNING)
    assert not preempted(harness.advance(290.0)), (
        "a job that could not be stopped is not asked again"
    )
    harness.now_s = 300.0
    assert list(preempted(harness.queue(job("8")))) == ["1", "2"]


def test_gpus_of_a_victim_that_stops_after_a_refusal_go_to_the_next_job(
    make: HarnessFactory,
) -> None:
    harness = make()
    fill(harness, job("1", gpus=8))
    harness.queue(job("9", gpus=8, priority=9))
    harness.refuse_stop("1")
    harness.advance(10.0)  # the pause of job 9 has ended
    assert list(placed(harness.stop("1"))) == ["9"]


def test_a_plan_is_dropped_when_a_victim_does_not_stop_in_time(make: HarnessFactory) -> None:
    harness = make(config=EngineConfig(stop_timeout_s=30.0))
    fill(harness, job("1", gpus=4), job("2", gpus=4))
    harness.advance(20.0)
    harness.queue(job("9", gpus=8, priority=9))
    harness.stop("1")
    harness.advance(49.0)
    assert harness.state("9") is CLEARING
    harness.advance(50.0)
    assert harness.state("9") is WAITING
    assert harness.state("2") is RUNNING
    assert not harness.engine.cluster.shares(JobId("9"))


def test_a_node_lost_meanwhile_drops_the_plan(make: HarnessFactory) -> None:
    harness = make([node("a"), node("b")])
    fill(harness, job("1", gpus=8, priority=1), job("2", gpus=8, priority=2))
    harness.queue(job("9", gpus=8, priority=9))
    lost = harness.placement("9").nodes[0]
    harness.feed(NodeLost(at_s=harness.now_s, name=NodeName(lost)))
    assert not placed(harness.end("1"))
    assert harness.state("9") is WAITING
    harness.advance(5.0)
    assert preempted(harness.actions) == {"1": "9", "2": "9"}
    assert list(placed(harness.stop("2"))) == ["9"]


def test_an_outsider_on_the_planned_gpus_drops_the_plan(make: HarnessFactory) -> None:
    harness = make()
    fill(harness, job("1", gpus=8))
    harness.queue(job("9", gpus=8, priority=9))
    harness.start_elsewhere("5", share("a", 0))
    assert not placed(harness.stop("1"))
    assert harness.state("9") is WAITING


@pytest.mark.parametrize("how", ["withdrawn", "ended", "changed", "started"])
def test_a_victim_of_a_job_that_is_gone_keeps_running(make: HarnessFactory, how: str) -> None:
    harness = make([node("a"), node("b", 1)], config=EngineConfig(stop_timeout_s=30.0))
    harness.start_elsewhere("7", share("b", 0))
    fill(harness, job("1", gpus=8))
    harness.queue(job("9", gpus=8, priority=9))
    match how:
        case "withdrawn":
            harness.feed(JobWithdrawn(at_s=0.0, job_id=JobId("9"), reason="held by its user"))
        case "ended":
            harness.end("9")
        case "changed":
            harness.feed(JobChanged(at_s=0.0, job=job("9", gpus=1, priority=-1)))
        case "started":
            harness.start_elsewhere("9", share("b", 0))
    assert harness.state("1") is STOPPING, "Slurm was asked and may yet stop it"
    harness.advance(30.0)
    assert harness.state("1") is RUNNING


def test_a_job_that_changes_while_it_clears_keeps_its_queueing_time(make: HarnessFactory) -> None:
    harness = make()
    fill(harness, job("1", gpus=8))
    harness.queue(job("9", gpus=8, priority=9))
    harness.now_s = 20.0
    harness.feed(JobChanged(at_s=20.0, job=job("9", gpus=4, priority=9)))
    assert harness.engine.record(JobId("9")).queued_s == 0.0


def test_a_running_job_that_is_reported_again_may_still_be_stopped(make: HarnessFactory) -> None:
    harness = make()
    fill(harness, job("1", gpus=8))
    harness.start_elsewhere("1", share("a", *range(7)))
    assert preempted(harness.queue(job("9", gpus=8, priority=9))) == {"1": "9"}
    harness.start_elsewhere("1", share("a", *range(7)))
    assert (harness.state("1"), harness.state("9")) == (STOPPING, CLEARING)


# -- history -----------------------------------------------------------------------------------


def test_a_stopped_job_keeps_its_history(make: HarnessFactory) -> None:
    harness = make()
    fill(harness, job("1", gpus=4))
    harness.feed(SpeedSeen(at_s=0.0, job_id=JobId("1"), speed_frac=0.5))
    harness.now_s = 100.0
    harness.queue(job("9", gpus=8, priority=9))
    harness.stop("1")
    record = harness.engine.record(JobId("1"))
    assert (record.stop_count, record.queued_s, record.started_s) == (1, 100.0, None)
    assert record.run_s(150.0) == 100.0
    assert record.attained_gpu_s(150.0) == 400.0
    assert record.efficiency(150.0) == 0.5
    harness.start("9")
    harness.now_s = 200.0
    harness.end("9")
    harness.start("1")
    assert record.run_s(250.0) == 150.0


def test_a_requeue_of_a_waiting_job_does_not_count_as_a_stop(make: HarnessFactory) -> None:
    harness = make()
    fill(harness, job("1", gpus=8, priority=5))
    for _ in range(2):
        harness.queue(job("2", gpus=8))
    assert harness.engine.record(JobId("2")).stop_count == 0


# -- leases after which every job competes again -----------------------------------------------


def test_a_lease_is_renewed_on_the_same_gpus(make: HarnessFactory) -> None:
    harness = make(policy=FakePreemption(lease_s=100.0, renews_leases=True))
    fill(harness, job("1", gpus=8))
    before = harness.gpus("1")
    actions = harness.advance(100.0)
    assert Preempt(job_id=JobId("1"), reason="its lease ended") in actions
    assert list(placed(harness.stop("1"))) == ["1"]
    harness.start("1")
    assert harness.gpus("1") == before
    assert harness.engine.record(JobId("1")).safe_until_s == 200.0


def test_at_the_end_of_a_lease_the_first_in_order_gets_the_gpus(make: HarnessFactory) -> None:
    harness = make(policy=FakePreemption(lease_s=100.0, renews_leases=True))
    fill(harness, job("1", gpus=8))
    harness.now_s = 10.0
    harness.queue(job("2", gpus=8, priority=2))
    assert not preempted(harness.advance(99.0))
    assert preempted(harness.advance(100.0)) == {"1": None}
    assert list(placed(harness.stop("1"))) == ["2"]
    assert harness.state("1") is WAITING


def test_jobs_whose_leases_end_together_stop_together(make: HarnessFactory) -> None:
    harness = make(policy=FakePreemption(lease_s=100.0, renews_leases=True))
    fill(harness, job("1", gpus=4), job("2", gpus=4))
    harness.queue(job("3", gpus=8, priority=3))
    assert list(preempted(harness.advance(100.0))) == ["1", "2"]
    assert list(placed(harness.stop("1", "2"))) == ["3"]


def test_a_job_that_could_not_be_stopped_at_the_end_of_its_lease_is_stopped_later(
    make: HarnessFactory,
) -> None:
    harness = make(policy=FakePreemption(lease_s=100.0, renews_leases=True))
    fill(harness, job("1", gpus=8))
    harness.advance(100.0)
    harness.refuse_stop("1")
    assert harness.state("1") is RUNNING
    assert not preempted(harness.advance(399.0))
    assert preempted(harness.advance(400.0)) == {"1": None}


def test_a_stop_that_slurm_does_not_answer_is_requested_again(make: HarnessFactory) -> None:
    harness = make(
        policy=FakePreemption(lease_s=100.0, renews_leases=True),
        config=EngineConfig(stop_timeout_s=30.0),
    )
    fill(harness, job("1", gpus=8))
    harness.advance(100.0)
    harness.advance(130.0)
    assert harness.state("1") is RUNNING
    assert preempted(harness.advance(430.0)) == {"1": None}


# -- jobs that are not stopped -----------------------------------------------------------------


def test_a_job_that_may_never_be_stopped_is_not_shown_to_the_policy(make: HarnessFactory) -> None:
    policy = FakePreemption(lease_s=inf)
    harness = make(policy=policy)
    fill(harness, job("1", gpus=8))
    assert not preempted(harness.queue(job("9", gpus=8, priority=9)))
    assert policy.asked == []


def test_only_jobs_whose_lease_has_ended_are_shown_to_the_policy(make: HarnessFactory) -> None:
    class Selective(FakePreemption):
        def lease_s(self, job: JobRecord) -> float:
            return 0.0 if job.job_id == "1" else 50.0

    policy = Selective()
    harness = make(policy=policy)
    fill(harness, job("1", gpus=4, priority=5), job("2", gpus=4, priority=1))
    harness.queue(job("9", gpus=4, priority=3))
    assert set(policy.asked) == {("1",)}
    assert not [action for action in harness.actions if isinstance(action, Preempt)]
    assert len([action for action in harness.actions if isinstance(action, Place)]) == 2


def test_a_search_is_made_again_only_after_a_change(make: HarnessFactory) -> None:
    class Counting(ShapeByShape):
        """Counts the proposals."""

        call_count = 0

        def propose(
            self, cluster: Cluster, job: JobSpec, reserved: NodeSet, at_s: float
        ) -> Candidates:
            self.call_count += 1
            return super().propose(cluster, job, reserved, at_s)

    class Patient:
        """Lets every job wait that would need victims."""

        def decide(self, offer: Offer) -> GateVerdict:
            return Defer(offer.at_s + 1000.0, "waits") if offer.job.job_id == "3" else Allow()

        def note(self, outcome: WaitEnded) -> None:
            pass

    candidates = Counting()
    policies = Policies(candidates=candidates, gate=Patient())
    harness = make([node("a"), node("b")], policies=policies)
    fill(harness, job("1", gpus=8, priority=1), job("2", gpus=6, priority=1))
    harness.queue(job("3", gpus=8, priority=2))
    asked_count = candidates.call_count
    harness.advance(100.0)
    harness.feed(Tick(at_s=200.0))
    assert candidates.call_count == asked_count
    assert harness.state("3") is WAITING
    harness.run(job("4", gpus=1, priority=3))
    assert candidates.call_count > asked_count + 1  # its own proposal, and another search for 3


# -- overdue jobs ------------------------------------------------------------------------------


def bounded() -> Policies:
    """Least attained service first, but jobs that have waited for 1,000 s before all others."""
    return Policies(
        order=OrderByValue(attained_service, longest_wait_s=1_000.0),
        preemption=DisplaceBy(attained_service, safe_s=10.0, round_s=10.0),
    )


@pytest.mark.parametrize("usable", [True, False])
def test_only_an_overdue_job_that_could_start_keeps_others_from_stopping_jobs(usable: bool) -> None:
    harness = EngineHarness([node("a"), node("b")], policies=bounded())
    harness.run(job("1", gpus=8, required=["a"]))
    harness.start_elsewhere("2", share("b", *range(8)))
    harness.queue(job("overdue", gpus=8, required=["b"]))
    harness.feed(NodeSeen(at_s=harness.now_s, node=node("b", usable=usable)))
    harness.advance(2_000.0)
    harness.queue(job("new", gpus=8, required=["a"], submit_s=2_000.0))
    harness.advance(2_100.0)
    assert preempted(harness.actions) == ({} if usable else {"1": "new"})


@pytest.mark.parametrize(("since_s", "is_stopped"), [(100.0, True), (1_500.0, False)])
def test_after_a_restart_only_a_job_that_was_overdue_when_it_started_is_not_stopped(
    since_s: float, is_stopped: bool
) -> None:
    harness = EngineHarness([node("a")], policies=bounded())
    harness.advance(5_000.0)
    harness.feed(
        JobStarted(
            at_s=5_000.0,
            job_id=JobId("1"),
            shares=(share("a", *range(8)),),
            job=job("1", gpus=8),
            since_s=since_s,
            queued_s=0.0,
        )
    )
    harness.queue(job("new", gpus=8, submit_s=5_000.0))
    harness.advance(5_100.0)
    assert preempted(harness.actions) == ({"1": "new"} if is_stopped else {})
