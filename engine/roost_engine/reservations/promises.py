"""Promised starts: what a reservation says to the job it is for, and which jobs may pass it.

A job for which nodes are reserved is promised that it starts when the reservation does, or sooner.
The promise rests on the time limits of running jobs, and on the predicted run time of a job without
a usable limit. A job whose limit does not end in time may still pass if jobs like it end in time,
and if its limit ends soon enough after the first promise: so the promise can be moved by a bounded
time only, whatever is predicted. A promise that is moved says why.
Page: docs/order.md.
"""

from collections.abc import Iterator
from dataclasses import replace
from math import inf

from roost_engine.cluster.node_sets import NodeSet
from roost_engine.domain.actions import Action
from roost_engine.domain.model import JobId
from roost_engine.domain.promise import Guess, Promise
from roost_engine.job_record import JobRecord, JobState
from roost_engine.placement.reservation import Reservation
from roost_engine.prediction.run_time.foreseen_ends import (
    EndsConfig,
    RunTimeSource,
    guess,
    usable_limit_s,
)
from roost_engine.table.job_table import JobTable
from roost_engine.table.wait_reports import report_capacity, report_wait

_MOVED_S = 1.0  # a promise that is off by less is kept
_FRESH_S = 3_600.0  # for so long a guess about a waiting job is used again
_MOST_GUESSES = 20_000


class Promises:
    """See the module.

    Args:
        table: every job.
        config: None: nothing is promised, and time limits alone decide which jobs may pass.
        source: predicts; needed where there is a config.
    """

    def __init__(
        self, table: JobTable, config: EndsConfig | None, source: RunTimeSource | None
    ) -> None:
        self._table, self._config, self._source = table, config, source
        self._holder: JobId | None = None  # the job that was promised a start last
        self._guesses: dict[JobId, tuple[float, Guess | None]] = {}

    def note(self, reservation: Reservation, at_s: float, actions: list[Action]) -> None:
        """Promise the job of a reservation its start, or say why that is later than promised."""
        record = self._table.jobs.get(reservation.job_id)
        if self._config is None or record is None or reservation.start_s == inf:
            return
        if self._holder != record.job_id:
            self._withdraw(record.job_id, actions)
            self._holder = record.job_id
        start_s, known = reservation.start_s, record.promise
        if start_s <= at_s:
            return  # Slurm lets jobs run up to a minute past their limits
        if known is None or known.start_s == inf:
            record.promise = Promise(first_s=start_s, start_s=start_s)
        elif start_s > known.start_s + _MOVED_S:
            moved = f"its promised start was moved by {start_s - known.start_s:.0f} s because "
            why = moved + self._cause(reservation.nodes)
            record.promise = replace(known, start_s=start_s, why=why)
        else:
            return
        self._table.alarm(start_s + 2.0 * _MOVED_S, record.job_id)
        self._report(record, actions)

    def _withdraw(self, by: JobId, actions: list[Action]) -> None:
        """Withdraw the newest promise, if its job still waits."""
        record = self._table.jobs.get(self._holder) if self._holder is not None else None
        if record is None or record.promise is None or record.state is not JobState.WAITING:
            return
        why = f"job {by} is before it now, and the nodes are reserved for that"
        record.promise = replace(record.promise, start_s=inf, why=why)
        self._report(record, actions)

    def _report(self, record: JobRecord, actions: list[Action]) -> None:
        assert record.promise is not None
        if record.standing is not None:
            if record.promise.why and record.promise.start_s < inf:
                reason = record.promise.added_to(record.reason.partition(";")[0])
                report_wait(record, reason, record.promise.start_s, actions)
        elif record.last_try is not None:
            report_capacity(record, record.last_try, actions)

    def _cause(self, nodes: NodeSet) -> str:
        """Return why a job starts later than promised."""
        overran = max(self._outlived(nodes), default=None)
        if overran is None:
            return "nodes, or the jobs on them, have changed"
        _, job_id, found = overran
        return (
            f"job {job_id} ran longer than expected"
            f" (predicted 80 %: {found.low_s:.0f} to {found.high_s:.0f} s)"
        )

    def _outlived(self, nodes: NodeSet) -> Iterator[tuple[float, JobId, Guess]]:
        """Yield the jobs on these nodes that have run for longer than was expected."""
        cluster = self._table.cluster
        for job_id, found in self._table.outlived():
            held = (cluster.index_of[share.node] for share in cluster.shares(job_id))
            if any(nodes >> node & 1 for node in held):
                yield found.left_s, job_id, found

    # -- which jobs may pass -----------------------------------------------------------------

    def may_pass(self, record: JobRecord, reservation: Reservation, at_s: float) -> bool:
        """Return whether a job may have reserved nodes: it will have ended when they are needed."""
        if self._ends_in_time(record, reservation.start_s, at_s):
            return True
        record.guess = self._guess_to_pass(record, reservation, at_s)
        return record.guess is not None

    def note_passed(self, record: JobRecord, reservation: Reservation, at_s: float) -> None:
        """Look at a promise again when a job that was placed by a guess should have ended."""
        if record.guess is None:
            return
        if record.state is JobState.PLACING:
            self._table.alarm(at_s + record.guess.left_s, reservation.job_id)
        else:
            record.guess = None

    def _ends_in_time(self, record: JobRecord, start_s: float, at_s: float) -> bool:
        """Return whether a job that starts now has ended by then, by its time limit."""
        job = record.spec
        limit_s = job.time_limit_s if self._config is None else usable_limit_s(job)
        return limit_s is not None and at_s + limit_s <= start_s

    def _guess_to_pass(
        self, record: JobRecord, reservation: Reservation, at_s: float
    ) -> Guess | None:
        """Return by when a job has ended that may pass though its limit ends too late.

        None: it may not. Its limit bounds what that may cost the job that is passed.
        """
        config, source = self._config, self._source
        if config is None or source is None or config.passing_frac >= 1.0:
            return None
        limit_s, passed = usable_limit_s(record.spec), self._table.jobs.get(reservation.job_id)
        if limit_s is None or passed is None or passed.promise is None:
            return None
        if at_s + limit_s > passed.promise.first_s + config.most_delay_s:
            return None
        since_s, found = self._guesses.get(record.job_id, (-inf, None))
        if at_s >= since_s + _FRESH_S:
            if len(self._guesses) >= _MOST_GUESSES:
                self._guesses.clear()
            found = guess(source, record, config.passing_frac, at_s)
            self._guesses[record.job_id] = at_s, found
        return found if found is not None and at_s + found.left_s <= reservation.start_s else None
