"""Policies run on a few jobs and nodes of 8 GPUs, for answers worked out by hand."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf

from tests.simulator.simulated import arrival, cluster, simulate

from roost_engine.domain.model import JobId
from roost_engine.engine import Engine, EngineConfig
from roost_engine.job_record import JobRecord
from roost_engine.testing.builders import waiting
from roost_sim.catalogue.compositions import find_policy
from roost_sim.figures.outcome import JobResult
from roost_sim.information.policy_information import PolicyInformation
from roost_sim.runs.driver import Driver
from roost_sim.traces.arrival import Arrival
from roost_sim.traces.shapes import ShapeRule, tightest_shapes
from roost_sim.worlds.world import FullSpeed

NO_INFORMATION = PolicyInformation(work_s={}, seed=0)
Job = tuple[str, float, float, int]  # id, submission, work, GPUs


def run(
    name: str,
    *jobs: Job,
    nodes: int = 1,
    restart_s: float = 0.0,
    users: Mapping[str, int] | None = None,
    predicted: Mapping[str, float] | None = None,
) -> Sequence[JobResult]:
    """Let some jobs run on nodes of 8 GPUs."""
    policy = find_policy(name)
    arrivals = [job_arrival(job, (users or {}).get(job[0]), policy.shapes) for job in jobs]
    work_s = {JobId(job_id): work for job_id, _, work, _ in jobs}
    told = {JobId(job_id): length for job_id, length in (predicted or {}).items()}
    information = PolicyInformation(
        work_s=work_s,
        seed=0,
        predict=lambda: told or work_s,
        restart_s=lambda job_id, gpu_count: restart_s,
        cluster_gpu_count=8 * nodes,
    )
    driver = Driver(
        Engine(policy.engine_config(EngineConfig(patience_s=inf)), policy.build(information)),
        FullSpeed(),
        restart_s=lambda job_id, gpu_count: restart_s,
        reports_speed=policy.asks_speed,
        progress=information.progress,
    )
    outcome = driver.run(cluster(nodes), arrivals)
    driver.engine.check_invariants()
    return outcome.jobs


def job_arrival(
    job: Job, user_id: int | None = None, shapes: ShapeRule = tightest_shapes
) -> Arrival:
    """Make a job that may run on the shapes of a rule."""
    made = arrival(*job, *shapes(job[3], 8))
    user = -1 if user_id is None else user_id
    return replace(made, spec=replace(made.spec, user_id=user))


def ends(results: Sequence[JobResult]) -> dict[str, float | None]:
    """When each job ended."""
    return {result.job_id: result.ended_s for result in results}


def starts(results: Sequence[JobResult]) -> dict[str, float | None]:
    """When each job first started."""
    return {result.job_id: result.started_s for result in results}


def running(job_id: str, gpus: int, started_s: float) -> JobRecord:
    """The record of a job that has run since a time."""
    record = waiting(arrival(job_id, started_s, 1.0, gpus).spec)
    record.started_s = started_s
    return record


def starts_on_one_node(
    name: str, *jobs: tuple[str, float, float, int], seed: int = 0
) -> dict[str, float]:
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
