"""The waiting curve: how long it takes until a better offer comes, with censored waits counted.

A wait is answered if the better offer came, and censored if the job gave up or left before. A wait
that was censored after ten minutes shows only that the offer would have taken longer than ten
minutes. Without the censored waits, as in Dally's tuner, every estimate is too short. Kaplan and
Meier (JASA 53, 1958) count them for as long as they lasted:

    S(t) = Π over answered waits w ≤ t of 1 - d(w) / n(w)

S(t): the survival, the fraction of waits that are longer than t, 0 to 1. d(w): weight of the waits
that were answered after exactly w. n(w): weight of the waits that lasted w or longer, answered or
not. A wait that ended a seconds ago has the weight 2 ** (-a / half-life), so that the curve follows
the cluster. Only the newest `window_count` waits count, so that the curve follows quickly when
many waits end.

If the longest known wait was answered, its factor would be 0, as if no wait could ever be longer;
the factor 1/2 is used instead. Beyond the longest wait there is no data. There the curve continues
as an exponential with the mean rate of the known waits, answers per second waited:

    S(t) = S(end) · exp(-(t - end) · Σ weight of answered / Σ weight · wait)

end: the longest known wait. The sums are over the answered waits and over all waits.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import exp, inf, isfinite, log
from operator import mul

_ROUNDING = 1e-12  # a weight at risk that is not above this counts as 0
_LAST_FACTOR = 0.5  # S is multiplied by this at the longest wait if that was answered


@dataclass(frozen=True, slots=True)
class WaitSample:
    """A wait for a better offer that ended.

    Attributes:
        at_s: engine time of its end.
        waited_s: its length, above 0.
        is_answered: whether the better offer came; if not, the wait is censored.
    """

    at_s: float
    waited_s: float
    is_answered: bool


@dataclass(frozen=True, slots=True)
class WaitingCurve:
    """S, the fraction of waits that last longer than a time: steps, then an exponential.

    Attributes:
        times_s: the times at which S falls, ascending, above 0.
        left: S just after each of these times, 0 to 1, descending.
        end_s: the longest known wait, answered or not, at which the exponential begins.
        answers_per_s: rate of the exponential.
    """

    times_s: tuple[float, ...] = ()
    left: tuple[float, ...] = ()
    end_s: float = 0.0
    answers_per_s: float = 0.0

    def left_after(self, waited_s: float) -> float:
        """Return S: the fraction of waits that last longer than this."""
        position = bisect_right(self.times_s, waited_s)
        left = self.left[position - 1] if position else 1.0
        return left * exp(-max(waited_s - self.end_s, 0.0) * self.answers_per_s)

    def quantile_s(self, q_frac: float) -> float:
        """Return the time by which this fraction of waits is answered; inf if it never is."""
        for time_s, left in zip(self.times_s, self.left, strict=True):
            if 1.0 - left >= q_frac:
                return time_s
        if not self.answers_per_s:
            return inf
        at_end = self.left[-1] if self.left else 1.0
        return self.end_s + log(at_end / (1.0 - q_frac)) / self.answers_per_s

    def best_stop(self, waited_s: float, gain_s: float, longest_s: float, weight: float) -> float:
        """Return the further wait Δ that is worth most, in seconds; 0: a further wait does not pay.

        A further wait of up to Δ seconds gains `gain_s` with the probability that the offer comes
        within Δ, and costs the seconds waited, which end when the offer comes:

            worth(Δ) = gain · P(T ≤ Δ) - weight · E[min(T, Δ)]

        T: the remaining wait, given that the job has waited `waited_s`. P(T ≤ Δ): the probability
        that the wait is answered within Δ. E[min(T, Δ)]: the expected seconds of waiting, which is
        the area under S(waited + t) / S(waited) for t from 0 to Δ; it is at most Δ.

        Between two steps worth falls, so Δ ends at a step. Beyond the longest known wait worth
        either only rises or only falls, so there only Δ = `longest_s` is tried.

        Args:
            waited_s: how long the job has waited so far.
            gain_s: seconds that the better offer saves.
            longest_s: upper bound of Δ.
            weight: cost of a second of waiting, in seconds saved.
        """
        survival_now = self.left_after(waited_s)
        if not (survival_now > 0 and gain_s > 0 and longest_s > 0):
            return 0.0
        best_s, best_worth, area_s, survival, since_s = 0.0, 0.0, 0.0, 1.0, 0.0
        for position in range(bisect_right(self.times_s, waited_s), len(self.times_s)):
            delta_s = self.times_s[position] - waited_s
            if delta_s > longest_s:
                return best_s
            area_s += survival * (delta_s - since_s)
            survival, since_s = self.left[position] / survival_now, delta_s
            worth = gain_s * (1.0 - survival) - weight * area_s
            if worth > best_worth:
                best_s, best_worth = delta_s, worth
        to_end_s = max(self.end_s - waited_s, 0.0)
        if longest_s <= to_end_s or gain_s * self.answers_per_s <= weight:
            return best_s
        area_s += survival * (to_end_s - since_s)
        answered_frac = 1.0 - exp(-(longest_s - to_end_s) * self.answers_per_s)
        gained_s = gain_s * (1.0 - survival * (1.0 - answered_frac))
        worth = gained_s - weight * (area_s + survival * answered_frac / self.answers_per_s)
        return longest_s if worth > best_worth else best_s


class WaitHistory:
    """The newest waits of one pool.

    Args:
        half_life_s: a wait that ended this long ago has half the weight of a new one.
        window_count: how many waits are remembered.
    """

    def __init__(self, half_life_s: float, window_count: int) -> None:
        self._half_life_s = half_life_s
        self._waits: deque[WaitSample] = deque(maxlen=window_count)
        self._weighed: tuple[float, list[float]] | None = None  # a time, and the weights then

    def __len__(self) -> int:
        return len(self._waits)

    def add(self, wait: WaitSample) -> None:
        """Add a wait, unless its length is not above 0 or one of its times is not finite."""
        if isfinite(wait.waited_s) and isfinite(wait.at_s) and wait.waited_s > 0:
            self._waits.append(wait)
            self._weighed = None

    def waits(self) -> tuple[WaitSample, ...]:
        """Return the remembered waits, the oldest first."""
        return tuple(self._waits)

    def weight(self, at_s: float) -> float:
        """Return the sum of the weights: how many waits that end now would weigh as much."""
        return sum(self._weights(at_s))

    def curve(self, at_s: float, prior: Sequence[tuple[float, float]] = ()) -> WaitingCurve:
        """Estimate the waiting curve.

        Args:
            at_s: engine time for which the weights are computed.
            prior: (wait, weight) of assumed waits, whose weights do not fall with time; the last
                is censored, the others are answered.
        """
        pairs = zip(self._waits, self._weights(at_s), strict=True)
        marks = [(wait.waited_s, not wait.is_answered, weight) for wait, weight in pairs]
        for number, (waited_s, weight) in enumerate(prior, start=1):
            marks.append((waited_s, number == len(prior), weight))
        marks.sort()
        return _kaplan_meier(marks)

    def _weights(self, at_s: float) -> list[float]:
        if self._weighed is None or self._weighed[0] != at_s:
            half_life_s = self._half_life_s
            ages = [(wait.at_s - at_s) / half_life_s for wait in self._waits]
            self._weighed = at_s, [2.0**age if age < 0.0 else 1.0 for age in ages]
        return self._weighed[1]


@lru_cache(maxsize=16)
def exponential_prior(mean_s: float, weight: float) -> tuple[tuple[float, float], ...]:
    """Return four assumed waits, as (wait, weight), that follow an exponential distribution.

    The first three are answered, at the octiles 1, 3 and 5 of the distribution. The last is
    censored, after the time for which the seconds waited over the number of answers is the mean.

    Args:
        mean_s: mean of the distribution, above 0.
        weight: of the four waits together.
    """
    answered = [-mean_s * log(1.0 - part / 8) for part in (1, 3, 5)]
    last_s = mean_s * len(answered) - sum(answered)
    return tuple((waited_s, weight / 4) for waited_s in (*answered, last_s))


def _kaplan_meier(marks: Sequence[tuple[float, bool, float]]) -> WaitingCurve:
    """Return the curve of (wait, is censored, weight).

    The marks are ascending; of waits of equal length the answered ones come first.
    """
    if not marks:
        return WaitingCurve()
    waits_s, _, weights = zip(*marks, strict=True)
    at_risk = sum(weights)
    times: list[float] = []
    survivals: list[float] = []
    answered: list[float] = []  # weights
    survival, last_s = 1.0, -inf
    for waited_s, is_censored, weight in marks:
        if not is_censored:
            answered.append(weight)
            if at_risk > 0:
                longer = at_risk - weight
                survival *= longer / at_risk if longer > _ROUNDING else _LAST_FACTOR
                if waited_s == last_s:
                    survivals[-1] = survival
                else:
                    times.append(waited_s)
                    survivals.append(survival)
                last_s = waited_s
        at_risk -= weight
    all_s = sum(map(mul, waits_s, weights))
    per_s = sum(answered) / all_s if all_s > 0 and survival > 0 else 0.0
    return WaitingCurve(tuple(times), tuple(survivals), waits_s[-1], per_s)
