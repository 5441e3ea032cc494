"""Curves of runs that can be drawn by hand."""

from dataclasses import replace

import numpy as np
import pytest
from tests.simulator.sweeps.cases import template

from roost_engine.domain.model import JobId, NodeName, NodeShare
from roost_sim.clusters.cluster_spec import ClusterSpec
from roost_sim.clusters.presets import preset
from roost_sim.figures.metrics import Span, measure
from roost_sim.figures.occupancy import Holds
from roost_sim.figures.outcome import JobResult, Outcome
from roost_sim.runs.mechanism import Mechanism
from roost_sim.runs.simulation import Report, simulate
from roost_sim.sweeps.run_curves import (
    HEAT_COLUMNS,
    HEAT_DIGITS,
    QUANTILES,
    QUEUE_POINTS,
    Curves,
    HoldLog,
    curves_of,
)
from roost_sim.worlds.fidelity import Regime

WHOLE = Span(warm_up_frac=0, cool_down_frac=0)
SMALL = preset("small")  # 8 nodes of 8 GPUs


def job(
    submit_s: float, started_s: float | None, ended_s: float | None, left_out: str = ""
) -> JobResult:
    return JobResult(
        job_id=JobId("1"),
        submit_s=submit_s,
        work_s=1,
        gpu_count=8,
        started_s=started_s,
        ended_s=ended_s,
        held_gpu_count=8,
        tier=0 if started_s is not None else None,
        left_out=left_out,
    )


def curves(*jobs: JobResult, holds: HoldLog | None = None) -> Curves:
    outcome = Outcome(jobs=jobs, event_count=0, decision_s=())
    metrics = measure(outcome, SMALL.gpu_count, WHOLE, holds=Holds())
    report = Report(
        outcome=outcome,
        metrics=metrics,
        regime=Regime.NONE,
        wall_s=0,
        mechanism=Mechanism.LEASE,
    )
    return curves_of(report, WHOLE, holds or holds_of(*jobs))


def holds_of(*jobs: JobResult) -> HoldLog:
    """Of jobs that were never stopped."""
    holds = HoldLog(SMALL)
    for one in jobs:
        if one.started_s is not None and one.ended_s is not None:
            holds(share(SMALL, 0, 8), one.started_s, one.ended_s)
    return holds


def share(cluster: ClusterSpec, node: int, gpu_count: int) -> tuple[NodeShare, ...]:
    return (NodeShare(NodeName(cluster.nodes[node].name), tuple(range(gpu_count))),)


def test_the_queue_is_the_jobs_that_have_arrived_and_not_started() -> None:
    # 0 to 100 s. The first waits from 0 to 50, the second from 25 to 50.
    queue = curves(job(0, 50, 100), job(25, 50, 60)).queue
    assert len(queue) == QUEUE_POINTS
    assert queue[: QUEUE_POINTS // 4] == [1.0] * (QUEUE_POINTS // 4)
    assert queue[QUEUE_POINTS // 4 : QUEUE_POINTS // 2] == [2.0] * (QUEUE_POINTS // 4)
    assert queue[QUEUE_POINTS // 2 :] == [0.0] * (QUEUE_POINTS // 2)


def test_a_preempted_job_is_in_the_queue_again() -> None:
    # 0 to 100 s, on two nodes from 0 to 25 and from 75 on: it waits in between.
    holds = HoldLog(SMALL)
    for begin_s, end_s in ((0.0, 25.0), (75.0, 100.0)):
        holds(share(SMALL, 0, 8) + share(SMALL, 1, 8), begin_s, end_s)
    quarter = QUEUE_POINTS // 4
    queue = curves(job(0, 0, 100), holds=holds).queue
    assert queue == [0.0] * quarter + [1.0] * (2 * quarter) + [0.0] * quarter


def test_a_wait_shorter_than_a_part_counts_for_its_share_of_the_part() -> None:
    part_s = 1000 / QUEUE_POINTS
    queue = curves(job(0, part_s / 2, 1000)).queue
    assert (queue[0], queue[1]) == (0.5, 0)


def test_a_job_that_could_never_start_is_not_in_the_queue() -> None:
    found = curves(job(0, 0, 10), job(0, None, None, left_out="too large"))
    assert set(found.queue) == {0.0}
    assert found.left_out == [("too large", 1)]
    assert found.tier_counts == (1, 0, 0)


def test_the_digest_tells_which_jobs_were_left_out() -> None:
    there, gone = job(0, 0, 10), job(0, None, None, left_out="too large")
    other = replace(gone, job_id=JobId("2"))
    digests = [curves(there, *left_out).left_out_digest for left_out in ((), (gone,), (other,))]
    assert digests[0] == ""
    assert len(set(digests)) == 3
    assert curves(there, gone).left_out_digest == digests[1]


def test_heat_is_the_busy_share_of_a_node() -> None:
    holds = HoldLog(SMALL)
    holds(share(SMALL, 2, 4), 0.0, 50.0)
    holds(share(SMALL, 2, 8), 50.0, 75.0)
    busy = holds.busy_frac(0.0, 100.0)
    half, quarter = HEAT_COLUMNS // 2, HEAT_COLUMNS // 4
    assert busy[2].tolist() == [0.5] * half + [1.0] * quarter + [0.0] * quarter
    assert np.delete(busy, 2, axis=0).max() == 0
    assert holds.names()[2] == (SMALL.nodes[2].name, SMALL.nodes[2].name)


def test_many_nodes_share_64_rows() -> None:
    philly = preset("philly")
    holds = HoldLog(philly)
    assert len(holds.busy_frac(0, 1)) == len(holds.names()) == 64
    assert holds.names()[0][0] == philly.nodes[0].name
    assert holds.names()[-1][1] == philly.nodes[-1].name


def test_job_times_are_cut_down_to_quantiles() -> None:
    few = curves(job(0, 0, 30), job(0, 0, 10)).jct_s
    assert few == [10, 30]
    many = curves(*(job(0, 0, number) for number in range(1, 1001))).jct_s
    assert len(many) == QUANTILES
    # Of 1000 jobs in 200 parts of 5: the third of the first part, and of the last.
    assert (many[0], many[-1]) == (3, 998)


def test_nothing_at_all_has_curves() -> None:
    found = curves()
    assert (found.jct_s, found.end_s, set(found.queue), found.left_out) == ([], 0, {0.0}, [])


def test_the_heat_of_a_run_adds_up_to_its_occupancy() -> None:
    holds = HoldLog(SMALL)
    report = simulate(replace(template(), on_hold=holds))
    jobs = report.outcome.jobs
    busy = holds.busy_frac(0.0, max(job.ended_s or 0.0 for job in jobs))
    assert report.metrics.occupancy == pytest.approx(busy.mean())


def test_heat_travels_as_letters() -> None:
    holds = HoldLog(SMALL)
    holds(share(SMALL, 0, 4), 0.0, 50.0)
    holds(share(SMALL, 0, 8), 50.0, 100.0)
    heat = curves(job(0, 0, 100), holds=holds).heat
    # A half is step 31.5 of 63, rounded to the even 32.
    assert heat[0] == HEAT_DIGITS[32] * (HEAT_COLUMNS // 2) + "_" * (HEAT_COLUMNS // 2)
    assert heat[1] == "0" * HEAT_COLUMNS
