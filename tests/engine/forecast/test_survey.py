"""A snapshot shows the engine's queue, and taking it changes nothing."""

from dataclasses import replace
from math import inf

import pytest

from roost_engine.domain.config import EngineConfig
from roost_engine.domain.events import JobEnded, JobQueued, JobStarted, NodeSeen, QuotasSeen
from roost_engine.domain.model import JobId, QuotaUse
from roost_engine.engine import Engine
from roost_engine.forecast.arrival_log import ArrivalLog
from roost_engine.forecast.snapshot import Displacing, Part, Snapshot
from roost_engine.forecast.survey import survey
from roost_engine.plugins.plugins import Plugins
from roost_engine.plugins.stacks import OrderKind, PlacementKind
from roost_engine.preemption.rules import LasMovesConfig, LearnedMovesConfig
from roost_engine.scoring.heuristic import HeuristicScore
from roost_engine.testing.builders import job, node, shape, share


def take(engine: Engine, at_s: float = 100.0) -> Snapshot:
    log = ArrivalLog(0.0)
    for _ in log.observe(engine, at_s):
        pass
    steps = survey(engine, log, at_s)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: Snapshot = end.value
            return found


@pytest.fixture
def engine() -> Engine:
    """Two nodes of four GPUs; a job with a limit on one, another that Slurm started itself."""
    plugins = Plugins(order=OrderKind.LEARNED, placement=PlacementKind.STRICT)
    engine = Engine(EngineConfig(patience_s=33.0), plugins.policies(HeuristicScore()))
    for name in ("n1", "n2"):
        engine.step(NodeSeen(at_s=0.0, node=node(name, 4)))
    engine.step(JobQueued(at_s=0.0, job=job("1", gpus=4, time_limit_s=500.0)))
    engine.step(JobStarted(at_s=10.0, job_id=JobId("1"), shares=(share("n1", 0, 1, 2, 3),)))
    engine.step(JobStarted(at_s=20.0, job_id=JobId("9"), shares=(share("n2", 0),)))
    return engine


def test_free_gpus_and_running_jobs(engine: Engine) -> None:
    found = take(engine)
    assert (found.at_s, found.free, found.patience_s) == (100.0, (0, 3), 33.0)
    assert [(job.job_id, job.held, job.limit_end_s) for job in found.running] == [
        ("1", ((0, 4),), 510.0),
        ("9", ((1, 1),), inf),
    ]
    assert found.running_times.age_s.tolist() == [90.0, 80.0]


def test_waiting_jobs_have_the_keys_and_shapes_of_the_engine(engine: Engine) -> None:
    engine.step(JobQueued(at_s=50.0, job=job("2", gpus=4, submit_s=40.0, time_limit_s=60.0)))
    wide = job("3", shape(4, 2), shape(2, 4), submit_s=41.0)
    engine.step(JobQueued(at_s=51.0, job=wide))
    found = take(engine)
    assert [(job.job_id, job.since_s, job.limit_s) for job in found.waiting] == [
        ("2", 50.0, 60.0),
        ("3", 51.0, inf),
    ]
    assert [job.key for job in found.waiting] == [
        engine.sort_key(JobId(name)) for name in ("2", "3")
    ]
    assert found.wishes[found.waiting[0].wish].parts == (Part(1, 4, 0b11),)
    assert found.wishes[found.waiting[1].wish].parts == (Part(2, 4, 0b11),)  # the tightest


@pytest.mark.parametrize(
    ("kind", "gang_part_count"),
    [(PlacementKind.CONSOLIDATION, 2), (PlacementKind.TIGHT_GANGS, 1), (PlacementKind.STRICT, 1)],
)
def test_a_gang_is_played_in_the_shapes_that_its_placement_rule_proposes(
    kind: PlacementKind, gang_part_count: int
) -> None:
    plugins = Plugins(order=OrderKind.LAS, placement=kind)
    engine = Engine(EngineConfig(), plugins.policies(HeuristicScore()))
    for name in ("n1", "n2", "n3", "n4"):
        engine.step(NodeSeen(at_s=0.0, node=node(name, 4)))
        engine.step(JobStarted(at_s=1.0, job_id=JobId(name), shares=(share(name, 0, 1, 2),)))
    engine.step(JobQueued(at_s=2.0, job=job("1", shape(4, 2), shape(2, 4))))
    found = take(engine)
    parts = found.wishes[found.waiting[0].wish].parts
    assert parts[0] == Part(2, 4, 0b1111)
    assert len(parts) == gang_part_count


def test_a_node_list_counts(engine: Engine) -> None:
    engine.step(JobQueued(at_s=50.0, job=job("2", gpus=4, required=["n1"])))
    found = take(engine)
    assert found.wishes[found.waiting[0].wish].parts == (Part(1, 4, 0b01),)


