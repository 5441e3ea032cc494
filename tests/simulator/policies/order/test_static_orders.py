"""Static orders on a node that holds one job at a time."""

import pytest
from tests.simulator.simulated import arrival, cluster, simulate

from roost_engine.domain.model import JobId
from roost_engine.engine import EngineConfig
from roost_sim.catalogue.compositions import (
    PolicyInformation,
    find_policy,
)
from roost_sim.traces.arrival import Arrival

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
        # 2 at 100 (2 GPUs left: no job fits), 3 at 150, 4 at 180 (3 left), 5 at 220.
        ("fifo", {"2": 100, "3": 150, "4": 180, "5": 220}),
        # 3 (30 s), then 4 (40 s), then 2 (50 s), then 5.
        ("sjf", {"3": 100, "4": 130, "2": 170, "5": 220}),
        # GPU-seconds: 4 has 200, 3 has 240, 2 has 300, 5 has 360.
        ("ssf", {"4": 100, "3": 140, "2": 170, "5": 220}),
        # 5 (4 GPUs; 4 are left, no job fits), then 4 (5), 2 (6), 3 (8).
        ("smallest-first", {"5": 100, "4": 190, "2": 230, "3": 280}),
        # 3 (8), 2 (6), 4 (5), 5 (4).
        ("largest-first", {"3": 100, "2": 130, "4": 180, "5": 220}),
    ],
)
def test_order_on_a_node_that_holds_one_job_at_a_time(
    name: str, expected: dict[str, float]
) -> None:
    assert starts(name, BUSY, *WAITING) == {"1": 0, **expected}


def test_random_order_depends_on_the_seed_alone() -> None:
    drawn = {seed: starts("random-order", BUSY, *WAITING, seed=seed) for seed in range(8)}
    assert drawn[0] == starts("random-order", BUSY, *WAITING, seed=0)
    assert len({tuple(sorted(found.items())) for found in drawn.values()}) > 1
