"""Rules to compare with: sharing blindly, Lucid's classes, and a linear model of interference."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, log
from statistics import quantiles

import numpy as np
from numpy.typing import NDArray

from roost_engine.domain.model import JobId, JobSpec
from roost_engine.sharing.pairs import Slowdown
from roost_sim.worlds.sharing.measured_pairs import Kind, MeasuredPairs
from roost_sim.worlds.sharing.sharing_spec import SharingJobs

UNKNOWN_LOSS = Slowdown(0.0, 0.0, 0.0)
"""The answer of a rule that does not predict losses."""

LUCID_CUTS = (0.85, 0.95)
LUCID_MOST = 2
LUCID_TIMES = 2.0
_RIDGE = 1e-2


class Blind:
    """Any two jobs that opted in and fit share. See roost_engine.sharing.pairs.PairRule."""

    def judge(self, job: JobSpec, other: JobSpec) -> tuple[Slowdown, Slowdown] | None:
        """See PairRule."""
        return UNKNOWN_LOSS, UNKNOWN_LOSS


@dataclass(frozen=True, slots=True)
class Lucid:
    """Shares by three classes of kinds. See roost_engine.sharing.pairs.PairRule.

    A kind is 0 (tiny), 1 (medium) or 2 (jumbo). Two jobs with the same number of GPUs share where
    their classes add up to at most 2, and the newcomer is not expected to run more than twice as
    long as its host. Lucid learns a tree that tells the class from utilisation; here every kind
    has the class that its measured pairs give it, which no tree does better.

    Source: Hu et al., Lucid (ASPLOS 2023), with the constants of its simulator.

    Attributes:
        class_of: of each kind.
        jobs: what each job trains.
        expected_s: run time of each job as a site predicts it.
    """

    class_of: Mapping[Kind, int]
    jobs: SharingJobs
    expected_s: Mapping[JobId, float]

    def judge(self, job: JobSpec, other: JobSpec) -> tuple[Slowdown, Slowdown] | None:
        """See PairRule."""
        if job.gpu_count != other.gpu_count:
            return None
        kind_of, expected_s = self.jobs.kind_of, self.expected_s
        if sum(self.class_of[kind_of[one.job_id]] for one in (job, other)) > LUCID_MOST:
            return None
        if expected_s[job.job_id] > LUCID_TIMES * expected_s[other.job_id]:
            return None
        return UNKNOWN_LOSS, UNKNOWN_LOSS


def lucid_classes(pairs: MeasuredPairs, *, terciles: bool = False) -> dict[Kind, int]:
    """Return the class of each kind by its mean speed beside all others.

    Args:
        pairs: what was measured.
        terciles: a third of the kinds in each class, in place of Lucid's cuts at 0.85 and 0.95.
    """
    mean = {
        kind: float(np.mean([speed for (a, _), speed in pairs.speed.items() if a == kind]))
        for kind in pairs.kinds
        if any(a == kind for a, _ in pairs.speed)
    }
    jumbo, medium = quantiles(mean.values(), n=3) if terciles else LUCID_CUTS
    return {
        kind: 2 if mean.get(kind, 0.0) < jumbo else 1 if mean[kind] < medium else 0
        for kind in pairs.kinds
    }


@dataclass(frozen=True, slots=True)
class LifLinear:
    """Shares where a linear model expects both jobs to lose little. See PairRule.

    Linear in what both kinds are alone and in the products; fitted to the pairs of the families
    that the site knows, and asked about all kinds; without such pairs no job shares.

    Source: the linear model that Bao et al. compare with (Harmony, INFOCOM 2019).

    Attributes:
        loss: by kind and kind beside it, its expected log slowdown, at least 0.
        jobs: what each job trains.
        most: the log slowdown that a job may be expected to have.
    """

    loss: Mapping[tuple[Kind, Kind], float]
    jobs: SharingJobs
    most: float

    @classmethod
    def of(cls, jobs: SharingJobs, limit_frac: float) -> "LifLinear":
        """Fit the model to the site's table."""
        kinds = {kind.name: kind for kind in jobs.pairs.kinds}
        known = [(kinds[pair.model], kinds[pair.beside]) for pair in jobs.table]
        most = -log(1.0 - limit_frac)
        if not known:
            return cls({}, jobs, most)
        rows = np.array([_columns(jobs.pairs, a, b) for a, b in known])
        weights = _ridge(rows, np.array([-log(pair.speed_frac) for pair in jobs.table]))
        both = [(a, b) for a in jobs.pairs.kinds for b in jobs.pairs.kinds]
        expected = (np.array([_columns(jobs.pairs, a, b) for a, b in both]) @ weights).tolist()
        found = {pair: max(loss, 0.0) for pair, loss in zip(both, expected, strict=True)}
        return cls(found, jobs, most)

    def judge(self, job: JobSpec, other: JobSpec) -> tuple[Slowdown, Slowdown] | None:
        """See PairRule."""
        mine, its = self.jobs.kind_of[job.job_id], self.jobs.kind_of[other.job_id]
        losses = self.loss.get((mine, its), inf), self.loss.get((its, mine), inf)
        if max(losses) > self.most:
            return None
        first, second = (Slowdown(loss, 0.0, loss) for loss in losses)
        return first, second


def _columns(pairs: MeasuredPairs, kind: Kind, beside: Kind) -> NDArray[np.float64]:
    own, other = (
        np.array([pairs.alone[one].fill_frac, log(pairs.alone[one].step_s)], dtype=np.float64)
        for one in (kind, beside)
    )
    found: NDArray[np.float64] = np.concatenate(
        [np.ones(1), own, other, np.outer(own, other).ravel()]
    )
    return found


def _ridge(rows: NDArray[np.float64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    gram = rows.T @ rows + _RIDGE * np.eye(rows.shape[1])
    return np.asarray(np.linalg.solve(gram, rows.T @ values), dtype=np.float64)
