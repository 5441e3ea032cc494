"""refusals: how long a job pauses after them, and what takes a placement back without one."""

import pytest
from tests.engine.tables import ONE, Tables

from roost_engine.domain.model import JobId
from roost_engine.job_record import JobState
from roost_engine.table.invariants import check_invariants
from roost_engine.table.refusals import place_again
from roost_engine.testing.builders import job, released, waits


@pytest.fixture
def tables() -> Tables:
    return Tables()


def test_a_refused_job_pauses_twice_as_long_each_time_up_to_300_seconds() -> None:
    tables, pauses_s = Tables(refusal_limit=12), list[float]()
    record = tables.queue(job("1"))
    for number in range(10):
        at_s = 1_000.0 * number
        tables.place(ONE, at_s)
        tables.refuse(ONE, at_s)
        pauses_s.append(record.not_before_s - at_s)
        assert waits(tables.actions)["1"].until_s == record.not_before_s
        assert (record.not_before_s, ONE) in tables.table.alarms
        assert not tables.table.is_ready(record, record.not_before_s - 0.1)
        assert tables.table.is_ready(record, record.not_before_s)
    assert pauses_s == [2, 4, 8, 16, 32, 64, 128, 256, 300, 300]
    assert tables.table.refused_count == 10
    assert tables.table.cluster.free_gpu_count == 8


def test_the_last_refusal_releases_a_job_to_slurm() -> None:
    tables = Tables(refusal_limit=2)
    record = tables.queue(job("1"))
    for at_s in (0.0, 10.0):
        tables.place(ONE, at_s)
        tables.refuse(ONE, at_s)
    expected = "Slurm refused 2 placements, the last: node busy"
    assert released(tables.actions) == {"1": expected}
    assert (record.state, record.reason) == (JobState.RELEASED, expected)
    assert ONE not in tables.table.waiting


def test_only_a_placed_job_can_be_refused(tables: Tables) -> None:
    tables.queue(job("1"))
    for job_id in (ONE, JobId("unknown")):
        tables.refuse(job_id, 0.0)
    assert (tables.table.refused_count, tables.actions) == (0, [])
    assert ONE in tables.table.waiting


def test_a_job_that_is_placed_again_does_not_pause(tables: Tables) -> None:
    record = tables.queue(job("1"))
    tables.place(ONE)
    place_again(tables.table, [ONE], "n1 is down", 5.0, tables.actions)
    check_invariants(tables.table)
    assert (record.state, record.placement) == (JobState.WAITING, None)
    assert waits(tables.actions)["1"].reason == "n1 is down"
    assert ONE in tables.table.queue
    assert tables.table.refused_count == 0
    assert tables.table.cluster.free_gpu_count == 8
