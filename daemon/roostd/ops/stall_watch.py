"""Measures how long the event loop keeps its other tasks waiting."""

import asyncio
import time

from roostd.ops.metrics import Metrics

INTERVAL_S = 0.05


class StallWatch:
    """Wakes up every INTERVAL_S, and records how much later than that it was.

    The longest turn of the loop that a wake-up fell into is what it was late by. A turn that is
    shorter than the interval may fall between two of them.

    Args:
        metrics: receives each delay.

    Attributes:
        longest_s: the longest delay since `reset`, seconds.
        longest_cpu_s: the most CPU time that the loop's thread used from one wake-up to the next,
            since `reset`. Unlike the delay it does not count the time of other processes.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self.longest_s = self.longest_cpu_s = 0.0

    async def run(self) -> None:
        """Measure until cancelled."""
        due_s, cpu_s = time.monotonic() + INTERVAL_S, time.thread_time()
        while True:
            await asyncio.sleep(max(due_s - time.monotonic(), 0.0))
            now_s, before_s, cpu_s = time.monotonic(), cpu_s, time.thread_time()
            self.note(now_s - due_s)
            self.longest_cpu_s = max(self.longest_cpu_s, cpu_s - before_s)
            due_s = now_s + INTERVAL_S

    def note(self, late_s: float) -> None:
        """Record one delay."""
        late_s = max(late_s, 0.0)
        self._metrics.loop_stall_s.observe(late_s)
        if late_s > self.longest_s:
            self.longest_s = late_s
            self._metrics.longest_stall_s.set(late_s)

    def reset(self) -> None:
        """Forget the longest delay, for a measurement that begins now."""
        self.longest_s = self.longest_cpu_s = 0.0
        self._metrics.longest_stall_s.set(0.0)
