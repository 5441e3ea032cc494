"""Quotas: what Slurm's limits leave for waiting jobs, and jobs that such a limit holds back."""

from collections.abc import Mapping
from dataclasses import replace

from tests.engine.conftest import HarnessFactory

from roost_engine.domain.actions import Action, PinStanding
from roost_engine.domain.events import JobQueued, QuotasSeen
from roost_engine.domain.model import JobId, JobSpec, NodeName, QuotaUse
from roost_engine.engine import EngineConfig
from roost_engine.job_record import JobState
from roost_engine.queue.quotas import Quotas
from roost_engine.testing.builders import EngineHarness, job, node, placed, released, shape, waits

LIMIT = "QOSMaxTRESPerUser normal uid=1001 gres/gpu"


def limited(job_id: str, gpus: int = 2, priority: int = 0, user_id: int = 1001) -> JobSpec:
    spec = job(job_id, gpus=gpus, priority=priority, user_id=user_id)
    return replace(spec, quotas=(QuotaUse(LIMIT, gpus),)) if user_id == 1001 else spec


def report(harness: EngineHarness, free: Mapping[str, float]) -> tuple[Action, ...]:
    return harness.feed(QuotasSeen(at_s=harness.now_s, free=free))


def test_amounts_of_placed_jobs_are_subtracted() -> None:
    quotas = Quotas()
    quotas.apply({LIMIT: 3.0})
    assert quotas.exhausted_by(limited("1")) == ""
    quotas.hold(limited("1"))
    assert quotas.exhausted_by(limited("2")) == LIMIT
    assert quotas.exhausted_by(limited("3", gpus=1)) == ""
    assert quotas.release(JobId("1"))
    assert not quotas.release(JobId("1"))
    assert quotas.exhausted_by(limited("2")) == ""


def test_a_quota_without_a_report_has_no_limit() -> None:
    assert Quotas().exhausted_by(limited("1", gpus=8)) == ""


