"""How many running jobs a rule may still have stopped: by partition and hour, and by job."""

from collections import deque
from collections.abc import Iterable

from roost_engine.domain.model import JobId, JobSpec

_HOUR_S = 3_600.0


class StopBudget:
    """The stops of the last hour, and the jobs that were asked to stop not long ago.

    Args:
        per_hour: most jobs of one partition that are stopped within an hour.
        cooldown_s: shortest time between two requests to stop the same job.

    Attributes:
        stops: (engine time, partition) of each stop of the last hour, oldest first.
        asked: by job, the engine time of the last request to stop it, the latest last.
    """

    def __init__(self, per_hour: int, cooldown_s: float) -> None:
        self._per_hour, self._cooldown_s = per_hour, cooldown_s
        self.stops: deque[tuple[float, str]] = deque()
        self.asked: dict[JobId, float] = {}

    def left_count(self, partition: str) -> int:
        """Return how many more jobs of a partition may be stopped."""
        return self._per_hour - sum(name == partition for _, name in self.stops)

    def spend(self, job: JobSpec, at_s: float) -> None:
        """Note that a job is asked to stop."""
        self.asked[job.job_id] = at_s
        self.stops.append((at_s, job.partition))

    def forget_expired(self, at_s: float) -> None:
        """Forget stops and requests that do not count any more."""
        while self.stops and self.stops[0][0] <= at_s - _HOUR_S:
            self.stops.popleft()
        cooled_s = at_s - self._cooldown_s
        while self.asked and next(iter(self.asked.values())) <= cooled_s:
            del self.asked[next(iter(self.asked))]

    def restore(
        self, stops: Iterable[tuple[float, str]], asked: Iterable[tuple[JobId, float]]
    ) -> None:
        """Replace stops and requests by those that an earlier engine noted."""
        self.stops, self.asked = deque(stops), dict(asked)
