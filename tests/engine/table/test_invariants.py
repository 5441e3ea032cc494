"""table_invariants: contradictions between jobs, queue and allocations are found."""

import pytest
from tests.engine.tables import ONE, TWO, Tables

from roost_engine.job_record import JobState
from roost_engine.table.invariants import check_invariants
from roost_engine.testing.builders import job


@pytest.fixture
def tables() -> Tables:
    return Tables()


def test_the_invariants_catch_a_job_in_two_states_and_a_lost_job(tables: Tables) -> None:
    record = tables.queue(job("1"))
    record.state = JobState.RUNNING
    with pytest.raises(AssertionError, match="not waiting"):
        check_invariants(tables.table)
    record.state = JobState.WAITING
    tables.table.queue.remove(ONE)
    with pytest.raises(AssertionError, match="1 is lost"):
        check_invariants(tables.table)


def test_the_invariants_catch_two_placed_jobs_on_one_gpu(tables: Tables) -> None:
    for job_id in (ONE, TWO):
        tables.queue(job(job_id))
    tables.place(ONE)
    with pytest.raises(AssertionError, match="a GPU 0: 1 and 2"):
        tables.place(TWO)
