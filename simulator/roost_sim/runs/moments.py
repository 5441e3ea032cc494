"""The moments of a simulation in order of time: starts and ends, arrivals, events from outside.

At one instant ends of jobs come first, then delayed starts, then events from outside, then
arrivals; within each kind, in the order in which they were scheduled. So the same trace gives the
same events, byte for byte.
"""

from collections.abc import Iterable, Iterator
from enum import IntEnum
from heapq import heappush
from itertools import count
from typing import TypeAlias

from roost_engine.domain.events import Event
from roost_sim.runs.simulated_job import SimulatedJob
from roost_sim.traces.arrival import Arrival


class Kind(IntEnum):
    """The kinds of moments, in the order in which they come at one instant."""

    END = 0
    START = 1
    OUTSIDE = 2
    ARRIVAL = 3


_END, _ARRIVAL = Kind.END, Kind.ARRIVAL  # an enum looks its members up by a call

Moment: TypeAlias = tuple[float, Kind, int, SimulatedJob | Arrival | Event]


class Moments:
    """A heap of moments. Of arrivals and outside events it holds one each: many may follow.

    Attributes:
        heap: the moments, as heapq keeps them.
    """

    def __init__(self) -> None:
        self.heap: list[Moment] = []
        self._numbers = count()
        self._arrivals: Iterator[Arrival] = iter(())
        self._outside: Iterator[Event] = iter(())

    def begin(self, arrivals: Iterable[Arrival], outside: Iterable[Event], now_s: float) -> None:
        """Schedule the first arrival and the first outside event, both in order of time."""
        self._arrivals, self._outside = iter(arrivals), iter(outside)
        self.schedule_arrival(now_s)
        self.schedule_outside()

    def schedule_arrival(self, now_s: float) -> None:
        """Schedule the next arrival: a trace may not fit into memory.

        Raises:
            ValueError: it comes before the present time.
        """
        arrival = next(self._arrivals, None)
        if arrival is not None:
            at_s = arrival.at_s
            if at_s < now_s:
                job_id = arrival.spec.job_id
                raise ValueError(f"job {job_id} comes at {at_s:g} s, after {now_s:g} s")
            heappush(self.heap, (at_s, _ARRIVAL, next(self._numbers), arrival))

    def schedule_outside(self) -> None:
        """Schedule the next event that no job of the trace causes."""
        event = next(self._outside, None)
        if event is not None:
            heappush(self.heap, (event.at_s, Kind.OUTSIDE, next(self._numbers), event))

    def schedule_start(self, job: SimulatedJob, at_s: float) -> None:
        """Schedule the start of a job, in place of what was scheduled for it."""
        job.due = number = next(self._numbers)
        heappush(self.heap, (at_s, Kind.START, number, job))

    def schedule_end(self, job: SimulatedJob, at_s: float) -> None:
        """Schedule the end of a running job, in place of the one that was scheduled."""
        job.due = number = next(self._numbers)
        heappush(self.heap, (at_s, _END, number, job))

    def cancel(self, job: SimulatedJob) -> None:
        """Void the scheduled start or end of a job."""
        job.due = -1
