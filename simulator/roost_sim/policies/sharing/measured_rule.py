"""The engine's own rule, by the kinds of jobs: in a simulation jobs name their speed profiles."""

from dataclasses import dataclass, replace

from roost_engine.domain.model import JobId, JobSpec
from roost_engine.sharing.pairs import CorrectedPair, Pairs, SharingConfig, Slowdown
from roost_sim.worlds.sharing.sharing_spec import SharingJobs


@dataclass(frozen=True, slots=True)
class MeasuredRule:
    """Shares by a table of measured pairs. See roost_engine.sharing.pairs.PairRule.

    Attributes:
        pairs: the engine's rule.
        jobs: what each job trains.
    """

    pairs: Pairs
    jobs: SharingJobs

    @classmethod
    def of(
        cls, jobs: SharingJobs, limit_frac: float, certainty_frac: float, *, whole: bool = False
    ) -> "MeasuredRule":
        """Make the rule.

        Args:
            jobs: of the run.
            limit_frac: see roost_engine.sharing.pairs.SharingConfig.
            certainty_frac: see there.
            whole: as if the site had measured all families.
        """
        table = jobs.whole_table if whole else jobs.table
        config = SharingConfig(limit_frac=limit_frac, certainty_frac=certainty_frac, pairs=table)
        return cls(Pairs(config), jobs)

    def judge(self, job: JobSpec, other: JobSpec) -> tuple[Slowdown, Slowdown] | None:
        """See PairRule."""
        return self.pairs.judge(self._named(job), self._named(other))

    def _named(self, job: JobSpec) -> JobSpec:
        return replace(job, model=self.jobs.kind_of[job.job_id].name)


@dataclass(frozen=True, slots=True)
class LearningMeasuredRule(MeasuredRule):
    """The same, corrected by the speeds of jobs that share: a LearningRule."""

    def note_speed(self, job: JobSpec, other: JobSpec | None, speed_frac: float) -> float | None:
        """See LearningRule."""
        beside = None if other is None else self._named(other)
        return self.pairs.note_speed(self._named(job), beside, speed_frac)

    def is_beyond_limit(self, speed_frac: float) -> bool:
        """See LearningRule."""
        return self.pairs.is_beyond_limit(speed_frac)

    def knows_pairs_of(self, job: JobSpec) -> bool:
        """See LearningRule."""
        return self.pairs.knows_pairs_of(self._named(job))

    def forget(self, job_id: JobId) -> None:
        """See LearningRule."""
        self.pairs.forget(job_id)

    def corrected(self) -> list[CorrectedPair]:
        """See LearningRule."""
        return self.pairs.corrected()
