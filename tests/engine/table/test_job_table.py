"""job_table: one state a job, and what follows when it changes."""

from dataclasses import replace
from math import inf

import pytest
from tests.engine.tables import ONE, THREE, TWO, Tables

from roost_engine.domain.events import JobStarted, JobWithdrawn, WaitSoFar
from roost_engine.domain.model import JobSpec
from roost_engine.job_record import JobState
from roost_engine.table.invariants import check_invariants
from roost_engine.testing.builders import job, preempted, released, share, waits


@pytest.fixture
def tables() -> Tables:
    return Tables()


# -- queueing ----------------------------------------------------------------------------------


def test_a_queued_job_is_offered_gpus_at_once(tables: Tables) -> None:
    record = tables.queue(job("1"), at_s=5.0)
    assert ONE in tables.table.queue
    assert (record.state, record.queued_s, tables.actions) == (JobState.WAITING, 5.0, [])


def test_a_job_with_a_later_begin_time_is_examined_then(tables: Tables) -> None:
    record = tables.queue(job("1", eligible_s=60.0), at_s=5.0)
    assert ONE not in tables.table.queue
    assert tables.table.alarms == [(60.0, ONE)]
    assert waits(tables.actions)["1"].until_s == 60.0
    assert record.queued_s == 60.0
    assert [tables.table.is_ready(record, at_s) for at_s in (59.9, 60.0)] == [False, True]
    tables.table.offer_later(ONE, 59.9)
    assert ONE not in tables.table.queue
    tables.table.offer_later(ONE, 60.0)
    assert ONE in tables.table.queue


def test_a_job_that_is_queued_again_while_it_waits_keeps_its_place_in_time(tables: Tables) -> None:
    tables.queue(job("1", gpus=2), at_s=5.0)
    assert tables.queue(job("1", gpus=4), at_s=50.0).queued_s == 5.0
    tables.place(ONE, 60.0, 0, 1, 2, 3)
    assert tables.queue(job("1", gpus=4), at_s=70.0).queued_s == 5.0
    assert tables.table.cluster.free_gpu_count == 8


def test_a_job_that_ran_waits_from_its_requeue_on(tables: Tables) -> None:
    tables.queue(job("1"), at_s=5.0)
    tables.start(ONE, share("a", 0), at_s=10.0)
    record = tables.queue(job("1"), at_s=50.0)
    assert (record.queued_s, record.earlier_run_s, record.stop_count) == (50.0, 40.0, 1)
    assert tables.table.cluster.free_gpu_count == 8


def test_a_change_of_priority_alone_keeps_a_placement(tables: Tables) -> None:
    tables.queue(job("1"))
    tables.place(ONE)
    tables.table.change(job("1", priority=9), 5.0, tables.actions)
    record = tables.table.jobs[ONE]
    assert (record.state, record.spec.priority) == (JobState.PLACING, 9)
    tables.table.change(job("1", gpus=2, priority=9), 6.0, tables.actions)
    check_invariants(tables.table)
    assert tables.table.jobs[ONE].state is JobState.WAITING


# -- waits -------------------------------------------------------------------------------------


# -- runs --------------------------------------------------------------------------------------


def test_a_placed_job_holds_its_gpus_until_its_deadline(tables: Tables) -> None:
    record = tables.queue(job("1", gpus=2))
    tables.place(ONE, 100.0, 2, 3)
    assert tables.table.cluster.shares(ONE) == (share("a", 2, 3),)
    assert record.start_deadline_s == 110.0
    assert (110.0, ONE) in tables.table.alarms


def test_a_start_is_a_run_only_once(tables: Tables) -> None:
    record = tables.queue(job("1"))
    tables.place(ONE)
    assert tables.start(ONE, share("a", 5), at_s=3.0) is record
    assert (record.state, record.started_s) == (JobState.RUNNING, 3.0)
    assert tables.table.cluster.shares(ONE) == (share("a", 5),)  # Slurm's choice, not the plan
    assert tables.start(ONE, share("a", 5), at_s=9.0) is None
    assert record.started_s == 3.0


def test_a_job_that_ran_before_the_engine_began_started_then(tables: Tables) -> None:
    record = tables.start(ONE, share("a", 0), at_s=3.0, since_s=-50.0, spec=job("1"))
    assert record is not None
    assert (record.started_s, record.run_s(50.0)) == (-50.0, 100.0)


