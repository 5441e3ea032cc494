"""The jobs that came in the recent past, for the jobs that are still to come.

Jobs still to come matter: an order other than the order of submission lets them pass jobs that wait
now. The log learns by polls of the engine, which remembers ended jobs for a while.
"""

from collections import deque
from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from math import inf

from roost_engine.domain.model import JobId, JobSpec
from roost_engine.engine import Engine
from roost_engine.job_record import JobRecord, JobState
from roost_engine.policies.protocols import KeyedOrder, SortKey
from roost_engine.policies.slots import key_if_answered
from roost_engine.prediction.run_time.history import RunTimeHistory
from roost_engine.prediction.run_time.history_kinds import kinds_of
from roost_engine.prediction.run_time.run_times import RunTimes
from roost_engine.prediction.service import done_s
from roost_engine.queue.orders import ExpectingOrder, ValuedOrder

SPAN_S = 7 * 86_400.0
_MOST_ARRIVALS = 5_000
_AT_ONCE = 20  # jobs between two yields
_PROBE_S = 1_000.0  # by how much a submission is moved to see what the order makes of it
_BEHIND_ALL: SortKey = (inf,)


@dataclass(slots=True, kw_only=True)
class LoggedArrival:
    """A job that came.

    Attributes:
        job: its request.
        at_s: engine time at which it could have been placed first.
        times: what was expected of it then.
        key: by which the order sorted it; of an order without keys behind all others.
        time_parts: which parts of the key grow with the time of submission.
        run_s: how long it ran; None: it has not ended, or never ran.
    """

    job: JobSpec
    at_s: float
    times: RunTimes
    key: SortKey
    time_parts: tuple[int, ...]
    run_s: float | None = None


class ArrivalLog:
    """Remembers the jobs that came in the last SPAN_S.

    Args:
        since_s: engine time from which it sees every arrival.
        reads_limits: see RunTimeHistory; of what the log learns itself.
    """

    def __init__(self, since_s: float, reads_limits: bool = True) -> None:
        self._began_s = self.since_s = since_s
        self._arrivals: deque[LoggedArrival] = deque()
        self._open: dict[JobId, LoggedArrival] = {}
        self._own = RunTimeHistory(reads_limits)
        self._watched: dict[JobId, bool] = {}  # jobs that ran, as `_own` knows, and whether they do
        self._known: dict[JobId, None] = {}

    def __iter__(self) -> Iterator[LoggedArrival]:
        return iter(self._arrivals)

    def __len__(self) -> int:
        return len(self._arrivals)

    def history(self, engine: Engine) -> RunTimeHistory:
        """Return what is known of run times: by the engine's policies, or else by the log."""
        predictors = engine.policies.predictors
        return self._own if predictors is None else predictors.history

    def observe(self, engine: Engine, at_s: float) -> Generator[None, None, None]:
        """Take in what changed since the last call.

        Yields:
            Now and then, so that the caller may let others have a turn; the engine may change
            meanwhile.
        """
        history = self.history(engine)
        cache = TimesCache(history)
        present = dict(engine.known_jobs(include_ended=True))
        records = [record for known in present.values() if (record := known.under_roost)]
        new = [record for record in records if record.job_id not in self._known]
        for count, record in enumerate(sorted(new, key=lambda record: record.queued_s)):
            if record.queued_s >= self._began_s:
                self._arrive(engine, cache, record)
            if count % _AT_ONCE == _AT_ONCE - 1:
                yield
        for count, record in enumerate(records):
            if count % _AT_ONCE == _AT_ONCE - 1:
                yield
            if history is self._own:
                self._learn(record)
            if record.state is JobState.ENDED and record.job_id in self._open:
                self._end(record)
        for job_id in self._watched.keys() - present.keys():
            self._own.forget(job_id)
            del self._watched[job_id]
        self._known = dict.fromkeys(present)
        for job_id in self._open.keys() - self._known.keys():
            del self._open[job_id]
        while self._arrivals and (
            len(self._arrivals) > _MOST_ARRIVALS or self._arrivals[0].at_s < at_s - SPAN_S
        ):
            self.since_s = self._arrivals.popleft().at_s
        self.since_s = max(self.since_s, at_s - SPAN_S)

    def _arrive(self, engine: Engine, cache: "TimesCache", record: JobRecord) -> None:
        times = cache.times(record.spec, 0.0, record.queued_s)
        key, time_parts = future_key(engine, record, times)
        arrival = LoggedArrival(
            job=record.spec, at_s=record.queued_s, times=times, key=key, time_parts=time_parts
        )
        if self._arrivals and arrival.at_s < self._arrivals[-1].at_s:
            arrival.at_s = self._arrivals[-1].at_s  # it was seen late: the log stays in order
        self._arrivals.append(arrival)
        self._open[record.job_id] = arrival

    def _end(self, record: JobRecord) -> None:
        arrival = self._open.pop(record.job_id)
        if record.ended_s is not None and record.started_s is not None:
            arrival.run_s = record.run_s(record.ended_s)

    def _learn(self, record: JobRecord) -> None:
        """Report what became of a job to the log's own history.

        Running jobs count as well, as in Predictors: otherwise only short jobs would be known until
        long ones have ended. They count from their start, or from the start of the log if that is
        later: of the jobs that started before, those that ended before are unknown, and a history
        of the others alone would take all for long.
        """
        own, job_id = self._own, record.job_id
        was_running = self._watched.get(job_id, False)
        if record.state is JobState.ENDED:
            if job_id in self._watched or job_id in self._open:
                self._watched.pop(job_id, None)
                if record.ended_s is not None and record.started_s is not None:
                    own.add(record.spec, done_s(record, record.ended_s), record.ended_s)
                else:
                    own.forget(job_id)
        elif record.is_on_gpus and not was_running and record.started_s is not None:
            self._watched[job_id] = True
            from_s = max(record.started_s, self._began_s)
            own.begin(record.spec, done_s(record, from_s), 1.0, from_s)
        elif was_running and not record.is_on_gpus:
            self._watched[job_id] = False
            own.pause(job_id, done_s(record, record.queued_s), record.queued_s)


