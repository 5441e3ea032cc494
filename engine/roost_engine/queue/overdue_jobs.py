"""The queued jobs that have waited for so long that they go first.

Orders without ageing serve small or fresh jobs first whenever these come, so a large job may be
passed without end. Their `longest_wait_s` bounds that: see policies.BoundedOrder.
Page: docs/stacks.md.
"""

from collections.abc import Iterable, Iterator
from math import inf

from roost_engine.domain.model import JobId
from roost_engine.job_record import JobRecord


class OverdueJobs:
    """Says which jobs have waited for as long as the order lets any job wait.

    Attributes:
        longest_wait_s: of the order; inf: no job is ever overdue.
    """

    def __init__(self, longest_wait_s: float) -> None:
        self.longest_wait_s = longest_wait_s
        self._jobs: dict[JobId, None] = {}
        self._next_s = inf  # no other job is overdue before

    def __bool__(self) -> bool:
        return bool(self._jobs)

    def __contains__(self, job_id: JobId) -> bool:
        return job_id in self._jobs

    def __iter__(self) -> Iterator[JobId]:
        return iter(self._jobs)

    def note_queued(self, record: JobRecord) -> None:
        """Note that a job is queued."""
        self._next_s = min(self._next_s, record.queued_s + self.longest_wait_s)

    def forget(self, job_id: JobId) -> None:
        """Note that a job is queued no more."""
        self._jobs.pop(job_id, None)

    def advance(self, queued: Iterable[JobRecord], at_s: float) -> list[JobRecord]:
        """Return the jobs that are overdue now and were not when this was last asked.

        Args:
            queued: every queued job; read only when one may have become overdue.
            at_s: engine time.
        """
        if at_s < self._next_s:
            return []
        self._next_s, found = inf, []
        for record in queued:
            if not self.would_have(record, at_s):
                self.note_queued(record)
            elif record.job_id not in self._jobs:
                self._jobs[record.job_id] = None
                found.append(record)
        return found

    def would_have(self, record: JobRecord, at_s: float) -> bool:
        """Return whether a job has waited for so long by a time, queued or not."""
        return record.queued_s <= at_s - self.longest_wait_s