def test_a_job_that_is_not_under_roost_is_observed(tables: Tables) -> None:
    assert tables.start(ONE, share("a", 0), at_s=3.0) is None
    assert ONE not in tables.table.jobs
    assert tables.table.observed[ONE].started_s == 3.0
    tables.start(ONE, share("a", 0, 1), at_s=9.0)
    assert tables.table.observed[ONE].started_s == 3.0
    assert tables.table.cluster.free_gpu_count == 6
    tables.end(ONE, at_s=20.0)
    ended = tables.table.find(ONE)
    assert ended is not None
    assert ended.ended_s == 20.0
    assert tables.table.cluster.free_gpu_count == 8


def test_the_end_of_an_observed_run_is_the_one_that_was_told_last(tables: Tables) -> None:
    """A GPU that jobs have in parts is free once the last of them ends, if that has a limit."""
    for end_s, ends in ((50.0, [(50.0, ONE)]), (90.0, [(90.0, ONE)]), (None, [])):
        tables.table.start(JobStarted(at_s=3.0, job_id=ONE, shares=(share("a", 0),), end_s=end_s))
        assert [*tables.table.ends(3.0)] == ends


def test_runs_end_by_their_time_limits_in_order_with_those_of_starting_jobs(
    tables: Tables,
) -> None:
    tables.queue(job("1", time_limit_s=100.0))
    tables.queue(job("2", time_limit_s=20.0))
    tables.queue(job("3"))
    tables.start(ONE, share("a", 0), at_s=10.0)
    tables.start(THREE, share("a", 1), at_s=10.0)
    assert list(tables.table.ends(50.0)) == [(110.0, ONE)]
    tables.place(TWO, 50.0, 2)
    assert list(tables.table.ends(50.0)) == [(70.0, TWO), (110.0, ONE)]
    assert list(tables.table.ends(95.0)) == [(110.0, ONE), (115.0, TWO)]
    tables.end(ONE, at_s=60.0)
    tables.end(TWO, at_s=60.0)
    assert list(tables.table.ends(60.0)) == []


def test_a_job_that_is_asked_to_stop_has_until_its_deadline(tables: Tables) -> None:
    record = tables.queue(job("1"))
    tables.start(ONE, share("a", 0))
    tables.table.running.add(tables.table.jobs[ONE])
    tables.table.ask_to_stop(record, "a more urgent job", TWO, 100.0, tables.actions)
    check_invariants(tables.table)
    assert preempted(tables.actions) == {"1": "2"}
    assert (record.state, record.safe_until_s) == (JobState.STOPPING, 160.0)
    assert tables.table.is_awaited(160.0, ONE)
    assert not tables.table.is_awaited(110.0, ONE)


def test_alarms_of_jobs_that_wait_or_start_matter(tables: Tables) -> None:
    tables.queue(job("1"))
    assert tables.table.is_awaited(5.0, ONE)
    tables.place(ONE)
    assert tables.table.is_awaited(5.0, ONE)
    tables.start(ONE, share("a", 0))
    assert not tables.table.is_awaited(5.0, ONE)
    tables.table.running.add(tables.table.jobs[ONE])
    assert tables.table.is_awaited(inf, ONE)  # no lease was granted
    tables.end(ONE)
    assert not tables.table.is_awaited(5.0, ONE)


# -- ends --------------------------------------------------------------------------------------


def test_the_oldest_ended_job_is_forgotten_first() -> None:
    tables = Tables(ended_job_count=2)
    for job_id in (ONE, TWO, THREE):
        tables.queue(job(job_id))
    for at_s, job_id in enumerate((TWO, ONE, THREE)):
        tables.end(job_id, float(at_s))
    assert list(tables.table.ended) == [ONE, THREE]
    assert tables.table.ended[ONE].state is JobState.ENDED
    assert tables.table.find(TWO) is None


@pytest.mark.parametrize("how", ["waiting", "placing", "observed"])
def test_a_withdrawn_job_holds_nothing_and_says_why(tables: Tables, how: str) -> None:
    if how == "observed":
        tables.start(ONE, share("a", 0))
    else:
        tables.queue(job("1"))
    if how == "placing":
        tables.place(ONE)
    tables.table.withdraw(JobWithdrawn(at_s=5.0, job_id=ONE, reason="held by its user"))
    check_invariants(tables.table)
    known = tables.table.find(ONE)
    assert known is not None
    assert (known.state, known.reason) == (JobState.RELEASED, "held by its user")
    assert tables.table.cluster.free_gpu_count == 8
    assert ONE not in tables.table.queue


# -- waits that began before the engine --------------------------------------------------------


