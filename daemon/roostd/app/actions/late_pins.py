"""Pins that the engine no longer wants, and by which Slurm may start a job all the same.

Slurm itself never starts two jobs on one seat. But the two seats of a GPU are different GPUs for
Slurm: a job whose pin to one seat is being taken back could start beside the job that the engine
has put on the other seat meanwhile. So that job is pinned only once the first pin is gone, and not
at all where the first job may have started.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from roost_engine.domain.gpu_seat import gpu_seats_of
from roost_engine.domain.model import JobId, Placement
from roost_engine.job_record import JobState, shares_of
from roostd.state import DaemonState


class LatePins:
    """See the module.

    Args:
        state: has the engine, which says which pins it wants.
        pinned: the pins that Slurm has, by job; the caller changes it.
    """

    def __init__(self, state: DaemonState, pinned: Mapping[JobId, Placement | None]) -> None:
        self._state, self._pinned = state, pinned
        self._asked: dict[JobId, Placement] = {}  # Slurm is being asked for them
        self._moved_on: dict[JobId, Placement] = {}  # of jobs that waited no more

    @contextmanager
    def asking(self, job_id: JobId, placement: Placement) -> Iterator[None]:
        """Note that Slurm is being asked for a pin."""
        self._asked[job_id] = placement
        try:
            yield
        finally:
            del self._asked[job_id]

    def note_moved_on(self, job_id: JobId) -> None:
        """Note that a job whose pin was to be taken back waits no more: it may have started."""
        placement = self._pinned.get(job_id)
        if placement is not None:
            self._moved_on[job_id] = placement

    def forget(self, job_id: JobId) -> None:
        """Forget a job of which the engine knows where it runs, or that it has ended."""
        self._moved_on.pop(job_id, None)

    def beside(self, job_id: JobId, placement: Placement) -> list[JobId]:
        """Return the jobs that may start on the other seats of a placement against the plan."""
        if self._state.engine.cluster.seats is None:
            return []
        wanted = {slot.other for slot in gpu_seats_of(shares_of(placement))}
        late = {**self._pinned, **self._asked, **self._moved_on}
        return [
            other
            for other, pin in late.items()
            if other != job_id
            and pin is not None
            and pin.is_exact
            and not wanted.isdisjoint(gpu_seats_of(shares_of(pin)))
            and not self._is_wanted(other, pin)
        ]

    def _is_wanted(self, job_id: JobId, pin: Placement) -> bool:
        record = self._state.engine.managed(job_id)
        if record is None:
            return False
        return record.state is not JobState.WAITING and record.placement == pin
