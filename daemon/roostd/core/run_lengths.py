"""How long a job will still run, from how long jobs like it ran.

Most alike are jobs of the same user and name, then those of the same timer class, then all. Each
level is a mean with exponential forgetting, drawn towards the next wider one while it knows few:

    mean = (Σ w·x + few · wider) / (Σ w + few)

x: seconds of a run as if at full speed; or run over time limit where the job has one, both summed
before they are divided, so that long jobs count for what they are. w: 2 ** (-age / half-life).
"""

from dataclasses import dataclass
from math import isfinite

from roostd.core.jobs import JobRecord
from roostd.core.timer_class import TimerClass

HALF_LIFE_S = 7 * 86_400.0  # users change what they run from week to week
_FEW_COUNT = 3.0
_PRIOR_RUN_S = 3_600.0  # before any job has ended
_PRIOR_LIMIT_FRAC = 0.3  # users ask for 2 to 10 times what they need
_MOST_KINDS = 10_000


@dataclass(slots=True)
class RunSums:
    """What is remembered of one kind of jobs: weighted sums as of `at_s`.

    Attributes:
        run_count, run_s: of all its jobs.
        limit_count, limited_run_s, limit_s: of those with a time limit.
    """

    at_s: float = 0.0
    run_count: float = 0.0
    run_s: float = 0.0
    limit_count: float = 0.0
    limited_run_s: float = 0.0
    limit_s: float = 0.0

    def add(self, run_s: float, limit_s: float | None, at_s: float) -> None:
        """Let the sums fade until now and take in one more job."""
        fade = 2.0 ** min(0.0, (self.at_s - at_s) / HALF_LIFE_S)
        limited = 0.0 if limit_s is None else 1.0
        self.at_s = max(at_s, self.at_s)
        self.run_count = self.run_count * fade + 1.0
        self.run_s = self.run_s * fade + run_s
        self.limit_count = self.limit_count * fade + limited
        self.limited_run_s = self.limited_run_s * fade + run_s * limited
        self.limit_s = self.limit_s * fade + (limit_s or 0.0)

    def mean_run_s(self, wider_s: float) -> float:
        """Mean run, given that of the next wider kind."""
        return (self.run_s + _FEW_COUNT * wider_s) / (self.run_count + _FEW_COUNT)

    def limit_frac(self, wider_frac: float) -> float:
        """Share of a time limit that is used, given that of the next wider kind."""
        own = self.limited_run_s / self.limit_s if self.limit_s > 0 else wider_frac
        return (own * self.limit_count + _FEW_COUNT * wider_frac) / (self.limit_count + _FEW_COUNT)


class RunLengths:
    """What is known of how long jobs run."""

    def __init__(self) -> None:
        self._kinds: dict[str, RunSums] = {}  # the one that was told of last comes last

    def add(self, job: JobRecord, timers: TimerClass, run_s: float, at_s: float) -> None:
        """Take in a job that ended; a length that is no time is dropped.

        Args:
            job: whose user, name and time limit count.
            timers: its class.
            run_s: how long it would have run at full speed.
            at_s: engine time.
        """
        if not (isfinite(run_s) and run_s >= 0):
            return
        for kind in _kinds_of(job, timers):
            sums = self._kinds.pop(kind, None) or RunSums()
            sums.add(run_s, _limit_s(job), at_s)
            self._kinds[kind] = sums
        while len(self._kinds) > _MOST_KINDS:
            del self._kinds[next(iter(self._kinds))]

    def remaining_s(self, job: JobRecord, timers: TimerClass, at_s: float) -> float:
        """Expected seconds that a job will still run at full speed, above 0.

        With a time limit, the limit times the learned share of limits that is used; else the
        learned mean. A job that has run is expected to need the rest of that, or, as run times
        are heavy-tailed, as much again as it has run where that is more; never past its limit.
        """
        kinds = [self._kinds[kind] for kind in _kinds_of(job, timers) if kind in self._kinds]
        limit_s, ran_s = _limit_s(job), job.run_s(at_s)
        if limit_s is None:
            expected_s = _PRIOR_RUN_S
            for sums in kinds:
                expected_s = sums.mean_run_s(expected_s)
            return max(expected_s - ran_s, ran_s)
        frac = _PRIOR_LIMIT_FRAC
        for sums in kinds:
            frac = sums.limit_frac(frac)
        return min(max(frac * limit_s - ran_s, ran_s), max(limit_s - ran_s, 1.0))

    def state(self) -> tuple[tuple[str, RunSums], ...]:
        """Everything learned, as plain data."""
        return tuple(self._kinds.items())

    def restore(self, state: tuple[tuple[str, RunSums], ...]) -> None:
        """Know what was known when `state` was taken, and nothing else."""
        self._kinds = dict(state)


def _kinds_of(job: JobRecord, timers: TimerClass) -> tuple[str, ...]:
    """The widest first."""
    spec = job.spec
    owner = () if spec is None else (f"owner {spec.user_id} {spec.name}",)
    return "all", f"class {timers}", *owner


def _limit_s(job: JobRecord) -> float | None:
    limit_s = job.spec.time_limit_s if job.spec is not None else None
    return limit_s if limit_s is not None and isfinite(limit_s) and limit_s > 0 else None
