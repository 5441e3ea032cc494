"""The log of arrivals: what came, how long it ran, and where the order would have put it."""

from collections.abc import Iterator

import pytest

from roost_engine.domain.config import EngineConfig
from roost_engine.domain.events import (
    JobEnded,
    JobQueued,
    JobsStopped,
    JobStarted,
    NodeSeen,
)
from roost_engine.domain.model import JobId
from roost_engine.engine import Engine
from roost_engine.forecast.arrival_log import SPAN_S, ArrivalLog, TimesCache, future_key
from roost_engine.plugins.plugins import Plugins, Policies
from roost_engine.plugins.stacks import OrderKind
from roost_engine.prediction.run_time.history import RunTimeHistory
from roost_engine.scoring.heuristic import HeuristicScore
from roost_engine.testing.builders import job, node, share


def engine_of(order: OrderKind = OrderKind.PRIORITY) -> Engine:
    engine = Engine(EngineConfig(), Plugins(order=order).policies(HeuristicScore()))
    engine.step(NodeSeen(at_s=0.0, node=node("n1", 2)))
    return engine


def run(engine: Engine, name: str, begin_s: float, end_s: float) -> None:
    engine.step(JobQueued(at_s=begin_s, job=job(name, gpus=2, submit_s=begin_s)))
    engine.step(JobStarted(at_s=begin_s, job_id=JobId(name), shares=(share("n1", 0, 1),)))
    engine.step(JobEnded(at_s=end_s, job_id=JobId(name)))


def observe(log: ArrivalLog, engine: Engine, at_s: float) -> int:
    """Returns how often others had a turn."""
    steps: Iterator[None] = log.observe(engine, at_s)
    return sum(1 for _ in steps)


def test_a_job_that_came_and_ended_between_two_polls_is_logged_with_its_run_time() -> None:
    engine, log = engine_of(), ArrivalLog(0.0)
    run(engine, "1", 10.0, 110.0)
    observe(log, engine, 200.0)
    assert [(past.job.job_id, past.at_s, past.run_s) for past in log] == [("1", 10.0, 100.0)]


def test_a_job_is_logged_once_and_its_end_is_seen_later() -> None:
    engine, log = engine_of(), ArrivalLog(0.0)
    engine.step(JobQueued(at_s=10.0, job=job("1", gpus=2)))
    observe(log, engine, 20.0)
    engine.step(JobStarted(at_s=30.0, job_id=JobId("1"), shares=(share("n1", 0, 1),)))
    observe(log, engine, 40.0)
    assert [past.run_s for past in log] == [None]
    engine.step(JobEnded(at_s=90.0, job_id=JobId("1")))
    observe(log, engine, 100.0)
    assert [past.run_s for past in log] == [60.0]


def test_a_job_that_never_ran_tells_no_run_time() -> None:
    engine, log = engine_of(), ArrivalLog(0.0)
    engine.step(JobQueued(at_s=10.0, job=job("1", gpus=2)))
    engine.step(JobEnded(at_s=20.0, job_id=JobId("1")))
    observe(log, engine, 30.0)
    assert [past.run_s for past in log] == [None]


def test_jobs_from_before_the_log_and_from_long_ago_are_left_out() -> None:
    engine, log = engine_of(), ArrivalLog(50.0)
    run(engine, "1", 10.0, 20.0)
    run(engine, "2", 60.0, 70.0)
    observe(log, engine, 100.0)
    assert [past.job.job_id for past in log] == ["2"]
    observe(log, engine, 100.0 + SPAN_S)
    assert len(log) == 0
    assert log.since_s == 100.0


def test_run_times_are_learned_where_no_policy_learns_them() -> None:
    engine, log = Engine(EngineConfig(), Policies()), ArrivalLog(0.0)
    engine.step(NodeSeen(at_s=0.0, node=node("n1", 2)))
    for number in range(30):
        run(engine, f"{number}", 100.0 * number, 100.0 * number + 20.0)
    observe(log, engine, 4_000.0)
    history = log.history(engine)
    assert history.times(job("x", gpus=2), 0.0, 4_000.0).quantile_s(0.5) < 60.0


