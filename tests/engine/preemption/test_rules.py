"""The rules `las-moves` and `leases`: the jobs they stop, and that permission binds them."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from math import inf

import pytest
from tests.engine.conftest import HarnessFactory

from roost_engine.domain.events import SpeedSeen, Tick
from roost_engine.domain.model import JobId, JobSpec
from roost_engine.job_record import JobRecord, JobState
from roost_engine.plugins.plugins import Policies
from roost_engine.plugins.policy_kinds import make_order
from roost_engine.plugins.stacks import OrderKind
from roost_engine.policies.preemption_protocols import (
    JudgingPreemption,
    MovingPreemption,
    PreemptPolicy,
)
from roost_engine.policies.slots import name_of
from roost_engine.prediction.predictors import Predictors
from roost_engine.preemption.rules import (
    DisplaceAndMove,
    DisplaceBy,
    KnownLeftMovesConfig,
    LasMovesConfig,
    LearnedMovesConfig,
    Leases,
    LeasesConfig,
    known_left_moves,
    las_moves,
    learned_moves,
    leases,
    next_round_s,
    widest_first,
)
from roost_engine.queue.orders import attained_service
from roost_engine.table.running_jobs import RunningJobs
from roost_engine.testing.builders import EngineHarness, job, node, preempted, share, waiting

MAIN = ("main",)


def saving(
    job_id: str, gpus: int = 8, checkpoint_s: float | None = 600.0, partition: str = "main"
) -> JobSpec:
    """Describe a job that saves checkpoints."""
    return replace(job(job_id, gpus=gpus, partition=partition), checkpoint_s=checkpoint_s)


def harness(factory: HarnessFactory, policy: PreemptPolicy) -> EngineHarness:
    nodes = [node("a", partitions=("main", "debug"))]
    order = make_order(OrderKind.LAS)
    return factory(nodes, policies=Policies(order=order, preemption=policy))


def ran(job_id: str, run_s: float, gpus: int = 1) -> JobRecord:
    record = waiting(saving(job_id, gpus))
    record.earlier_run_s = run_s
    return record


def test_rules_have_the_names_that_operators_configure() -> None:
    assert name_of(las_moves(LasMovesConfig())) == "las-moves"
    closer = las_moves(LasMovesConfig(serves_deferred=True))
    assert name_of(closer) == "las-closer-moves"
    assert closer.serves_deferred
    assert not las_moves(LasMovesConfig()).serves_deferred
    assert name_of(leases(LeasesConfig())) == "leases"
    known = known_left_moves(KnownLeftMovesConfig(), Predictors().known_left)
    assert name_of(known) == "known-left-moves"
    assert known.serves_deferred


@pytest.mark.parametrize(("trust_frac", "lease_s"), [(0.0, 1_800.0), (1.0, 360.0)])
def test_while_trust_is_lost_what_is_left_counts_as_attained_service_does(
    trust_frac: float, lease_s: float
) -> None:
    predictors = Predictors()
    predictors.skill.trust_frac = trust_frac
    rule = learned_moves(LearnedMovesConfig(), predictors.service_left)
    assert rule.lease_s(ran("1", 10.0)) == rule.displacement.lease_s == lease_s
    assert rule.review_s(10.0) == lease_s
    assert rule.displacement.grows == (trust_frac == 0.0)
    patient = learned_moves(LearnedMovesConfig(lease_s=7_200.0), predictors.service_left)
    assert patient.lease_s(ran("1", 10.0)) == 7_200.0


def test_by_what_is_known_a_job_near_its_end_stays_and_one_far_from_it_goes() -> None:
    predictors = Predictors()
    for number in range(20):
        predictors.history.add(saving(f"old-{number}", gpus=4), 100_000.0, float(number))
    rule = known_left_moves(KnownLeftMovesConfig(), predictors.known_left)
    near, far, other = ran("1", 90_000.0, gpus=4), ran("2", 8_000.0, gpus=4), ran("3", 50_000.0)
    assert rule.first_to_go([near, far, other], 100.0)[0] is far
    assert rule.displaces(near, far, 100.0)
    by_service = las_moves(LasMovesConfig())
    assert by_service.first_to_go([near, far, other], 100.0)[0] is near


def test_what_is_known_does_not_count_until_a_job_has_had_eight_gpu_hours() -> None:
    predictors = Predictors()
    for number in range(20):
        predictors.history.add(saving(f"old-{number}", gpus=4), 100_000.0, float(number))
    rule = known_left_moves(KnownLeftMovesConfig(), predictors.known_left)
    new, young = ran("1", 0.0, gpus=4), ran("2", 7_100.0, gpus=4)
    old, ending = ran("3", 7_200.0, gpus=4), ran("4", 99_999.0, gpus=4)
    assert rule.first_to_go([new, young, old, ending], 0.0)[0] is old
    for early, late in pairwise((new, young, ending, old)):
        assert rule.displaces(early, late, 0.0)
        assert not rule.displaces(late, early, 0.0)


@pytest.mark.parametrize("run_s", [0.0, 7_199.0, 7_200.0, 8_000.0, 50_000.0, 99_000.0])
def test_by_what_is_known_the_count_of_a_ranking_agrees_with_each_pair(run_s: float) -> None:
    predictors = Predictors()
    for number in range(20):
        predictors.history.add(saving(f"old-{number}", gpus=4), 100_000.0, float(number))
    rule, among = known_left_moves(KnownLeftMovesConfig(), predictors.known_left), RunningJobs()
    for name, started_s in zip(
        "1234567", (0, 90_000, 92_000, 93_000, 60_000, 5, 99_999), strict=True
    ):
        gpus = 4 if name < "6" else 1
        among.add(
            replace(
                waiting(saving(name, gpus)),
                state=JobState.RUNNING,
                started_s=started_s,
                safe_until_s=0.0,
            )
        )
    ranked = rule.first_to_go(among.stoppable(1e5), 1e5)
    newcomer = ran("9", run_s, gpus=4)
    assert {job.job_id for job in ranked} == set("1234567")
    each = [rule.displaces(newcomer, victim, 1e5) for victim in ranked]
    assert each == sorted(each, reverse=True)
    assert rule.displaced_count(newcomer, ranked, 1e5) == sum(each)
    assert rule.first_to_go(list(among.stoppable(1e5)), 1e5) == list(ranked)


def test_most_attained_service_goes_first_and_only_for_a_job_that_has_had_less() -> None:
    rule = las_moves(LasMovesConfig())
    little, much, wide = ran("1", 100.0), ran("2", 300.0), ran("3", 50.0, gpus=8)
    assert [job.job_id for job in rule.first_to_go([little, much, wide], 0.0)] == ["3", "2", "1"]
    assert rule.displaces(little, much, 0.0)
    assert not rule.displaces(much, little, 0.0)
    assert not rule.displaces(little, little, 0.0)


@pytest.mark.parametrize("attained_s", [0.0, 50.0, 99.0, 100.0, 101.0, 300.0, 400.0])
def test_the_count_of_a_ranking_agrees_with_each_pair(attained_s: float) -> None:
    rule = las_moves(LasMovesConfig())
    running = [
        ran(name, run_s) for name, run_s in zip("12345", (100, 300, 100, 0, 70), strict=True)
    ]
    ranked, newcomer = rule.first_to_go(running, 0.0), ran("9", attained_s)
    each = [rule.displaces(newcomer, victim, 0.0) for victim in ranked]
    assert each == sorted(each, reverse=True)
    assert rule.displaced_count(newcomer, ranked, 0.0) == sum(each)


class Counted(DisplaceBy):
    """Counts how often it ranks, and how often it is asked about a waiting job."""

    rank_count = asked_count = 0

    def first_to_go(self, running: Sequence[JobRecord], at_s: float) -> Sequence[JobRecord]:
        self.rank_count += 1
        return super().first_to_go(running, at_s)

    def displaced_count(self, job: JobRecord, ranked: Sequence[JobRecord], at_s: float) -> int:
        self.asked_count += 1
        return super().displaced_count(job, ranked, at_s)


def test_speeds_that_are_reported_ask_no_rule_that_ranks_by_runs(
    make_harness: HarnessFactory,
) -> None:
    for ranks_by_runs, count in ((True, 1), (False, 3)):
        rule = Counted(lambda job, at_s: (0.0,), ranks_by_runs=ranks_by_runs)
        play = harness(make_harness, rule)
        play.run(saving("1", gpus=4), saving("2", gpus=4))
        play.queue(saving("3", gpus=8))
        play.advance(100.0)
        before = rule.rank_count
        play.feed(Tick(at_s=200.0))
        for job_id in ("1", "2"):
            play.feed(SpeedSeen(at_s=200.0, job_id=JobId(job_id), speed_frac=0.5))
        assert rule.rank_count - before == count


def test_a_newcomer_gets_the_gpus_at_the_end_of_the_round(
    make_harness: HarnessFactory,
) -> None:
    play = harness(make_harness, las_moves(LasMovesConfig(partitions=MAIN)))
    play.run(saving("1"))
    play.queue(saving("2"))

    assert preempted(play.advance(359.0)) == {}
    assert preempted(play.advance(360.0)) == {"1": "2"}


LAS_IN_MAIN, LEASES_IN_MAIN = LasMovesConfig(partitions=MAIN), LeasesConfig(partitions=MAIN)
UNSAVED = saving("1", checkpoint_s=None)
ELSEWHERE = saving("1", partition="debug")


@pytest.mark.parametrize(
    ("rule", "victim", "newcomer"),
    [
        (las_moves(LAS_IN_MAIN), UNSAVED, saving("2")),
        (las_moves(LAS_IN_MAIN), ELSEWHERE, saving("2")),
        (las_moves(LAS_IN_MAIN), saving("1"), saving("2", partition="debug")),
        (leases(LEASES_IN_MAIN), UNSAVED, saving("2")),
        (leases(LEASES_IN_MAIN), ELSEWHERE, saving("2")),
    ],
)
def test_without_permission_no_job_is_stopped(
    make_harness: HarnessFactory, rule: PreemptPolicy, victim: JobSpec, newcomer: JobSpec
) -> None:
    play = harness(make_harness, rule)
    play.run(victim)
    play.queue(newcomer)
    assert preempted(play.advance(7_200.0)) == {}


def test_a_lease_ends_for_jobs_that_may_be_stopped(make_harness: HarnessFactory) -> None:
    play = harness(make_harness, leases(LeasesConfig(partitions=MAIN)))
    play.run(saving("1", gpus=4), saving("2", gpus=4, checkpoint_s=None))

    assert preempted(play.advance(3_599.0)) == {}
    assert preempted(play.advance(3_600.0)) == {"1": None}


def test_without_partitions_every_job_may_be_stopped() -> None:
    record = waiting(job("1"))
    assert las_moves(LasMovesConfig()).lease_s(record) == 360.0
    assert leases(LeasesConfig()).lease_s(record) == 3_600.0
    assert las_moves(LasMovesConfig(partitions=MAIN)).lease_s(record) == inf
    assert leases(LeasesConfig(partitions=MAIN)).lease_s(record) == inf


def test_only_a_rule_with_migration_moves_jobs() -> None:
    moving = DisplaceAndMove(attained_service, safe_s=60.0, round_s=60.0)
    assert isinstance(moving, MovingPreemption)
    assert not isinstance(moving, JudgingPreemption)
    assert not isinstance(DisplaceBy(attained_service), MovingPreemption)
    assert not isinstance(Leases(60.0), MovingPreemption)
    assert moving.review_s(61.0) == 120.0
    assert moving.renews_leases is False
    assert Leases(60.0).renews_leases is True


def test_jobs_on_most_nodes_move_first() -> None:
    records = [ran(name, 0.0) for name in "123"]
    for record, count in zip(records, (1, 2, 3), strict=True):
        record.shares = tuple(share(f"n{number}", 0) for number in range(count))
    assert [job.job_id for job in widest_first(records)] == ["3", "2"]


def test_rounds_begin_at_multiples() -> None:
    assert [next_round_s(60.0, at_s) for at_s in (0.0, 59.0, 60.0)] == [60.0, 60.0, 120.0]
    assert next_round_s(inf, 5.0) == inf