def test_a_wait_of_an_earlier_engine_continues() -> None:
    tables = Tables()
    record = tables.queue(job("1"), at_s=500.0, wait=WaitSoFar(since_s=120.0))
    assert record.queued_s == 120.0
    assert ONE in tables.table.queue
    assert record.wait == WaitSoFar(since_s=120.0)


def test_a_wait_never_begins_in_the_future() -> None:
    record = Tables().queue(job("1"), at_s=500.0, wait=WaitSoFar(since_s=4_000.0))
    assert record.queued_s == 500.0


def test_a_pause_after_a_refusal_and_the_count_of_refusals_go_on() -> None:
    earlier = Tables(refusal_limit=2)
    earlier.queue(job("1"), at_s=10.0)
    earlier.place(ONE, 10.0)
    earlier.refuse(ONE, 11.0)
    wait = earlier.table.jobs[ONE].wait
    assert (wait.refusal_count, wait.not_before_s) == (1, 13.0)

    tables = Tables(refusal_limit=2)
    record = tables.queue(job("1"), at_s=12.0, wait=wait)
    (told,) = waits(tables.actions).values()
    assert (told.reason, told.until_s) == ("pauses after a refusal: node busy", 13.0)
    assert ONE not in tables.table.queue
    assert record.wait == wait
    tables.table.offer_later(ONE, 13.0)
    tables.place(ONE, 13.0)
    tables.refuse(ONE, 14.0)
    assert "Slurm refused 2 placements" in released(tables.actions)["1"]


def test_a_pause_that_outlasts_the_begin_time_is_kept() -> None:
    tables = Tables()
    wait = WaitSoFar(since_s=20.0, refusal_count=1, not_before_s=30.0, pause_reason="pauses")
    tables.queue(job("1", eligible_s=20.0), at_s=12.0, wait=wait)
    tables.table.offer_later(ONE, 20.0)
    assert ONE not in tables.table.queue
    tables.table.offer_later(ONE, 30.0)
    assert ONE in tables.table.queue


def test_a_wait_that_the_table_knows_itself_is_not_replaced() -> None:
    tables = Tables()
    tables.queue(job("1"), at_s=10.0)
    assert tables.queue(job("1"), at_s=12.0, wait=WaitSoFar(since_s=1.0)).queued_s == 10.0


def test_a_job_that_ran_before_the_engine_keeps_the_length_of_its_wait() -> None:
    tables = Tables()
    event = JobStarted(
        at_s=50.0, job_id=ONE, shares=(share("a", 0),), job=job("1"), since_s=30.0, queued_s=10.0
    )
    record = tables.table.start(event)
    assert record is not None
    assert (record.queued_s, record.started_s) == (10.0, 30.0)


# -- jobs that can only have certain GPU indices -------------------------------------------------


def fixed(job_id: str, *indices: int) -> JobSpec:
    return replace(job(job_id, gpus=len(indices)), fixed_indices=indices)


def test_a_pin_that_slurm_makes_permanent_disturbs_no_placement_and_no_pause() -> None:
    tables = Tables()
    tables.queue(job("1", gpus=2))
    tables.place(ONE, 0.0, 0, 1)
    tables.table.change(fixed("1", 0, 1), 1.0, tables.actions)
    record = tables.table.jobs[ONE]
    assert (record.state, record.hand_over_at_s) == (JobState.PLACING, None)
    tables.refuse(ONE, 10.0)
    assert record.hand_over_at_s == 42.0  # 30 s after the pause of 2 s
    tables.table.offer_later(ONE, 12.0)
    tables.table.change(replace(fixed("1", 0, 1), priority=9), 13.0, tables.actions)
    assert tables.table.jobs[ONE] is record
    assert (record.refusal_count, record.hand_over_at_s) == (1, 42.0)
    assert not tables.table.is_overdue(ONE, 41.9)
    assert tables.table.is_overdue(ONE, 42.0)


def test_the_time_limit_of_fixed_indices_outlives_the_engine() -> None:
    tables = Tables()
    record = tables.queue(fixed("1", 2), at_s=5.0)
    assert record.hand_over_at_s == 35.0
    again = Tables().queue(fixed("1", 2), at_s=20.0, wait=record.wait)
    assert again.hand_over_at_s == 35.0


def test_a_job_that_may_have_any_gpus_again_has_no_time_limit() -> None:
    tables = Tables()
    record = tables.queue(fixed("1", 2))
    tables.table.change(job("1"), 1.0, tables.actions)
    assert record.hand_over_at_s is None


def test_a_job_that_roost_only_advises_is_not_handed_over() -> None:
    record = Tables().queue(replace(fixed("1", 2), binding=False))
    assert record.hand_over_at_s is None