def start(engine: Engine, name: str, at_s: float, gpu: int = 0) -> None:
    engine.step(JobQueued(at_s=at_s, job=job(name, gpus=1, submit_s=at_s)))
    engine.step(JobStarted(at_s=at_s, job_id=JobId(name), shares=(share("n1", gpu),)))


def test_long_jobs_that_still_run_are_not_left_out_of_the_run_times() -> None:
    engine, log = Engine(EngineConfig(), Policies()), ArrivalLog(0.0)
    engine.step(NodeSeen(at_s=0.0, node=node("n1", 21)))
    for number in range(20):  # half of the jobs are short, and the others have not ended yet
        start(engine, f"short {number}", 1_000.0 * number)
        engine.step(JobEnded(at_s=1_000.0 * number + 20.0, job_id=JobId(f"short {number}")))
        start(engine, f"long {number}", 1_000.0 * number + 20.0, gpu=number + 1)
        observe(log, engine, 1_000.0 * number + 300.0)
    times = log.history(engine).times(job("x", gpus=1), 0.0, 20_000.0)
    assert times.ends_within_frac(1_000.0) == pytest.approx(0.5, abs=0.1)
    assert times.quantile_s(0.75) > 3_600.0


def test_a_job_counts_the_same_whether_the_log_sees_it_run_or_only_its_end() -> None:
    engine, seen, blind = Engine(EngineConfig(), Policies()), ArrivalLog(0.0), ArrivalLog(0.0)
    engine.step(NodeSeen(at_s=0.0, node=node("n1", 2)))
    for number in range(20):
        begin_s = 1_000.0 * number
        start(engine, f"{number}", begin_s)
        observe(seen, engine, begin_s + 400.0)
        engine.step(JobEnded(at_s=begin_s + 900.0, job_id=JobId(f"{number}")))
        for log in (seen, blind):
            observe(log, engine, begin_s + 900.0)
    found, expected = (
        log.history(engine).times(job("x", gpus=1), 0.0, 20_000.0) for log in (seen, blind)
    )
    assert found.ending_fracs == pytest.approx(expected.ending_fracs, abs=0.01)


def test_a_job_from_before_the_log_counts_from_the_age_that_it_had_then() -> None:
    engine = Engine(EngineConfig(), Policies())
    engine.step(NodeSeen(at_s=0.0, node=node("n1", 2)))
    start(engine, "old", 0.0)
    log = ArrivalLog(50_000.0)
    fresh = log.history(engine).times(job("x", gpus=1), 0.0, 50_000.0)
    observe(log, engine, 50_000.0)
    start(engine, "new", 150_000.0, gpu=1)  # what runs is counted as others begin and end
    observe(log, engine, 150_000.0)
    times = log.history(engine).times(job("x", gpus=1), 0.0, 150_000.0)
    assert times.ends_within_frac(20_000.0) == pytest.approx(fresh.ends_within_frac(20_000.0))
    assert times.quantile_s(0.999) > fresh.quantile_s(0.999)


def test_a_job_that_vanishes_while_it_runs_grows_no_older() -> None:
    engine, log = Engine(EngineConfig(), Policies()), ArrivalLog(0.0)
    engine.step(NodeSeen(at_s=0.0, node=node("n1", 2)))
    start(engine, "1", 0.0)
    observe(log, engine, 100.0)
    history = log.history(engine)
    assert history.running_ages_s(job("1").user_id, 200.0) == [200.0]
    other = Engine(EngineConfig(), Policies())  # as after a start of the engine without the job
    observe(log, other, 300.0)
    assert history.running_ages_s(job("1").user_id, 400.0) == []


