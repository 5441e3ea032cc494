"""How long it takes until a better offer comes, learned from waits of which many were given up.

A job that gave up after ten minutes tells that its wait would have been longer than ten minutes,
no more. Leaving such waits out, as Dally's tuner does, makes every estimate too short; Kaplan and
Meier (JASA 53, 1958) count them for as long as they lasted:

    S(t) = Π over answered waits w ≤ t of 1 - d(w) / n(w)

S(t): share of waits longer than t, 0 to 1. d(w): weight of the waits answered after exactly w.
n(w): weight of the waits that lasted w or longer, answered or not. The weight of a wait that ended
a seconds ago is 2 ** (-a / half-life), so that the curve follows the cluster; the newest
`window_count` waits count, so that it follows quickly when many come.

The last of the known waits, if it was answered, would make S nothing, as if no wait could ever be
longer; half of what was left before is left. Beyond it nothing is known. There the curve goes on
with the answers per second waited that the known waits had on average:

    S(t) = S(end) · exp(-(t - end) · Σ weight of answered / Σ weight · wait)
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, inf, isfinite, log

_ROUNDING = 1e-12
_LAST_FRAC = 0.5  # of what is left, what the longest wait leaves when it is answered


@dataclass(frozen=True, slots=True)
class WaitSample:
    """One wait for a better offer.

    Attributes:
        at_s: when it ended, engine time.
        waited_s: how long it lasted, above 0.
        is_answered: whether the better offer came; if not, the wait is censored.
    """

    at_s: float
    waited_s: float
    is_answered: bool


@dataclass(frozen=True, slots=True)
class WaitingCurve:
    """The share of waits that last longer than a time: steps, then an exponential.

    Attributes:
        times_s: at which it falls, ascending; above 0.
        left: S just after each of them, 0 to 1, descending.
        end_s: the longest wait known, answered or not; the exponential begins there.
        answers_per_s: of the exponential.
    """

    times_s: tuple[float, ...] = ()
    left: tuple[float, ...] = ()
    end_s: float = 0.0
    answers_per_s: float = 0.0

    def left_after(self, waited_s: float) -> float:
        """S: share of waits that last longer."""
        position = bisect_right(self.times_s, waited_s)
        left = self.left[position - 1] if position else 1.0
        return left * exp(-max(waited_s - self.end_s, 0.0) * self.answers_per_s)

    def quantile_s(self, q_frac: float) -> float:
        """The time by which so many waits are answered; inf where they never will be."""
        for time_s, left in zip(self.times_s, self.left, strict=True):
            if 1.0 - left >= q_frac:
                return time_s
        if not self.answers_per_s:
            return inf
        at_end = self.left[-1] if self.left else 1.0
        return self.end_s + log(at_end / (1.0 - q_frac)) / self.answers_per_s

    def chance(self, waited_s: float, within_s: float) -> float:
        """Hint that a wait which has lasted so long is answered within so much more, 0 to 1.

        1 - S(waited + within) / S(waited); 0 where no wait is known to have lasted so long.
        """
        before = self.left_after(waited_s)
        return 1.0 - self.left_after(waited_s + within_s) / before if before > 0 else 0.0

    def best_stop(self, waited_s: float, gain_s: float, longest_s: float, weight: float) -> float:
        """For how much longer to wait, so that it is worth most: seconds, 0 not to wait at all.

        Waiting for up to Δ more gains `gain_s` with the chance that the offer comes in time, and
        costs the seconds waited, which end when the offer comes:

            worth(Δ) = gain · P(T ≤ Δ) - weight · E[min(T, Δ)]

        T is what is left of the wait. E[min(T, Δ)] is the area under S(waited + t) / S(waited) for
        t up to Δ; gain · P > weight · Δ, the plain form of the test, bounds it from above by Δ.
        Beyond the end of the steps worth only rises or only falls.

        Args:
            waited_s: so far.
            gain_s: seconds that the better offer saves.
            longest_s: Δ is at most this.
            weight: of a second of waiting against a second saved.
        """
        before = self.left_after(waited_s)
        if not (before > 0 and gain_s > 0 and longest_s > 0):
            return 0.0
        best_s, best_worth, area_s, left, since_s = 0.0, 0.0, 0.0, 1.0, 0.0
        for position in range(bisect_right(self.times_s, waited_s), len(self.times_s)):
            delta_s = self.times_s[position] - waited_s
            if delta_s > longest_s:
                return best_s
            area_s += left * (delta_s - since_s)
            left, since_s = self.left[position] / before, delta_s
            worth = gain_s * (1.0 - left) - weight * area_s
            if worth > best_worth:
                best_s, best_worth = delta_s, worth
        to_end_s = max(self.end_s - waited_s, 0.0)
        if longest_s <= to_end_s or gain_s * self.answers_per_s <= weight:
            return best_s
        area_s += left * (to_end_s - since_s)
        fall = 1.0 - exp(-(longest_s - to_end_s) * self.answers_per_s)
        gained = gain_s * (1.0 - left * (1.0 - fall))
        worth = gained - weight * (area_s + left * fall / self.answers_per_s)
        return longest_s if worth > best_worth else best_s


class WaitHistory:
    """The newest waits of one kind.

    Args:
        half_life_s: after so long a wait counts half.
        window_count: how many are remembered.
    """

    def __init__(self, half_life_s: float, window_count: int) -> None:
        self._half_life_s = half_life_s
        self._waits: deque[WaitSample] = deque(maxlen=window_count)

    def __len__(self) -> int:
        return len(self._waits)

    def add(self, wait: WaitSample) -> None:
        """Take in a wait; one that is not a time, or none at all, tells nothing and is dropped."""
        if isfinite(wait.waited_s) and isfinite(wait.at_s) and wait.waited_s > 0:
            self._waits.append(wait)

    def waits(self) -> tuple[WaitSample, ...]:
        """What is remembered, the oldest first."""
        return tuple(self._waits)

    def weight(self, at_s: float) -> float:
        """How many waits of now they are worth."""
        return sum(self._weights(at_s))

    def curve(self, at_s: float, prior: Sequence[tuple[float, float]] = ()) -> WaitingCurve:
        """Estimate the waiting curve.

        Args:
            at_s: engine time; weights are of now.
            prior: (wait, weight) of waits that count besides and do not grow old; the last was
                given up, the others answered.
        """
        pairs = zip(self._waits, self._weights(at_s), strict=True)
        marks = [(wait.waited_s, not wait.is_answered, weight) for wait, weight in pairs]
        for number, (waited_s, weight) in enumerate(prior, start=1):
            marks.append((waited_s, number == len(prior), weight))
        marks.sort()
        return _kaplan_meier(marks)

    def _weights(self, at_s: float) -> list[float]:
        return [2.0 ** min(0.0, (wait.at_s - at_s) / self._half_life_s) for wait in self._waits]


def exponential_prior(mean_s: float, weight: float) -> tuple[tuple[float, float], ...]:
    """Four waits like those of an exponential distribution, of which the last is given up.

    The others are at its octiles 1, 3 and 5. The last is given up at a time that makes the mean
    come out: seconds waited over answers.

    Args:
        mean_s: of the distribution, above 0.
        weight: of the four together.
    """
    answered = [-mean_s * log(1.0 - part / 8) for part in (1, 3, 5)]
    last_s = mean_s * len(answered) - sum(answered)
    return tuple((waited_s, weight / 4) for waited_s in (*answered, last_s))


def _kaplan_meier(marks: Sequence[tuple[float, bool, float]]) -> WaitingCurve:
    """The curve of (wait, is censored, weight), in order: the answered first where waits tie."""
    at_risk = sum(weight for _, _, weight in marks)
    times, lefts, left, last_s = list[float](), list[float](), 1.0, -inf
    for waited_s, is_censored, weight in marks:
        if not is_censored and at_risk > 0:
            passed = at_risk - weight
            left *= passed / at_risk if passed > _ROUNDING else _LAST_FRAC
            if waited_s == last_s:
                lefts[-1] = left
            else:
                times.append(waited_s)
                lefts.append(left)
            last_s = waited_s
        at_risk -= weight
    waited_s = sum(wait_s * weight for wait_s, _, weight in marks)
    answers = sum(weight for _, is_censored, weight in marks if not is_censored)
    per_s = answers / waited_s if waited_s > 0 and left > 0 else 0.0
    return WaitingCurve(tuple(times), tuple(lefts), marks[-1][0] if marks else 0.0, per_s)
