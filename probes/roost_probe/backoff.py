"""The wait before the next try, with full jitter."""

import random


class Backoff:
    """Full jitter: a random share of a limit that doubles.

    After an outage thousands of probes reconnect at once; spreading them over the whole interval
    keeps the daemon from losing connections.
    Source: M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
    """

    def __init__(self, first_s: float, most_s: float, rng: random.Random) -> None:
        self._first_s, self._most_s, self._rng = first_s, most_s, rng
        self._failures = 0

    def next_s(self) -> float:
        """Count one more failure and return the wait after it, in seconds."""
        limit_s = min(self._most_s, self._first_s * 2.0 ** min(self._failures, 32))
        self._failures += 1
        return self._rng.uniform(0.0, limit_s)

    def reset(self) -> None:
        """Forget the failures after a success, so that the next wait is short."""
        self._failures = 0
