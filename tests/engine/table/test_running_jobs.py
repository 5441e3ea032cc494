"""running_jobs: jobs without a lease and their ranking, as listing and sorting give them."""

from math import inf

from hypothesis import given
from hypothesis import strategies as st

from roost_engine.domain.model import JobId
from roost_engine.job_record import JobRecord
from roost_engine.preemption.rules import LasMovesConfig, las_moves
from roost_engine.table.running_jobs import RunningJobs
from roost_engine.testing.builders import job, waiting

# Few different numbers, so that jobs have attained as much and were submitted at the same time.
_few_s = st.sampled_from([0.0, 0.1, 0.3, 7.0, 100.0])
_job_ids = st.integers(1, 9).map(str).map(JobId)
_starts = st.tuples(
    _job_ids, st.sampled_from([1, 2, 3, 8]), _few_s, _few_s, st.sampled_from([0.0, 5.0, 60.0])
)
_moves = st.lists(st.tuples(_few_s, st.one_of(_starts, _job_ids)), max_size=30)


def started(
    job_id: JobId, gpus: int, submit_s: float, earlier_s: float, at_s: float, lease_s: float
) -> JobRecord:
    record = waiting(job(job_id, gpus=gpus, submit_s=submit_s))
    record.earlier_run_s, record.started_s = earlier_s, at_s
    record.safe_until_s = at_s + lease_s
    return record


@given(_moves)
def test_what_it_keeps_is_what_listing_and_sorting_give(
    moves: list[tuple[float, tuple[JobId, int, float, float, float] | JobId]],
) -> None:
    running, kept, at_s = RunningJobs(), dict[JobId, JobRecord](), 0.0
    rule = las_moves(LasMovesConfig())
    for after_s, move in moves:
        at_s += after_s
        job_id = move if isinstance(move, str) else move[0]
        running.discard(job_id)
        kept.pop(job_id, None)
        if not isinstance(move, str):
            _, gpus, submit_s, earlier_s, lease_s = move
            kept[job_id] = started(job_id, gpus, submit_s, earlier_s, at_s, lease_s)
            running.add(kept[job_id])
        expected = [record for record in kept.values() if record.safe_until_s <= at_s]
        stoppable = running.stoppable(at_s)
        assert [id(record) for record in stoppable] == [id(record) for record in expected]
        assert len(running) == len(kept)

        ranked = rule.first_to_go(stoppable, at_s)
        slowly = rule.first_to_go(expected, at_s)
        assert [record.job_id for record in ranked] == [record.job_id for record in slowly]
        values = stoppable.by_attained_service(at_s).negative_values
        assert values == [-record.attained_gpu_s(at_s) for record in slowly]


def test_the_jobs_without_a_lease_are_the_same_object_while_they_are_the_same_jobs() -> None:
    running = RunningJobs()
    running.add(started(JobId("1"), 1, 0.0, 0.0, at_s=0.0, lease_s=10.0))
    running.add(started(JobId("2"), 1, 0.0, 0.0, at_s=0.0, lease_s=20.0))
    first = running.stoppable(10.0)
    running.discard(JobId("2"))
    assert running.stoppable(30.0) is first
    running.discard(JobId("1"))
    assert not running.stoppable(30.0)
    assert [record.job_id for record in first] == ["1"]  # what was listed stays as it was


def test_many_jobs_and_a_lease_without_end() -> None:
    running = RunningJobs()
    for number in range(200):
        lease_s = inf if number % 2 else float(number)
        running.add(started(JobId(str(number)), 1, 0.0, float(number), 0.0, lease_s))
    stoppable = running.stoppable(500.0)
    assert [record.job_id for record in stoppable] == [str(one) for one in range(0, 200, 2)]
    assert stoppable.by_attained_service(500.0).jobs[0].job_id == "198"
