"""Which jobs may share a GPU: pairs whose slowdowns were measured, both small enough for sure.

A slowdown has a mean and a spread, of its logarithm. A pair is good where both jobs keep within the
site's limit with the certainty that it asks for. A pair that was not measured is never made: for
the counters of live jobs the shipped interference model expects a log slowdown of 0.54 to 0.72 with
a spread of 0.39 (docs/sharing.md).

The speeds that jobs report beside each other correct what was measured: the site's mean counts as
much as MEASURED_RUNS runs. What a user's jobs report corrects only what that user's jobs lose, so
that a user who reports falsely changes the estimates of no other user.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp, log
from statistics import NormalDist
from typing import NamedTuple, Protocol, TypeAlias, runtime_checkable

from roost_engine.domain.model import JobId, JobSpec

MEASURED_RUNS = 2.0
MOST_RUNS = 20  # of a pair and user; the ones that reported last count
_MOST_OBSERVED = 2_000  # pairs of models and a user
_MOST_ALONE = 10_000  # runs; those that reported last
_LEAST_SPEED_FRAC = 0.05  # a job that makes no progress has another cause than its neighbour
LEAST_SPREAD = 0.02  # two runs of one job alone differ by about as much


@dataclass(frozen=True, slots=True)
class PairSpeed:
    """The measured speed of one job beside another on a GPU.

    Attributes:
        model: what it trains, as users name it in `roost:model=`.
        beside: the same of the other job.
        speed_frac: its speed beside the other one, as a fraction of its speed alone: above 0,
            at most 1.
        spread: standard deviation of the logarithm of that speed, from run to run.
    """

    model: str
    beside: str
    speed_frac: float
    spread: float = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class SeparationConfig:
    """When a pair that turned out bad is separated while both jobs run.

    Attributes:
        partitions: the partitions that allow preemption; None: every job may be stopped.
        settle_s: how long a job must have been too slow.
        restart_s: time that a restart costs a job, besides its lost work.
        cooldown_s: shortest time between two requests to stop the same job.
        budget_per_hour: most jobs of one partition that are stopped for this within an hour.
    """

    partitions: tuple[str, ...] | None = None
    settle_s: float = 300.0  # the first minutes beside another job are those of its start
    restart_s: float = 120.0
    cooldown_s: float = 7_200.0
    budget_per_hour: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class SharingConfig:
    """How jobs share GPUs.

    Attributes:
        limit_frac: the most speed that either job of a pair may lose.
        certainty_frac: the probability with which it must lose less.
        pairs: what was measured; each ordered pair once.
        separation: when a bad pair is separated; None, as in journals of earlier versions: never.
    """

    limit_frac: float = 0.15
    certainty_frac: float = 0.8
    pairs: tuple[PairSpeed, ...] = ()
    separation: SeparationConfig | None = None


class Slowdown(NamedTuple):
    """What one job of a pair loses.

    Attributes:
        mean, spread: of the logarithm of the slowdown.
        worst: the log slowdown that is not exceeded with the certainty asked for.
    """

    mean: float
    spread: float
    worst: float

    @property
    def in_words(self) -> str:
        """What is lost, in percent, for a human."""
        return f"{_lost(self.mean):.0%}, surely less than {_lost(self.worst):.0%}"


_Observed: TypeAlias = tuple[int, tuple[str, str]]  # the user of the job that reports, and the pair


class CorrectedPair(NamedTuple):
    """What runs say of a pair that was measured.

    Attributes:
        user_id: whose jobs reported.
        model, beside: in lower case.
        measured, corrected: mean log slowdowns, by the site and with the runs.
        run_count: how many runs reported.
        is_bad: whether the corrected loss is beyond the site's limit.
    """

    user_id: int
    model: str
    beside: str
    measured: float
    corrected: float
    run_count: int
    is_bad: bool


@dataclass(frozen=True, slots=True)
class PairsState:
    """What runs have taught, as plain data.

    Attributes:
        observed: (user, model, beside, (job, log slowdown) of each run), oldest first.
        alone: (job, its last speed without a partner).
    """

    observed: tuple[tuple[int, str, str, tuple[tuple[JobId, float], ...]], ...] = ()
    alone: tuple[tuple[JobId, float], ...] = ()


class PairRule(Protocol):
    """May two jobs share a GPU?"""

    def judge(self, job: JobSpec, other: JobSpec) -> tuple[Slowdown, Slowdown] | None:
        """Return what each of two jobs is expected to lose; None: they may not share.

        Both opted in, and both fit into the GPU's memory together.
        """


@runtime_checkable
class LearningRule(PairRule, Protocol):
    """A rule that learns from the speeds of jobs that share."""

    def note_speed(self, job: JobSpec, other: JobSpec | None, speed_frac: float) -> float | None:
        """Apply a reported speed.

        Args:
            job: the job that reports.
            other: the one job that shares its GPUs; None: none does.
            speed_frac: what it reports, of its ideal speed.

        Returns:
            Its speed as a fraction of its speed alone; None: it is alone.
        """

    def is_beyond_limit(self, speed_frac: float) -> bool:
        """Return whether a job at this fraction of its speed alone loses more than it may."""

    def knows_pairs_of(self, job: JobSpec) -> bool:
        """Return whether the speed of a job's model beside any other one was measured."""

    def forget(self, job_id: JobId) -> None:
        """Forget the speed alone of a job that has ended."""

    def corrected(self) -> list[CorrectedPair]:
        """Return the pairs that runs have corrected."""


