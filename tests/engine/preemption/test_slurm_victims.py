"""slurm_victims: the jobs that Slurm itself may stop for a job, and when it may stop more."""

from dataclasses import replace
from math import inf

import pytest
from tests.engine.tables import Tables

from roost_engine.cluster.node_sets import NO_NODES, node_set
from roost_engine.domain.events import JobStarted
from roost_engine.domain.model import JobId
from roost_engine.preemption.slurm_victims import slurm_victims
from roost_engine.table.job_table import JobTable
from roost_engine.testing.builders import job, node, share

WAITING = replace(job("9", gpus=2), preempts=("qos:low",))


@pytest.fixture
def table() -> JobTable:
    """Four jobs, the youngest last: two that may be stopped, one spared, one of another QoS."""
    table = Tables().table
    table.cluster.apply_node(node("b"))
    started = (
        ("1", "a", "qos:low", 0.0),
        ("2", "b", "qos:low", 5.0),
        ("3", "b", "qos:low", 30.0),
        ("4", "a", "qos:high", 0.0),
    )
    for at_s, (job_id, name, kind, spared_until_s) in enumerate(started):
        table.start(
            JobStarted(
                at_s=float(at_s),
                job_id=JobId(job_id),
                shares=(share(name, at_s),),
                preempt_class=kind,
                spared_until_s=spared_until_s,
            )
        )
    return table


def test_the_youngest_that_slurm_may_stop_comes_first(table: JobTable) -> None:
    assert slurm_victims(table, WAITING, NO_NODES, 10.0) == (["2", "1"], 30.0)
    assert slurm_victims(table, WAITING, NO_NODES, 4.0) == (["1"], 5.0)


def test_all_count_where_slurm_waits_for_those_that_it_spares(table: JobTable) -> None:
    assert slurm_victims(table, WAITING, NO_NODES, inf) == (["3", "2", "1"], inf)


def test_jobs_on_nodes_that_are_cleared_for_others_are_left_out(table: JobTable) -> None:
    assert slurm_victims(table, WAITING, node_set([1]), 10.0) == (["1"], inf)


def test_a_job_for_which_slurm_stops_none_has_no_victims(table: JobTable) -> None:
    assert slurm_victims(table, job("9"), NO_NODES, 10.0) == ([], inf)
