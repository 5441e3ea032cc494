"""The running jobs that a preemption policy may ask to stop, and those whose lease has ended.

Preemption asks for the latter at nearly every event, and between two events few jobs start, end or
come to the end of their lease. So their list is kept, in the order in which they started, and not
made again each time.
"""

from bisect import bisect_left
from heapq import heappop, heappush

import numpy as np

from roost_engine.domain.model import JobId
from roost_engine.job_record import JobRecord
from roost_engine.policies.stoppable_jobs import StoppableJobs, run_of

_COLUMN_COUNT = 4  # of StoppableJobs


class RunningJobs(dict[JobId, JobRecord]):
    """The jobs, in the order in which they were added; a dict, because they are asked at any event.

    Only add() and discard() change it.
    """

    def __init__(self) -> None:
        super().__init__()
        self._numbers: dict[JobId, int] = {}  # the later it was added, the higher
        self._added_count = 0
        # (end of the lease, number, job); entries of jobs that left stay in until then.
        self._leases: list[tuple[float, int, JobId]] = []
        # The jobs whose lease has ended, by number, with their columns of StoppableJobs.
        self._free_numbers: list[int] = []
        self._free: list[JobRecord] = []
        self._runs = np.zeros((_COLUMN_COUNT, 64))
        self._stoppable: StoppableJobs | None = None  # as was last returned

    def add(self, record: JobRecord) -> None:
        """Add a job that is not among them; its lease ends at `safe_until_s`."""
        job_id, number = record.job_id, self._added_count
        self[job_id], self._numbers[job_id] = record, number
        self._added_count += 1
        heappush(self._leases, (record.safe_until_s, number, job_id))

    def discard(self, job_id: JobId) -> None:
        """Remove a job, if it is among them."""
        if self.pop(job_id, None) is None:
            return
        number = self._numbers.pop(job_id)
        place, count = bisect_left(self._free_numbers, number), len(self._free)
        if place < count and self._free_numbers[place] == number:
            del self._free_numbers[place], self._free[place]
            self._runs[:, place : count - 1] = self._runs[:, place + 1 : count]
            self._stoppable = None

    def stoppable(self, at_s: float) -> StoppableJobs:
        """Return the jobs whose lease has ended; the same object while these are the same.

        Args:
            at_s: engine time, not before that of the last call.
        """
        while self._leases and self._leases[0][0] <= at_s:
            _, number, job_id = heappop(self._leases)
            if self._numbers.get(job_id) == number:
                self._free_from_lease(number, self[job_id])
        if self._stoppable is None:
            self._stoppable = StoppableJobs(self._free, self._runs[:, : len(self._free)].copy())
        return self._stoppable

    def _free_from_lease(self, number: int, record: JobRecord) -> None:
        place, count = bisect_left(self._free_numbers, number), len(self._free)
        if count == self._runs.shape[1]:
            self._runs = np.concatenate((self._runs, np.zeros_like(self._runs)), axis=1)
        self._free_numbers.insert(place, number)
        self._free.insert(place, record)
        self._runs[:, place + 1 : count + 1] = self._runs[:, place:count]
        self._runs[:, place] = run_of(record)
        self._stoppable = None
