"""How often each user of a node may ask: what is asked there costs roostd time that all share."""

from collections.abc import Callable

_MOST_USERS = 1024


class Allowance:
    """A bucket of requests for each user, full at first and filled again at a rate.

    Args:
        burst_count: requests in a full bucket.
        per_s: how fast it is filled.
        clock: seconds, never backwards.
    """

    def __init__(self, burst_count: float, per_s: float, clock: Callable[[], float]) -> None:
        self.per_s, self._burst_count, self._clock = per_s, burst_count, clock
        self._left: dict[int, tuple[float, float]] = {}  # of a user: requests left, and when

    def take(self, uid: int) -> bool:
        """Take one request out of a user's bucket. False: it is empty, and nothing was taken."""
        now_s = self._clock()
        left = self._left_of(uid, now_s)
        if left < 1.0:
            return False
        if len(self._left) >= _MOST_USERS:
            self._forget_full(now_s)
        self._left[uid] = left - 1.0, now_s
        return True

    def _left_of(self, uid: int, now_s: float) -> float:
        left, at_s = self._left.get(uid, (self._burst_count, now_s))
        return min(left + (now_s - at_s) * self.per_s, self._burst_count)

    def _forget_full(self, now_s: float) -> None:
        full = [uid for uid in self._left if self._left_of(uid, now_s) >= self._burst_count]
        for uid in full:
            del self._left[uid]
