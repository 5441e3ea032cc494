"""Invariants of the job table: jobs, queue, alarms and allocations agree. For tests."""

from roost_engine.domain.model import JobId
from roost_engine.job_record import JobState, shares_of
from roost_engine.table.job_table import JobTable


def check_invariants(table: JobTable) -> None:
    """Raise AssertionError where the state contradicts itself."""
    table.cluster.check_invariants()
    claimed: dict[tuple[str, int], JobId] = {}
    if table.cluster.seats is not None:
        check_seats(table)
    for job_id in table.placing:
        record = table.jobs[job_id]
        assert record.state is JobState.PLACING, f"{job_id} is {record.state}, not placing"
        assert record.placement is not None
        assert table.cluster.shares(job_id) == shares_of(record.placement)
        for share in table.cluster.shares(job_id):
            for gpu in share.gpu_indices:
                other = claimed.setdefault((share.node, gpu), job_id)
                assert other == job_id, f"{share.node} GPU {gpu}: {other} and {job_id}"
    table.queue.check_invariants()
    awaited = {job_id for _, job_id in table.alarms}
    for job_id in table.waiting:
        is_decided = table.jobs[job_id].placement is not None
        assert job_id in table.queue or job_id in awaited or is_decided, f"{job_id} is lost"
        assert table.jobs[job_id].state is JobState.WAITING, f"{job_id} is not waiting"
        assert not table.cluster.shares(job_id), f"{job_id} waits and holds GPUs"
    for job_id, record in table.jobs.items():
        waits, is_placing = job_id in table.waiting, job_id in table.placing
        assert waits == (record.state is JobState.WAITING), f"{job_id} is {record.state}"
        assert is_placing == (record.state is JobState.PLACING), f"{job_id} is {record.state}"
        assert waits or job_id not in table.queue, f"{job_id} is queued and {record.state}"
        is_clearing = record.state is JobState.CLEARING
        assert is_clearing == (job_id in table.clearing), f"{job_id} is {record.state}"
        if job_id in table.running:
            assert record.state is JobState.RUNNING, f"{job_id} is {record.state}"
            assert table.running[job_id] is record, f"{job_id} has another record"
        is_stopping = record.state is JobState.STOPPING
        assert is_stopping == (job_id in table.stopping), f"{job_id} is {record.state}"


def check_seats(table: JobTable) -> None:
    """Raise AssertionError where jobs share GPUs that may not.

    Jobs that Slurm started elsewhere than planned are not checked.
    """
    seats = table.cluster.seats
    assert seats is not None
    seats.check_invariants()
    for job_id in table.placing:
        spec, partners = table.jobs[job_id].spec, seats.partners(job_id)
        for seat in seats.gpu_seats(job_id):
            node, gpu, _ = seat
            sitting = seats.holders(node, gpu)
            assert len(sitting) <= 2, f"{seat}: {sitting}"
            assert len(set(sitting.values())) == len(sitting), f"{seat}: {sitting}"
        for other in partners:
            assert spec.shares_gpus, f"{job_id} never opted in, and sits beside {other}"
            beside = table.spec_of(other)
            assert beside is not None, f"{other} is not under Roost: {job_id}"
            assert beside.shares_gpus, f"{other} never opted in: {job_id}"
