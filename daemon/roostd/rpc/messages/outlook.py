"""Where a job is in the queue and how long it may run, in the words of operator.proto."""

from collections.abc import Iterator
from math import inf

from roost_engine.domain.model import JobId
from roost_engine.forecast.forecast import Quantiles
from roost_engine.job_record import JobRecord, JobState
from roost_engine.queue.outlook import Expectation, Outlook, QueuePosition, outlooks_of
from roost_proto.v1 import operator_pb2 as pb
from roostd.state import DaemonState

_MOST_PRECEDENCE = 2**31 - 1


def add_outlook(message: pb.Explanation, state: DaemonState, record: JobRecord) -> None:
    """Add to an explanation what is known of the job's turn and of its run time."""
    if record.state is JobState.ENDED:
        return
    outlook = state.engine.outlook(record.job_id, state.clock.now_s())
    if outlook.position is not None:
        message.turn.CopyFrom(_turn(state, outlook, outlook.position))
    if outlook.expectation is not None:
        message.expected_run.CopyFrom(_expected_run(outlook.expectation))


def outlooks(state: DaemonState) -> Iterator[tuple[JobId, Outlook]]:
    """Yield the outlook of each job that waits: for a list of jobs, sorted once."""
    known = (record for _, record in state.engine.known_jobs())
    records = (record for record in known if isinstance(record, JobRecord))
    return outlooks_of(state.engine.policies.order, records)


def add_turn(message: pb.Job, state: DaemonState, outlook: Outlook | None) -> None:
    """Add to a waiting job its place in the queue, and how long it may run."""
    if outlook is None or outlook.position is None:
        return
    message.turn.CopyFrom(_turn(state, outlook, outlook.position))
    job_id = JobId(message.job_id)
    expected = None if state.forecast is None else state.forecast.jobs.get(job_id)
    if expected is not None and expected.run is not None:
        message.expected_run.CopyFrom(_time(expected.run))


def _time(expected: Quantiles) -> pb.ExpectedTime:
    return pb.ExpectedTime(low_s=expected.low_s, median_s=expected.median_s, high_s=expected.high_s)


def _turn(state: DaemonState, outlook: Outlook, position: QueuePosition) -> pb.Turn:
    until_s, now_s = outlook.overtaken_until_s, state.clock.now_s()
    is_known = until_s is not None and until_s < inf
    return pb.Turn(
        position=position.position,
        of_count=position.of_count,
        slurm_position=position.slurm_position,
        order=state.engine.policy_names["order"],
        precedence=min(max(outlook.precedence, -_MOST_PRECEDENCE), _MOST_PRECEDENCE),
        overtaken_for_s=max(until_s - now_s, 0.0) if is_known and until_s is not None else None,
    )


def _expected_run(found: Expectation) -> pb.ExpectedRun:
    return pb.ExpectedRun(
        gpu_s=found.gpu_s,
        median_s=found.median_s,
        low_s=found.low_s,
        high_s=found.high_s,
        similar_count=found.similar_count,
    )