def test_a_limited_user_does_not_keep_others_from_free_gpus(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a"), node("b")])
    report(harness, {LIMIT: 4.0})
    actions = harness.queue(*(limited(str(number), priority=9) for number in range(1, 41)))
    assert sorted(placed(actions)) == ["1", "2"]
    assert waits(actions)["3"].reason == f"waits for Slurm's limit {LIMIT}"
    assert "50" in placed(harness.queue(limited("50", gpus=4, user_id=1002)))


def test_a_lifted_limit_lets_jobs_start_at_once(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a")])
    report(harness, {LIMIT: 2.0})
    harness.queue(limited("1"), limited("2"))
    report(harness, {LIMIT: 0.0})
    harness.start("1")
    assert harness.state("2") is JobState.WAITING
    assert "2" in placed(report(harness, {LIMIT: 2.0}))


def test_a_refused_job_gives_its_amount_back(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a")])
    report(harness, {LIMIT: 2.0})
    harness.queue(limited("1"), limited("2"))
    assert "2" in placed(harness.refuse("1"))


def test_a_limited_job_is_handed_to_slurm_in_time(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a")], config=EngineConfig(hand_over_s=30.0))
    report(harness, {LIMIT: 2.0})
    harness.queue(limited("1"), limited("2"))
    report(harness, {LIMIT: 0.0})
    harness.start("1")
    assert not released(harness.advance(29.0))
    assert LIMIT in released(harness.advance(30.0))["2"]


def test_a_job_that_came_later_is_handed_over_later(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a")], config=EngineConfig(hand_over_s=30.0))
    report(harness, {LIMIT: 0.0})
    harness.queue(limited("1"))
    harness.advance(20.0)
    harness.queue(limited("2"))
    assert set(released(harness.advance(40.0))) == {"1"}
    assert set(released(harness.advance(50.0))) == {"2"}


def test_a_fresh_engine_continues_the_time_until_the_hand_over(
    make_harness: HarnessFactory,
) -> None:
    harness = make_harness([node("a")], config=EngineConfig(hand_over_s=30.0))
    report(harness, {LIMIT: 0.0})
    harness.queue(limited("1"))
    harness.advance(20.0)
    wait = harness.engine.record(JobId("1")).wait

    fresh = make_harness([node("a")], config=EngineConfig(hand_over_s=30.0))
    fresh.now_s = 20.0
    report(fresh, {LIMIT: 0.0})
    fresh.feed(JobQueued(at_s=20.0, job=limited("1"), wait=wait))
    fresh.queue(limited("2"))
    assert set(released(fresh.advance(30.0))) == {"1"}
    assert set(released(fresh.advance(50.0))) == {"2"}


def test_the_time_begins_again_when_the_limit_was_lifted(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a")], config=EngineConfig(hand_over_s=30.0))
    report(harness, {LIMIT: 0.0})
    harness.queue(limited("1"), limited("2"))
    harness.advance(20.0)
    report(harness, {LIMIT: 2.0})
    harness.start("1")
    report(harness, {LIMIT: 0.0})
    harness.queue(limited("3"))
    assert not released(harness.advance(49.0))


def test_no_nodes_are_reserved_for_a_limited_job(make_harness: HarnessFactory) -> None:
    config = EngineConfig(patience_s=5.0, hand_over_s=1e6)
    harness = make_harness([node("a")], config=config)
    report(harness, {LIMIT: 4.0})
    harness.run(limited("1", gpus=6, user_id=1002), limited("2", gpus=8, priority=9))
    harness.advance(60.0)
    assert "3" in placed(harness.queue(limited("3", user_id=1002)))


def test_a_higher_partition_tier_goes_first_whatever_the_priority(
    make_harness: HarnessFactory,
) -> None:
    harness = make_harness([node("a", partitions=("low", "high"))])
    harness.run(job("1", gpus=8, partition="low"))
    harness.queue(
        job("2", gpus=8, partition="low", priority=100),
        replace(job("3", gpus=8, partition="high"), priority_tier=2),
    )
    assert set(placed(harness.end("1"))) == {"3"}


# -- limits on the CPUs of each node -----------------------------------------------------------

NODE_LIMIT = "MaxCPUsPerNode cpu"


def capped(job_id: str, cpus: int = 1, nodes: int = 1) -> JobSpec:
    asked = shape(1, nodes, cpus_per_node=cpus)
    return replace(job(job_id, asked, user_id=1001), node_quotas=(NODE_LIMIT,))


def report_cpus(harness: EngineHarness, **left: float) -> tuple[Action, ...]:
    cpus = {NODE_LIMIT: {NodeName(name): count for name, count in left.items()}}
    return harness.feed(QuotasSeen(at_s=harness.now_s, free={}, node_cpus=cpus))


def test_jobs_placed_together_share_the_cpus_of_each_node(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a"), node("b")])
    report_cpus(harness, a=2.0, b=1.0)
    actions = harness.queue(*(capped(str(number)) for number in range(1, 7)))
    chosen = placed(actions)
    assert sorted(place.nodes[0] for place in chosen.values()) == ["a", "a", "b"]
    reasons = {harness.reason(job_id) for job_id in ("4", "5", "6")}
    assert reasons == {f"waits for Slurm's limit {NODE_LIMIT}"}


def test_a_job_that_such_a_limit_holds_back_keeps_no_gpus_from_others(
    make_harness: HarnessFactory,
) -> None:
    impatient = EngineConfig(patience_s=0.0, standing_pins=True, standing_pin_after_s=0.0)
    harness = make_harness([node("a")], config=impatient)
    report_cpus(harness, a=0.0)
    actions = (*harness.queue(capped("1")), *harness.advance(100.0))
    assert not any(isinstance(action, PinStanding) for action in actions)
    assert set(placed(harness.queue(job("2", gpus=8)))) == {"2"}


def test_a_job_starts_where_cpus_come_free(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a"), node("b")])
    report_cpus(harness, a=1.0, b=1.0)
    harness.queue(capped("1", cpus=2))
    assert placed(report_cpus(harness, a=1.0, b=2.0))["1"].nodes == ("b",)


def test_a_refused_job_gives_its_cpus_back(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a")])
    report_cpus(harness, a=1.0)
    harness.queue(capped("1"), capped("2"))
    assert set(placed(harness.refuse("1"))) == {"2"}


def test_a_gang_needs_cpus_on_each_of_its_nodes(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a"), node("b")])
    report_cpus(harness, a=2.0, b=1.0)
    assert not placed(harness.queue(capped("1", cpus=2, nodes=2)))
    assert set(placed(report_cpus(harness, a=2.0, b=2.0))) == {"1"}


def test_nodes_that_a_limit_does_not_name_have_none(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a"), node("b")])
    report_cpus(harness, a=0.0, gone=5.0)
    assert placed(harness.queue(capped("1", cpus=2)))["1"].nodes == ("b",)
