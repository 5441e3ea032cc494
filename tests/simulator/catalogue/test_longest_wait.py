"""Traces made to starve a job under orders without ageing: it starts by its bound.

Page: docs/stacks.md.

    start(j) <= from(j) + longest_wait + (n + 1) · L

n: jobs that began to wait before j and run, or wait still, when j is overdue; L: the longest time
limit of other jobs.
"""

from collections.abc import Sequence
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.simulator.simulated import cluster, result, simulate

from roost_engine.engine import EngineConfig
from roost_engine.job_record import JobRecord
from roost_engine.plugins.plugins import Plugins, Policies
from roost_engine.plugins.policy_kinds import PreemptionNumbers
from roost_engine.plugins.stacks import OrderKind
from roost_engine.policies.canary import CanaryOrder, UserShare
from roost_engine.policies.protocols import SortKey
from roost_engine.preemption.rules import (
    DisplaceBy,
    LasMovesConfig,
    LearnedMovesConfig,
    LeasesConfig,
)
from roost_engine.queue.orders import OrderByValue, attained_service
from roost_engine.scoring.heuristic import HeuristicScore
from roost_engine.testing.builders import job, shape
from roost_sim.figures.outcome import Outcome
from roost_sim.traces.arrival import Arrival

LONGEST_WAIT_S, LEASE_S = 10_000.0, 360.0
NODES, GPUS = 4, 8
VICTIM = "victim"
NEVER_RESERVES = EngineConfig(patience_s=inf)
KINDS: Sequence[tuple[OrderKind, PreemptionNumbers]] = [
    (OrderKind.LAS, LasMovesConfig(lease_s=LEASE_S, serves_deferred=True)),
    (OrderKind.S_RANK, LeasesConfig()),
    (OrderKind.LEARNED_LEFT, LearnedMovesConfig(lease_s=LEASE_S)),
]


def comes(job_id: str, submit_s: float, work_s: float, gpus: int, nodes: int = 1) -> Arrival:
    """A job whose user asked for half as much again as it needs."""
    spec = job(job_id, shape(gpus, nodes), submit_s=submit_s, time_limit_s=1.5 * work_s)
    return Arrival(spec=spec, work_s=work_s, gpu_count=spec.gpu_count)


def short_jobs_against_a_gang(gang_s: float = 5_000.0) -> Sequence[Arrival]:
    """A stream that always fills the cluster, shorter than a lease, and a gang of all nodes."""
    stream = [comes(f"s{n}", 75.0 * n, 300.0, GPUS) for n in range(600)]
    return [*stream, comes(VICTIM, 1_000.0, gang_s, GPUS, NODES)]


def run(arrivals: Sequence[Arrival], policies: Policies) -> Outcome:
    ordered = sorted(arrivals, key=lambda one: one.spec.submit_s)
    return simulate(cluster(NODES, GPUS), *ordered, policies=policies, config=NEVER_RESERVES)


def of_kind(kind: OrderKind, preemption: PreemptionNumbers, longest_wait_s: float) -> Policies:
    plugins = Plugins(order=kind, preemption=preemption, longest_wait_s=longest_wait_s)
    return plugins.policies(HeuristicScore())


def latest_start_s(outcome: Outcome, arrivals: Sequence[Arrival]) -> float:
    """The bound of the victim."""
    from_s = result(outcome, VICTIM).submit_s
    due_s = from_s + LONGEST_WAIT_S
    before = [
        one
        for one in outcome.jobs
        if one.job_id != VICTIM
        and one.submit_s <= from_s
        and (one.ended_s is None or one.ended_s >= due_s)
    ]
    limits_s = (one.spec.time_limit_s or inf for one in arrivals if one.spec.job_id != VICTIM)
    return due_s + (len(before) + 1) * max(limits_s)


@pytest.mark.parametrize(("kind", "preemption"), KINDS, ids=str)
def test_the_victim_starts_by_its_bound(kind: OrderKind, preemption: PreemptionNumbers) -> None:
    arrivals = short_jobs_against_a_gang()
    outcome = run(arrivals, of_kind(kind, preemption, LONGEST_WAIT_S))
    victim = result(outcome, VICTIM)
    assert victim.started_s is not None
    assert victim.started_s <= latest_start_s(outcome, arrivals)
    assert victim.ended_s == victim.started_s + 5_000.0  # no job stopped it


def test_the_bound_holds_while_a_canary_has_some_of_the_jobs() -> None:
    active = OrderByValue(attained_service, longest_wait_s=LONGEST_WAIT_S)
    order = CanaryOrder(active, OrderByValue(attained_service), UserShare(0.5))
    policies = Policies(
        order=order, preemption=DisplaceBy(attained_service, safe_s=LEASE_S, round_s=LEASE_S)
    )
    arrivals = short_jobs_against_a_gang()
    outcome = run(arrivals, policies)
    started_s = result(outcome, VICTIM).started_s
    assert started_s is not None
    assert started_s <= latest_start_s(outcome, arrivals)


@pytest.mark.parametrize(("kind", "preemption"), KINDS, ids=str)
def test_without_the_bound_it_waits_until_no_more_of_them_come(
    kind: OrderKind, preemption: PreemptionNumbers
) -> None:
    arrivals = short_jobs_against_a_gang()
    outcome = run(arrivals, of_kind(kind, preemption, inf))
    started_s = result(outcome, VICTIM).started_s
    assert started_s is not None
    assert started_s > max(one.spec.submit_s for one in arrivals)


def service_of_others(record: JobRecord, at_s: float) -> SortKey:
    """Least attained service first, and the victim last: it stops no job itself."""
    return (inf,) if record.job_id == VICTIM else attained_service(record, at_s)


def run_of_others(arrivals: Sequence[Arrival]) -> Outcome:
    policies = Policies(
        order=OrderByValue(service_of_others, longest_wait_s=LONGEST_WAIT_S),
        preemption=DisplaceBy(service_of_others, safe_s=LEASE_S, round_s=LEASE_S),
    )
    return run(arrivals, policies)


@settings(max_examples=10, deadline=None)
@given(
    works_s=st.lists(st.sampled_from([400.0, 900.0, 2_000.0]), min_size=100, max_size=100),
    every_s=st.integers(min_value=150, max_value=400),
    gpus=st.sampled_from([1, 4, 8]),
)
def test_the_bound_holds_where_each_new_job_stops_an_older_one(
    works_s: list[float], every_s: int, gpus: int
) -> None:
    stream = [comes(f"s{n}", float(every_s * n), s, gpus) for n, s in enumerate(works_s)]
    arrivals = [*stream, comes(VICTIM, 500.0, 6_000.0, GPUS, NODES)]
    outcome = run_of_others(arrivals)
    victim = result(outcome, VICTIM)
    assert victim.started_s is not None
    assert victim.started_s <= latest_start_s(outcome, arrivals)
    if victim.started_s >= 500.0 + LONGEST_WAIT_S:
        assert victim.ended_s == victim.started_s + 6_000.0


def test_no_job_is_stopped_for_others_while_an_overdue_one_waits_for_the_nodes() -> None:
    work_s = 550.0
    stream = [comes(f"s{n}", 100.0 * n, work_s, GPUS) for n in range(400)]
    arrivals = [*stream, comes(VICTIM, 500.0, 6_000.0, GPUS, NODES)]
    started_s = result(run_of_others(arrivals), VICTIM).started_s
    assert started_s is not None
    assert started_s <= 500.0 + LONGEST_WAIT_S + work_s
