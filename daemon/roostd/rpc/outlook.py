"""Where a job is in the queue and how long it may run, in the words of operator.proto."""

from math import inf

from roost_engine.job_record import JobRecord, JobState
from roost_engine.queue.outlook import Expectation, Outlook, QueuePosition
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