def test_quotas_come_along_with_what_jobs_take_of_them(engine: Engine) -> None:
    use = QuotaUse("QOSMaxTRESPerUser normal uid=1 gres/gpu", 2.0)
    engine.step(JobQueued(at_s=50.0, job=replace(job("2", gpus=2), quotas=(use,))))
    engine.step(JobStarted(at_s=51.0, job_id=JobId("2"), shares=(share("n2", 1, 2),)))
    engine.step(QuotasSeen(at_s=60.0, free={use.quota: 1.0}))
    spec = replace(job("3", gpus=1), quotas=(replace(use, amount=1.5),))
    engine.step(JobQueued(at_s=61.0, job=spec))
    found = take(engine)
    assert found.quotas == (1.0,)
    assert [running.uses for running in found.running] == [(), ((0, 2.0),), ()]
    assert found.wishes[found.waiting[0].wish].uses == ((0, 1.5),)


def test_past_arrivals_come_along(engine: Engine) -> None:
    engine.step(JobQueued(at_s=50.0, job=job("2", gpus=4, submit_s=50.0)))
    found = take(engine)
    assert [(past.at_s, past.row) for past in found.arrivals] == [(0.0, 0), (50.0, 1)]
    assert len(found.arrival_times.age_s) == 2
    engine.step(JobEnded(at_s=90.0, job_id=JobId("1")))
    found = take(engine)
    assert [(past.run_s, past.row) for past in found.arrivals] == [(80.0, 0), (None, 0)]
    assert len(found.arrival_times.age_s) == 1


def test_the_engine_is_as_before(engine: Engine) -> None:
    engine.step(JobQueued(at_s=50.0, job=job("2", gpus=4)))
    predictors = engine.policies.predictors
    assert predictors is not None
    before = predictors.state(), predictors.backlog.drain_s(), engine.waiting()
    take(engine)
    assert (predictors.state(), predictors.backlog.drain_s(), engine.waiting()) == before
    engine.check_invariants()


def test_where_jobs_displace_others_the_values_of_the_order_come_along() -> None:
    plugins = Plugins(order=OrderKind.LAS, preemption=LasMovesConfig(lease_s=360.0))
    engine = Engine(EngineConfig(), plugins.policies(HeuristicScore()))
    engine.step(NodeSeen(at_s=0.0, node=node("n1", 4)))
    engine.step(JobQueued(at_s=0.0, job=job("1", gpus=4)))
    engine.step(JobStarted(at_s=10.0, job_id=JobId("1"), shares=(share("n1", 0, 1, 2, 3),)))
    engine.step(JobQueued(at_s=20.0, job=job("2", gpus=4)))
    found = take(engine, at_s=110.0)
    assert found.displacing == Displacing(2, grows=True, lease_s=360.0)
    (held,) = found.running
    assert held.stoppable is not None
    assert held.stoppable.from_s == 370.0
    waits = found.waiting[0]
    assert len(held.stoppable.key) == len(waits.key)
    assert (held.stoppable.key[2], waits.key[2]) == (400.0, 0.0)  # GPU-seconds
    assert waits.is_stoppable
    assert found.wishes[waits.wish].may_displace


def test_a_survey_leaves_the_values_that_decide_as_they_are() -> None:
    plugins = Plugins(order=OrderKind.LEARNED_LEFT, preemption=LearnedMovesConfig())
    engine = Engine(EngineConfig(), plugins.policies(HeuristicScore()))
    engine.step(NodeSeen(at_s=0.0, node=node("n1", 4)))
    for name in ("1", "2"):
        engine.step(JobQueued(at_s=0.0, job=job(name, gpus=4)))
    engine.step(JobStarted(at_s=10.0, job_id=JobId("1"), shares=(share("n1", 0, 1, 2, 3),)))
    predictors = engine.policies.predictors
    assert predictors is not None
    running = engine.record(JobId("1"))
    decided = predictors.service_left.value(running, 20.0)
    (held,) = take(engine, at_s=50_000.0).running
    assert held.stoppable is not None
    assert held.stoppable.key[2:3] == decided
    # The survey asked long after the value was computed, which would have computed it again.
    assert predictors.service_left.value(running, 100.0) == decided


def test_only_jobs_with_permission_are_stopped() -> None:
    config = LasMovesConfig(partitions=("gpu",))
    plugins = Plugins(order=OrderKind.LAS, preemption=config)
    engine = Engine(EngineConfig(), plugins.policies(HeuristicScore()))
    engine.step(NodeSeen(at_s=0.0, node=replace(node("n1", 4), partitions=("gpu", "main"))))
    for name, partition, checkpoint_s in (
        ("1", "gpu", 60.0),
        ("2", "gpu", None),
        ("3", "main", 60),
    ):
        spec = replace(job(name, gpus=1), partition=partition, checkpoint_s=checkpoint_s)
        engine.step(JobQueued(at_s=0.0, job=spec))
        shares = (share("n1", int(name)),)
        engine.step(JobStarted(at_s=1.0, job_id=JobId(name), shares=shares))
    found = take(engine)
    assert [each.stoppable is not None for each in found.running] == [True, False, False]
