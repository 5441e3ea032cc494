"""Where a waiting job is in the queue, and what is expected of it: for people, not for decisions.

Reading it changes nothing, and costs a pass nothing: each job remembers its sort key.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from math import inf

from roost_engine.domain.model import JobId
from roost_engine.job_record import JobRecord, JobState
from roost_engine.policies.heuristics import submission_key
from roost_engine.policies.protocols import BoundedOrder, OrderPolicy, SortKey
from roost_engine.prediction.predictors import Predictors
from roost_engine.prediction.run_time.run_times import RunTimes
from roost_engine.prediction.service import ServiceIndex, expected_s
from roost_engine.queue.orders import ExpectingOrder

LOW_FRAC, HIGH_FRAC = 0.1, 0.9  # the ends of an 80 % interval


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePosition:
    """Where a job is among the waiting jobs under Roost.

    Attributes:
        position: from 1, in the order that decides, or would decide in shadow mode.
        slurm_position: from 1, by Slurm's priority.
        of_count: how many jobs wait.
    """

    position: int
    slurm_position: int
    of_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """How long a job may run, by the jobs like it.

    Attributes:
        gpu_s: expected GPU-seconds that are left, as the order counts them.
        median_s, low_s, high_s: remaining run time, with its 80 % interval.
        similar_count: of similar jobs that ended, recent ones counting most.
    """

    gpu_s: float
    median_s: float
    low_s: float
    high_s: float
    similar_count: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What people may ask of a job's place in the queue.

    Attributes:
        position: None: the job does not wait, or was never offered GPUs.
        expectation: None: no policy predicts run times.
        overtaken_until_s: jobs that become eligible after this engine time do not overtake it;
            None: the order does not bound what overtakes a job.
        precedence: see JobSpec.
    """

    position: QueuePosition | None = None
    expectation: Expectation | None = None
    overtaken_until_s: float | None = None
    precedence: int = 0


def outlook_of(
    job: JobRecord,
    order: OrderPolicy,
    predictors: Predictors | None,
    records: Iterable[JobRecord],
    at_s: float,
) -> Outlook:
    """Return the outlook of a job.

    Args:
        job: under Roost.
        order: of the engine.
        predictors: of the engine.
        records: every job under Roost.
        at_s: engine time.
    """
    position = position_of(job, records)
    expected = order.expected_s if isinstance(order, ExpectingOrder) else _mean_s
    return Outlook(
        position=position,
        expectation=None if predictors is None else _expectation(job, predictors, expected, at_s),
        overtaken_until_s=None if position is None else _due_s(order, job),
        precedence=job.spec.precedence,
    )


def position_of(job: JobRecord, records: Iterable[JobRecord]) -> QueuePosition | None:
    """Return the position of a job among the jobs that wait; None if it does not.

    In shadow mode a job counts until Slurm starts it, though its placement is decided.
    """
    if not _is_queued(job):
        return None
    turn, slurm_turn = _turn(job), _slurm_turn(job)
    waiting = [other for other in records if _is_queued(other)]
    return QueuePosition(
        position=1 + sum(_turn(other) < turn for other in waiting),
        slurm_position=1 + sum(_slurm_turn(other) < slurm_turn for other in waiting),
        of_count=len(waiting),
    )


def outlooks_of(
    order: OrderPolicy, records: Iterable[JobRecord]
) -> Iterator[tuple[JobId, Outlook]]:
    """Yield the outlook of each job that waits, without expectations.

    Args:
        order: of the engine.
        records: every job under Roost.
    """
    waiting = [record for record in records if _is_queued(record)]
    turns = sorted(map(_turn, waiting))
    slurm_turns = sorted(map(_slurm_turn, waiting))
    for record in waiting:
        position = QueuePosition(
            position=1 + bisect_left(turns, _turn(record)),
            slurm_position=1 + bisect_left(slurm_turns, _slurm_turn(record)),
            of_count=len(waiting),
        )
        yield (
            record.job_id,
            Outlook(
                position=position,
                overtaken_until_s=_due_s(order, record),
                precedence=record.spec.precedence,
            ),
        )


def _due_s(order: OrderPolicy, job: JobRecord) -> float | None:
    if isinstance(order, ExpectingOrder):
        return order.due_s(job)
    if isinstance(order, BoundedOrder) and order.longest_wait_s < inf:
        return job.queued_s + order.longest_wait_s
    return None


def _is_queued(job: JobRecord) -> bool:
    return job.state is JobState.WAITING and bool(job.sort_key)


def _turn(job: JobRecord) -> tuple[int, SortKey]:
    return -job.spec.priority_tier, job.sort_key


def _slurm_turn(job: JobRecord) -> tuple[int, SortKey]:
    return -job.spec.priority_tier, submission_key(job.spec)


def _mean_s(times: RunTimes) -> float:
    return expected_s(times, ServiceIndex.MEAN)


def _expectation(
    job: JobRecord, predictors: Predictors, expected: Callable[[RunTimes], float], at_s: float
) -> Expectation:
    times = predictors.expected_times(job, at_s)
    return Expectation(
        gpu_s=job.spec.gpu_count * expected(times),
        median_s=times.quantile_s(0.5),
        low_s=times.quantile_s(LOW_FRAC),
        high_s=times.quantile_s(HIGH_FRAC),
        similar_count=times.job_count,
    )