class TimesCache:
    """Run times of jobs at one moment: jobs of the same kinds share one distribution.

    Args:
        history: what is known.
    """

    def __init__(self, history: RunTimeHistory) -> None:
        self._history = history
        self._known: dict[tuple[object, ...], RunTimes] = {}
        self.numbers: dict[str, int] = {}

    def times(self, job: JobSpec, age_s: float, at_s: float) -> RunTimes:
        """Return how long a job may run, see RunTimeHistory.times."""
        kinds = (*(kind.name for kind in kinds_of(job)), job.time_limit_s)
        found = self._known.get(kinds)
        if found is None:
            found = self._known[kinds] = self._history.times(job, 0.0, at_s)
        return replace(found, age_s=age_s)

    def alike(self, job: JobSpec) -> tuple[int, int]:
        """Return the numbers of its kind and of its user: equal ones for jobs that are alike.

        A job without a user is like no other, -1: of its kind only the number of GPUs is known.
        """
        if job.user_id < 0:
            return -1, -1
        kind, user = kinds_of(job, reads_limits=False)[-1].name, f"user {job.user_id}"
        numbers = self.numbers
        return numbers.setdefault(kind, len(numbers)), numbers.setdefault(user, len(numbers))


def future_key(
    engine: Engine, record: JobRecord, times: RunTimes
) -> tuple[SortKey, tuple[int, ...]]:
    """Return the key that the engine would sort a job by, and which parts of it are times.

    A part is a time if it moves with the submission: a job that comes later has a later one.
    """
    order = engine.policies.order
    if not isinstance(order, KeyedOrder):
        return _BEHIND_ALL, ()
    job = record.spec
    from_s = max(job.submit_s, job.eligible_s)
    keys: list[SortKey] = []
    for moved_s in (0.0, _PROBE_S):
        spec = _moved(job, from_s + moved_s)
        fresh = JobRecord(spec=spec, state=JobState.WAITING, queued_s=from_s + moved_s)
        if isinstance(order, ExpectingOrder):  # its `key` would count the job as one that waits
            keys.append(order.key_by(spec, times))
        elif isinstance(order, ValuedOrder):  # its `key` may keep the value
            keys.append(order.peek_key(fresh, from_s + moved_s))
        else:
            keys.append(order.key(fresh, from_s + moved_s))
    keys = [key_if_answered(order, key) for key in keys]
    return keys[0], tuple(
        part
        for part, (now, then) in enumerate(zip(*keys, strict=True))
        if not isinstance(now, str)
        and not isinstance(then, str)
        and abs(then - now - _PROBE_S) < 1.0
    )


def _moved(job: JobSpec, submit_s: float) -> JobSpec:
    """Return a job as if it had been submitted at another time."""
    return JobSpec(
        job_id=job.job_id,
        user_id=job.user_id,
        partition=job.partition,
        shapes=job.shapes,
        priority=job.priority,
        submit_s=submit_s,
        eligible_s=submit_s,
        time_limit_s=job.time_limit_s,
        precedence=job.precedence,
    )
