"""How long it takes until a better offer comes, learned from waits of which many were given up.

A job that gave up after ten minutes tells that its wait would have been longer than ten minutes,
no more. Leaving such waits out, as Dally's tuner does, makes every estimate too short; Kaplan and
Meier (JASA 53, 1958) count them for as long as they lasted:

    S(t) = Π over answered waits w ≤ t of 1 - d(w) / n(w)

S(t): share of waits longer than t, 0 to 1. d(w): weight of the waits answered after exactly w.
n(w): weight of the waits that lasted w or longer, answered or not. The weight of a wait that ended
a seconds ago is 2 ** (-a / half-life), so that the curve follows the cluster; the newest
`window_count` waits count, so that it follows quickly when many come.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isfinite, log


@dataclass(frozen=True, slots=True)
class Wait:
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
    """The share of waits that last longer than a time: a step function.

    Attributes:
        times_s: at which it falls, ascending; above 0.
        left: S just after each of them, 0 to 1, descending.
        end_s: the longest wait known, answered or not: nothing is known beyond.
    """

    times_s: tuple[float, ...] = ()
    left: tuple[float, ...] = ()
    end_s: float = 0.0

    def left_after(self, waited_s: float) -> float:
        """S: share of waits that last longer."""
        position = bisect_right(self.times_s, waited_s)
        return self.left[position - 1] if position else 1.0

    def quantile_s(self, q_frac: float) -> float:
        """The time by which so many waits are answered; where too few are, the longest known."""
        for time_s, left in zip(self.times_s, self.left, strict=True):
            if 1.0 - left >= q_frac:
                return time_s
        return self.end_s

    def chance(self, waited_s: float, within_s: float) -> float:
        """Chance that a wait which has lasted so long is answered within so much more, 0 to 1.

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
                break
            area_s += left * (delta_s - since_s)
            left, since_s = self.left[position] / before, delta_s
            worth = gain_s * (1.0 - left) - weight * area_s
            if worth > best_worth:
                best_s, best_worth = delta_s, worth
        return best_s


class WaitHistory:
    """The newest waits of one kind.

    Args:
        half_life_s: after so long a wait counts half.
        window_count: how many are remembered.
    """

    def __init__(self, half_life_s: float, window_count: int) -> None:
        self._half_life_s = half_life_s
        self._waits: deque[Wait] = deque(maxlen=window_count)

    def __len__(self) -> int:
        return len(self._waits)

    def add(self, wait: Wait) -> None:
        """Take in a wait; one that is not a time, or none at all, tells nothing and is dropped."""
        if isfinite(wait.waited_s) and isfinite(wait.at_s) and wait.waited_s > 0:
            self._waits.append(wait)

    def waits(self) -> tuple[Wait, ...]:
        """What is remembered, the oldest first."""
        return tuple(self._waits)

    def weight(self, at_s: float) -> float:
        """How many waits of now they are worth."""
        return sum(self._weights(at_s))

    def curve(self, at_s: float, prior: Sequence[tuple[float, float]] = ()) -> WaitingCurve:
        """Estimate the waiting curve.

        Args:
            at_s: engine time; weights are of now.
            prior: (wait, weight) of answered waits that count besides; they do not grow old.
        """
        pairs = zip(self._waits, self._weights(at_s), strict=True)
        marks = [(wait.waited_s, not wait.is_answered, weight) for wait, weight in pairs]
        marks += [(waited_s, False, weight) for waited_s, weight in prior]
        marks.sort()
        return _kaplan_meier(marks)

    def _weights(self, at_s: float) -> list[float]:
        return [2.0 ** min(0.0, (wait.at_s - at_s) / self._half_life_s) for wait in self._waits]


def exponential_prior(mean_s: float, weight: float) -> tuple[tuple[float, float], ...]:
    """Four waits at the octiles 1, 3, 5 and 7 of an exponential distribution, for a curve's prior.

    Args:
        mean_s: of the distribution, above 0.
        weight: of the four together.
    """
    return tuple((-mean_s * log(1.0 - part / 8), weight / 4) for part in (1, 3, 5, 7))


def _kaplan_meier(marks: Sequence[tuple[float, bool, float]]) -> WaitingCurve:
    """The curve of (wait, is censored, weight), in order: the answered first where waits tie."""
    at_risk = sum(weight for _, _, weight in marks)
    times, lefts, left, last_s = list[float](), list[float](), 1.0, -inf
    for waited_s, is_censored, weight in marks:
        if not is_censored and at_risk > 0:
            left *= max(0.0, 1.0 - weight / at_risk)
            if waited_s == last_s:
                lefts[-1] = left
            else:
                times.append(waited_s)
                lefts.append(left)
            last_s = waited_s
        at_risk -= weight
    return WaitingCurve(tuple(times), tuple(lefts), marks[-1][0] if marks else 0.0)
