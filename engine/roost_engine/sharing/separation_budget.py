"""Which jobs were stopped to separate bad pairs: what may be stopped still, and what was parted.

A restart of roostd keeps it: else each restart would give every partition its stops of the hour
again, and could seat two jobs beside each other that were separated.
"""

from dataclasses import dataclass

from roost_engine.domain.model import JobId, JobSpec
from roost_engine.policies.stop_budget import StopBudget
from roost_engine.sharing.pairs import SeparationConfig

_MOST_PARTED = 1_000  # pairs; those that were separated last


@dataclass(frozen=True, slots=True)
class SeparationState:
    """What a budget knows, as plain data.

    Attributes:
        stops: (engine time, partition) of each stop of the last hour, oldest first.
        asked: (job, engine time) of the last request to stop the job, while it cools down.
        parted: pairs of jobs that were separated, oldest first.
    """

    stops: tuple[tuple[float, str], ...] = ()
    asked: tuple[tuple[JobId, float], ...] = ()
    parted: tuple[tuple[JobId, JobId], ...] = ()


class SeparationBudget:
    """See the module.

    Args:
        config: how many stops, and how far apart.
    """

    def __init__(self, config: SeparationConfig) -> None:
        self.config = config
        self._budget = StopBudget(config.budget_per_hour, config.cooldown_s)
        self._parted: dict[tuple[JobId, JobId], None] = {}

    def allows(self, job: JobSpec) -> bool:
        """Return whether a job may be asked to stop."""
        return job.job_id not in self._budget.asked and self._budget.left_count(job.partition) > 0

    def spend(self, leaving: JobSpec, staying: JobId, at_s: float) -> None:
        """Note that a job is asked to stop, to leave another one."""
        self._budget.spend(leaving, at_s)
        self._parted[leaving.job_id, staying] = None
        while len(self._parted) > _MOST_PARTED:
            del self._parted[next(iter(self._parted))]

    def have_parted(self, one: JobId, other: JobId) -> bool:
        """Return whether two jobs were separated."""
        return (one, other) in self._parted or (other, one) in self._parted

    def forget(self, job_id: JobId) -> None:
        """Forget from which jobs a job was separated: it has ended."""
        for pair in [pair for pair in self._parted if job_id in pair]:
            del self._parted[pair]

    def forget_expired(self, at_s: float) -> None:
        """Forget stops and requests that do not count any more."""
        self._budget.forget_expired(at_s)

    def state(self) -> SeparationState:
        """Return what is known, for a later engine."""
        stops, asked = tuple(self._budget.stops), tuple(self._budget.asked.items())
        return SeparationState(stops, asked, tuple(self._parted))

    def restore(self, state: SeparationState) -> None:
        """Restore what `state` returned."""
        self._budget.restore(state.stops, state.asked)
        self._parted = dict.fromkeys(state.parted)
