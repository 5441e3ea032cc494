"""wait_reports: what the record of a waiting job says, and when a report follows."""

from dataclasses import replace
from math import inf

import pytest
from tests.engine.tables import Tables

from roost_engine.cluster.cluster import Cluster
from roost_engine.domain.actions import Action, Wait
from roost_engine.domain.lazy import Lazy
from roost_engine.job_record import JobRecord
from roost_engine.placement.candidates import Candidates
from roost_engine.queue.group import Group, demand_of
from roost_engine.table.wait_reports import report_capacity, report_group, report_wait
from roost_engine.testing.builders import job


@pytest.fixture
def record() -> JobRecord:
    return Tables().queue(job("1"))


def group_of(record: JobRecord) -> Group:
    return Group(1, demand_of(record.spec), record.spec)


def said(actions: list[Action]) -> list[tuple[str, float | None]]:
    return [(wait.reason, wait.until_s) for wait in actions if isinstance(wait, Wait)]


def a_failure(record: JobRecord) -> Candidates:
    return Candidates(Cluster(), record.spec.shapes[0], (), Lazy.of((("no GPU is free", 1),)))


def test_a_wait_is_reported_once_until_its_reason_or_its_end_changes(record: JobRecord) -> None:
    actions: list[Action] = []
    for reason, until_s in (("x", 1.0), ("x", 1.0), ("x", 2.0), ("y", 2.0), ("y", None)):
        report_wait(record, reason, until_s, actions)
    assert said(actions) == [("x", 1.0), ("x", 2.0), ("y", 2.0), ("y", None)]


def test_a_job_without_capacity_says_what_it_wants_and_why_nodes_are_ruled_out(
    record: JobRecord,
) -> None:
    actions: list[Action] = []
    report_capacity(record, a_failure(record), actions)
    (wait,) = actions
    assert isinstance(wait, Wait)
    assert (wait.reason, wait.until_s) == ("waits for 1 GPU on one node", None)
    assert wait.exclusions.get() == (("no GPU is free", 1),)


def test_a_job_that_can_only_have_certain_indices_names_them(record: JobRecord) -> None:
    actions: list[Action] = []
    record.spec = replace(record.spec, fixed_indices=(2, 3))
    record.hand_over_at_s = 40.0
    report_capacity(record, a_failure(record), actions)
    ((reason, until_s),) = said(actions)
    assert reason.startswith("waits for GPUs 2,3 of a node")
    assert until_s == 40.0


@pytest.mark.parametrize(("hand_over_s", "until_s"), [(30.0, 35.0), (inf, None)])
def test_a_limit_holds_a_job_back_until_it_is_released_to_slurm(
    record: JobRecord, hand_over_s: float, until_s: float | None
) -> None:
    actions: list[Action] = []
    group = group_of(record)
    group.limit, record.limited_since_s = "QOS high", 5.0
    report_group(record, group, hand_over_s, actions)
    assert said(actions) == [("waits for Slurm's limit QOS high", until_s)]


def test_a_group_waits_for_a_limit_on_nodes_or_for_capacity(record: JobRecord) -> None:
    actions: list[Action] = []
    group = group_of(record)
    report_group(record, group, inf, actions)
    assert actions == []
    group.note_failure(a_failure(record), "MaxCPUsPerNode main")
    report_group(record, group, inf, actions)
    group.note_failure(a_failure(record))
    report_group(record, group, inf, actions)
    assert said(actions) == [
        ("waits for Slurm's limit MaxCPUsPerNode main", None),
        ("waits for 1 GPU on one node", None),
    ]