def test_a_job_from_before_the_log_that_is_stopped_and_leaves_is_forgotten() -> None:
    engine = Engine(EngineConfig(), Policies())
    engine.step(NodeSeen(at_s=0.0, node=node("n1", 2)))
    start(engine, "1", 0.0)
    log = ArrivalLog(50.0)
    observe(log, engine, 100.0)
    engine.step(JobsStopped(at_s=200.0, job_ids=(JobId("1"),)))
    observe(log, engine, 300.0)
    assert log.history(engine).state().running
    engine.step(JobEnded(at_s=400.0, job_id=JobId("1")))
    observe(log, engine, 500.0)
    assert log.history(engine).state().running == ()


def test_a_stopped_job_grows_no_older_until_it_runs_again() -> None:
    engine, log = Engine(EngineConfig(), Policies()), ArrivalLog(0.0)
    engine.step(NodeSeen(at_s=0.0, node=node("n1", 2)))
    start(engine, "1", 0.0)
    observe(log, engine, 100.0)
    engine.step(JobsStopped(at_s=200.0, job_ids=(JobId("1"),)))
    observe(log, engine, 300.0)
    history, user_id = log.history(engine), job("1").user_id
    assert history.running_ages_s(user_id, 1_000.0) == [200.0]
    engine.step(JobStarted(at_s=1_000.0, job_id=JobId("1"), shares=(share("n1", 0),)))
    observe(log, engine, 1_100.0)
    assert history.running_ages_s(user_id, 1_100.0) == [300.0]


def test_policies_that_learn_run_times_are_asked() -> None:
    engine = engine_of(OrderKind.LEARNED)
    assert engine.policies.predictors is not None
    assert ArrivalLog(0.0).history(engine) is engine.policies.predictors.history


def test_many_jobs_leave_turns_to_others() -> None:
    engine, log = engine_of(), ArrivalLog(0.0)
    for number in range(450):
        engine.step(JobQueued(at_s=1.0, job=job(f"{number}", gpus=2)))
    assert observe(log, engine, 2.0) == 44


@pytest.mark.parametrize("order", [OrderKind.PRIORITY, OrderKind.LEARNED, OrderKind.LAS])
def test_the_key_of_an_arrival_is_that_of_the_engine_and_moves_with_time(order: OrderKind) -> None:
    engine = engine_of(order)
    engine.step(JobQueued(at_s=10.0, job=job("0", gpus=2)))
    engine.step(JobQueued(at_s=10.0, job=job("1", gpus=2, priority=3, submit_s=10.0)))
    record = engine.record(JobId("1"))
    history = ArrivalLog(0.0).history(engine)
    key, time_parts = future_key(engine, record, TimesCache(history).times(record.spec, 0.0, 10.0))
    queued = engine.sort_key(JobId("1"))
    assert queued is not None
    assert time_parts
    assert all(key[part] == pytest.approx(queued[part]) for part in time_parts)
    assert [type(part) for part in key] == [type(part) for part in queued]


def test_asking_for_a_key_leaves_the_learned_order_as_it_was() -> None:
    engine = engine_of(OrderKind.LEARNED)
    engine.step(JobQueued(at_s=10.0, job=job("1", gpus=2)))
    predictors = engine.policies.predictors
    assert predictors is not None
    before = predictors.backlog.drain_s(), predictors.state()
    record = engine.record(JobId("1"))
    future_key(engine, record, TimesCache(predictors.history).times(record.spec, 0.0, 10.0))
    assert (predictors.backlog.drain_s(), predictors.state()) == before


def test_jobs_of_the_same_kinds_share_one_distribution() -> None:
    cache = TimesCache(RunTimeHistory())
    first = cache.times(job("1"), 0.0, 0.0)
    second = cache.times(job("2"), 50.0, 0.0)
    assert first.ending_fracs is second.ending_fracs
    assert second.age_s == 50.0
    assert cache.alike(job("1")) == cache.alike(job("2")) != cache.alike(job("3", user_id=7))
