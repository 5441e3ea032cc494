"""Which jobs may share a GPU: pairs whose slowdowns were measured, both small enough for sure.

A slowdown has a mean and a spread, of its logarithm. A pair is good where both jobs keep within the
site's limit with the certainty that it asks for. A pair that was not measured is never made: for
the counters of live jobs the shipped interference model expects a log slowdown of 0.54 to 0.72 with
a spread of 0.39 (docs/sharing.md).
"""

from dataclasses import dataclass
from math import exp, log
from statistics import NormalDist
from typing import NamedTuple

from roost_engine.domain.model import JobSpec

LEAST_SPREAD = 0.02  # two runs of one job alone differ by about as much


@dataclass(frozen=True, slots=True)
class PairSpeed:
    """The measured speed of one job beside another on a GPU.

    Attributes:
        model: what it trains, as users name it in `roost:model=`.
        beside: the same of the other job.
        speed_frac: its speed beside the other one, of that alone: above 0, at most 1.
        spread: standard deviation of the logarithm of that speed, from run to run.
    """

    model: str
    beside: str
    speed_frac: float
    spread: float = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class SharingConfig:
    """How jobs share GPUs.

    Attributes:
        limit_frac: the most speed that either job of a pair may lose.
        certainty_frac: the probability with which it must lose less.
        pairs: what was measured; each ordered pair once.
    """

    limit_frac: float = 0.15
    certainty_frac: float = 0.8
    pairs: tuple[PairSpeed, ...] = ()


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


class Pairs:
    """Judges pairs; see the module."""

    def __init__(self, config: SharingConfig) -> None:
        self._most = -log(1.0 - config.limit_frac)
        self._quantile = NormalDist().inv_cdf(config.certainty_frac)
        self._known = {key_of(pair.model, pair.beside): self._of(pair) for pair in config.pairs}

    def _of(self, pair: PairSpeed) -> Slowdown:
        mean, spread = -log(pair.speed_frac), max(pair.spread, LEAST_SPREAD)
        return Slowdown(mean, spread, mean + self._quantile * spread)

    def judge(self, job: JobSpec, other: JobSpec) -> tuple[Slowdown, Slowdown] | None:
        """Return what each of two jobs loses on one GPU; None: they may not share one."""
        mine = self._known.get(key_of(job.model, other.model))
        its = self._known.get(key_of(other.model, job.model))
        if mine is None or its is None or max(mine.worst, its.worst) > self._most:
            return None
        return mine, its


def key_of(model: str, beside: str) -> tuple[str, str]:
    """Return what a pair is found by: names of models count in any case of letters."""
    return model.lower(), beside.lower()


def _lost(log_slowdown: float) -> float:
    return 1.0 - exp(-log_slowdown)
