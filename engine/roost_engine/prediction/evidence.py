"""The sequential test that takes a promoted policy out when its jobs fare worse than predicted.

Each job that ends gives one number y: the share of its completion time that it did not use for its
work, from 0 to 1. The promise is that the mean of y is at most m. The evidence against it is the
mean of several products

    E_f = (1 + f (y_1 - m) / m) (1 + f (y_2 - m) / m) ...       f = 0.1, 0.25, 0.5

Each E_f is the wealth of a player who bets the fraction f of it against the promise at each job.
While the promise holds no wealth grows in expectation, so the probability that the evidence ever
reaches LIMIT is at most 1 / LIMIT, however often it is read (Ville's inequality; Waudby-Smith and
Ramdas, Estimating means of bounded random variables by betting, 2024). No wealth falls below a
floor, so that a policy which was good for months is not trusted for ever; the bound then holds
again from each time at the floor, and is lower there.

Example: m = 0.5 and a job with y = 1 multiplies E_0.5 by 1.5, one with y = 0 by 0.5.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

LIMIT = 100.0
"""A false alarm in at most one of a hundred promotions."""

_BETS = (0.1, 0.25, 0.5)
_LEAST_PROMISE = 0.02  # a promise of 0 would turn one late job into any evidence
_MOST_PROMISE = 0.98
_FORTUNE_FLOOR = 0.05
_OTHERS = 50  # the newest jobs of other users, beside a canary
_FEWEST_OTHERS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What the jobs of a promoted policy say against it.

    Attributes:
        predicted_frac: the mean y that was predicted for the policy; None: nothing was.
        predicted_gap: predicted mean y of the policy less that of the one before it; 0 if unknown.
        wait_limit_s: a job that waits longer takes the policy out at once; None: none does.
        margin_frac: how much worse than predicted is still as promised.
        fortunes: of the players.
        job_count, lost_sum: of the policy's jobs that ended, and the sum of their y.
        others: y of the newest jobs of other users, beside a canary.
        other_count, other_sum: of all of these.
    """

    predicted_frac: float | None = None
    predicted_gap: float = 0.0
    wait_limit_s: float | None = None
    margin_frac: float = 0.1
    fortunes: tuple[float, ...] = (1.0,) * len(_BETS)
    job_count: int = 0
    lost_sum: float = 0.0
    others: tuple[float, ...] = ()
    other_count: int = 0
    other_sum: float = 0.0

    @property
    def value(self) -> float:
        """The evidence; the promise is broken when it reaches LIMIT."""
        return sum(self.fortunes) / len(self.fortunes)

    @property
    def is_conclusive(self) -> bool:
        """Whether the policy is to be taken out."""
        return self.value >= LIMIT

    @property
    def observed_frac(self) -> float | None:
        """Mean y of the policy's jobs; None: none has ended."""
        return self.lost_sum / self.job_count if self.job_count else None

    @property
    def other_frac(self) -> float | None:
        """Mean y of the other users' jobs; None: none has ended."""
        return self.other_sum / self.other_count if self.other_count else None

    def after_other(self, lost_frac: float) -> "Evidence":
        """Return the evidence after a job of another user has ended."""
        return replace(
            self,
            others=(*self.others, lost_frac)[-_OTHERS:],
            other_count=self.other_count + 1,
            other_sum=self.other_sum + lost_frac,
        )

    def after(self, lost_frac: float, *, is_canary: bool) -> "Evidence":
        """Return the evidence after one of the policy's own jobs has ended.

        Beside a canary the job is compared with the other users' newest jobs, so that a busy day,
        which both sides have, is no evidence; as soon as there are a few.
        """
        counted = replace(self, job_count=self.job_count + 1, lost_sum=self.lost_sum + lost_frac)
        if is_canary and len(self.others) >= _FEWEST_OTHERS:
            others = sum(self.others) / len(self.others)
            outcome = 0.5 + (lost_frac - others) / 2.0
            return replace(counted, fortunes=_bet(self.fortunes, outcome, self._gap_promise()))
        if self.predicted_frac is None:
            return counted
        promise = self.predicted_frac + self.margin_frac
        return replace(counted, fortunes=_bet(self.fortunes, lost_frac, promise))

    def _gap_promise(self) -> float:
        return 0.5 + (self.predicted_gap + self.margin_frac) / 2.0


def _bet(fortunes: Sequence[float], outcome: float, promise: float) -> tuple[float, ...]:
    mean = min(max(promise, _LEAST_PROMISE), _MOST_PROMISE)
    gain = (outcome - mean) / mean
    return tuple(
        max(fortune * (1.0 + bet * gain), _FORTUNE_FLOOR)
        for fortune, bet in zip(fortunes, _BETS, strict=True)
    )