class Pairs:
    """The LearningRule of a site's table; see the module."""

    def __init__(self, config: SharingConfig) -> None:
        self._most = -log(1.0 - config.limit_frac)
        self._quantile = NormalDist().inv_cdf(config.certainty_frac)
        self._known = {key_of(pair.model, pair.beside): self._of(pair) for pair in config.pairs}
        self._models = {model for model, _ in self._known}
        self._observed: dict[_Observed, dict[JobId, float]] = {}  # log slowdown of each run
        self._alone_frac: dict[JobId, float] = {}  # the last speed of a run without a partner

    def _of(self, pair: PairSpeed) -> Slowdown:
        mean, spread = -log(pair.speed_frac), max(pair.spread, LEAST_SPREAD)
        return Slowdown(mean, spread, mean + self._quantile * spread)

    def judge(self, job: JobSpec, other: JobSpec) -> tuple[Slowdown, Slowdown] | None:
        """See PairRule."""
        mine, its = self.loss(job, other), self.loss(other, job)
        if mine is None or its is None or max(mine.worst, its.worst) > self._most:
            return None
        return mine, its

    def knows_pairs_of(self, job: JobSpec) -> bool:
        """See LearningRule."""
        return job.model.lower() in self._models

    def loss(self, job: JobSpec, other: JobSpec) -> Slowdown | None:
        """Return what a job loses beside another, as measured and corrected; None: not measured."""
        key = key_of(job.model, other.model)
        measured = self._known.get(key)
        runs = self._observed.get((job.user_id, key))
        return self._corrected(measured, runs) if measured and runs else measured

    def lost_frac(self, job: JobSpec, other: JobSpec) -> float | None:
        """Return the share of its speed that a running job loses; None: that is not known.

        It is what the run last reported, and what is expected of the pair where it reports nothing.
        """
        runs = self._observed.get((job.user_id, key_of(job.model, other.model)), {})
        if job.job_id in runs:
            return _lost(runs[job.job_id])
        expected = self.loss(job, other)
        return None if expected is None else _lost(expected.mean)

    def _corrected(self, measured: Slowdown, runs: Mapping[JobId, float]) -> Slowdown:
        total = MEASURED_RUNS * measured.mean + sum(runs.values())
        mean = total / (MEASURED_RUNS + len(runs))
        return Slowdown(mean, measured.spread, mean + self._quantile * measured.spread)

    def corrected(self) -> list[CorrectedPair]:
        """Return the pairs that runs have corrected: bad ones first, then by their loss."""
        found = []
        for (user_id, key), runs in self._observed.items():
            measured = self._known[key]
            now = self._corrected(measured, runs)
            is_bad = now.worst > self._most
            pair = (user_id, *key, measured.mean, now.mean, len(runs), is_bad)
            found.append(CorrectedPair(*pair))
        return sorted(found, key=lambda one: (not one.is_bad, -one.corrected, one))

    def note_speed(self, job: JobSpec, other: JobSpec | None, speed_frac: float) -> float | None:
        """See LearningRule.

        What a job lost before, by its links for instance, is not the other job's doing.
        """
        if other is None:
            self._alone_frac.pop(job.job_id, None)
            self._alone_frac[job.job_id] = speed_frac
            while len(self._alone_frac) > _MOST_ALONE:
                del self._alone_frac[next(iter(self._alone_frac))]
            return None
        alone_frac = self._alone_frac.get(job.job_id, 1.0)
        beside_frac = speed_frac / alone_frac if alone_frac > 0 else 1.0
        self.observe(job, other, beside_frac)
        return beside_frac

    def is_beyond_limit(self, speed_frac: float) -> bool:
        """See LearningRule."""
        return -log(max(speed_frac, _LEAST_SPEED_FRAC)) > self._most

    def forget(self, job_id: JobId) -> None:
        """See LearningRule."""
        self._alone_frac.pop(job_id, None)

    def state(self) -> PairsState:
        """Return what runs have taught, for a later engine."""
        observed = tuple(
            (user_id, *key, tuple(runs.items())) for (user_id, key), runs in self._observed.items()
        )
        return PairsState(observed, tuple(self._alone_frac.items()))

    def restore(self, state: PairsState) -> None:
        """Restore what `state` returned, of the pairs that the table still has."""
        self._observed = {
            (user_id, (model, beside)): dict(runs)
            for user_id, model, beside, runs in state.observed
            if (model, beside) in self._known
        }
        self._alone_frac = dict(state.alone)

    def observe(self, job: JobSpec, other: JobSpec, speed_frac: float) -> None:
        """Apply the speed of a job beside another; the last of each run counts.

        Args:
            job: the job that reports.
            other: the one job that shares its GPUs.
            speed_frac: its speed, as a fraction of its speed alone.
        """
        key = key_of(job.model, other.model)
        if key not in self._known:
            return
        runs = self._observed.pop((job.user_id, key), {})
        runs.pop(job.job_id, None)
        runs[job.job_id] = -log(min(max(speed_frac, _LEAST_SPEED_FRAC), 1.0))
        while len(runs) > MOST_RUNS:
            del runs[next(iter(runs))]
        self._observed[job.user_id, key] = runs
        while len(self._observed) > _MOST_OBSERVED:
            del self._observed[next(iter(self._observed))]


def key_of(model: str, beside: str) -> tuple[str, str]:
    """Return what a pair is found by: names of models count in any case of letters."""
    return model.lower(), beside.lower()


def _lost(log_slowdown: float) -> float:
    return 1.0 - exp(-log_slowdown)
