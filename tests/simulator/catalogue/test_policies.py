"""Policies by name: known answers on a hand-worked example, and what a wrong name says."""

import re
from math import inf

import pytest
from tests.simulator.simulated import arrival, cluster, simulate

from roost_engine.cluster.cluster import Cluster
from roost_engine.domain.model import JobId
from roost_engine.engine import EngineConfig, Passing
from roost_engine.policies import KeyedOrder, QueueView
from roost_engine.testing.builders import shape, waiting
from roost_sim.catalogue.compositions import (
    ORDERS,
    POLICIES,
    PolicyInformation,
    PolicyNameError,
    Regime,
    find_policy,
)
from roost_sim.traces.arrival import Arrival

# One node of 8 GPUs is busy until 100; then the order decides. (id, submission, work, GPUs)
LOOKS_AT_ALL = ("themis", "drf", "tetris", "asrpt")
BUSY = ("1", 0.0, 100.0, 8)
WAITING = (
    ("2", 10.0, 50.0, 6),
    ("3", 20.0, 30.0, 8),
    ("4", 30.0, 40.0, 5),
    ("5", 40.0, 90.0, 4),
)


def starts(name: str, *jobs: tuple[str, float, float, int], seed: int = 0) -> dict[str, float]:
    """When each job starts on one node of 8 GPUs."""
    policy = find_policy(name)
    arrivals = [
        Arrival(spec=arrival(job_id, submit_s, work_s, gpus).spec, work_s=work_s, gpu_count=gpus)
        for job_id, submit_s, work_s, gpus in jobs
    ]
    work_s = {JobId(job_id): work_s for job_id, _, work_s, _ in jobs}
    outcome = simulate(
        cluster(1),
        *arrivals,
        policies=policy.build(PolicyInformation(work_s=work_s, seed=seed)),
        config=policy.engine_config(EngineConfig()),
    )
    return {job.job_id: job.started_s for job in outcome.jobs if job.started_s is not None}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # 2 at 100 (2 GPUs left: nobody fits), 3 at 150, 4 at 180 (3 left), 5 at 220.
        ("fifo", {"2": 100, "3": 150, "4": 180, "5": 220}),
        # 3 (30 s), then 4 (40 s), then 2 (50 s), then 5.
        ("sjf", {"3": 100, "4": 130, "2": 170, "5": 220}),
        # GPU-seconds: 4 has 200, 3 has 240, 2 has 300, 5 has 360.
        ("ssf", {"4": 100, "3": 140, "2": 170, "5": 220}),
        # 5 (4 GPUs; 4 are left, nobody fits), then 4 (5), 2 (6), 3 (8).
        ("smallest-first", {"5": 100, "4": 190, "2": 230, "3": 280}),
        # 3 (8), 2 (6), 4 (5), 5 (4).
        ("largest-first", {"3": 100, "2": 130, "4": 180, "5": 220}),
    ],
)
def test_order_on_a_node_that_holds_one_job_at_a_time(
    name: str, expected: dict[str, float]
) -> None:
    assert starts(name, BUSY, *WAITING) == {"1": 0, **expected}


def test_random_order_hangs_on_the_seed_alone() -> None:
    drawn = {seed: starts("random-order", BUSY, *WAITING, seed=seed) for seed in range(8)}
    assert drawn[0] == starts("random-order", BUSY, *WAITING, seed=0)
    assert len({tuple(sorted(found.items())) for found in drawn.values()}) > 1


def test_the_open_gate_lets_small_jobs_pass_a_large_one_for_ever() -> None:
    stream = [(str(number), 40.0 * number, 120.0, 4) for number in range(3, 80)]
    jobs = [("1", 0.0, 150.0, 4), ("2", 1.0, 10.0, 8), *stream]
    patient = starts("fifo+consolidation+patient", *jobs)["2"]
    starved = starts("fifo", *jobs)["2"]
    assert patient < 1000 < 2900 < starved


@pytest.mark.parametrize(("name", "starts_s"), [("fifo", 10), ("fifo-strict", 100)])
def test_consolidation_takes_a_wider_shape_where_strict_waits(name: str, starts_s: float) -> None:
    half_of_each_node = arrival("1", 0, 100, 8, shape(4, 2))
    whole_node = arrival("2", 10, 50, 8, *find_policy(name).shapes(8, 8))
    outcome = simulate(cluster(2), half_of_each_node, whole_node)
    assert outcome.jobs[-1].started_s == starts_s


def test_an_order_keeps_its_keys_or_looks_at_all_jobs_at_once() -> None:
    work_s = {JobId("1"): 1.0}
    information = PolicyInformation(work_s=work_s, seed=0, predict=lambda: work_s)
    for name, part in ORDERS.items():
        order = part.build(information)
        job = waiting(arrival("1", 0, 1).spec)
        view = QueueView(jobs=[job], cluster=Cluster(), at_s=5.0)
        assert order.rank(view) == ["1"]
        assert isinstance(order, KeyedOrder) == (name not in LOOKS_AT_ALL), name
        if isinstance(order, KeyedOrder):
            assert order.key(job, 0.0) == order.key(job, 5.0)


def test_oracles_say_that_they_are() -> None:
    oracles = {name for name in ORDERS if ORDERS[name].regime is Regime.ORACLE}
    assert {"sjf", "ssf"} <= oracles
    for policy in POLICIES.values():
        assert policy.regime is Regime.ORACLE or policy.order not in oracles, policy.name
    assert find_policy("fifo+lwf-1").regime is Regime.ORACLE


def test_a_composition_is_written_with_plus_signs() -> None:
    policy = find_policy("sjf+strict+block+none")
    assert (policy.order, policy.placement, policy.gate) == ("sjf", "strict", "block")
    assert policy.engine_config(EngineConfig()).passing is Passing.NOBODY
    assert policy.regime is Regime.ORACLE


def test_parts_left_off_take_the_default() -> None:
    policy = find_policy("sjf+strict")
    assert (policy.gate, policy.preemption) == ("open", "none")
    assert policy.engine_config(EngineConfig(patience_s=5.0)).patience_s == inf
    patient = find_policy("sjf+strict+patient")
    assert patient.engine_config(EngineConfig(patience_s=5.0)) == EngineConfig(patience_s=5.0)


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("fifi", "no policy 'fifi': did you mean fifo?"),
        ("fifo+consolidate", "no placement 'consolidate': did you mean consolidation?"),
        ("xyz+strict", "no order 'xyz': there are fifo, "),
        ("fifo+strict+open+none+more", "at most order"),
    ],
)
def test_a_wrong_name_says_what_is_nearest(name: str, complaint: str) -> None:
    with pytest.raises(PolicyNameError, match=re.escape(complaint)):
        find_policy(name)
