"""Keeps Python's garbage collector from scanning what lives as long as an engine does.

A scan of 20,000 jobs and their records takes a quarter of a second, in which the event loop does
nothing else. So the collector rests while an engine is given the cluster's jobs, and what has come
is taken out of later scans ("frozen") ten times a second. What is frozen is freed by its last
reference alone, not as part of a cycle: an engine is in no cycle, and a probe's stream is in none
(tests/daemon/ops/test_collector.py).
"""

import asyncio
import gc
import time
from typing import Any, Self

INTERVAL_S = 0.1  # the jobs of a second, scanned at once, held the loop for .11 s
POLLS = 50  # in which an engine is being given the jobs
LONG_S = 0.02
# A scan of young objects finds all that the streams of probes hold, as each sample makes new ones:
# 11 ms for 1,000 probes, 115 ms for 10,000. What it frees is little: gRPC leaves five objects in a
# cycle for each call. So it is done seldom: every 7 s with 10,000 made one answer in sixty wait.
# 100,000 are 15 MB at most.
YOUNG_COUNT = 100_000


class Collector:
    """Rests and freezes; a context manager."""

    def __init__(self) -> None:
        self._polls_left = 0
        self._began_s = 0.0
        self._thresholds = gc.get_threshold()

    def __enter__(self) -> Self:
        """Take charge of the collector, before the first engine."""
        self._thresholds = gc.get_threshold()
        gc.set_threshold(YOUNG_COUNT, *self._thresholds[1:])
        gc.callbacks.append(self._note)
        self.begin_engine()
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the collector as it was found."""
        gc.callbacks.remove(self._note)
        gc.set_threshold(*self._thresholds)
        gc.unfreeze()
        gc.enable()

    def begin_engine(self) -> None:
        """Rest until an engine has been given the jobs."""
        gc.disable()
        self._polls_left = POLLS

    async def run(self) -> None:
        """Poll until cancelled."""
        while True:
            await asyncio.sleep(INTERVAL_S)
            self.poll()

    def poll(self) -> None:
        """Freeze what has come since the last poll, POLLS times after an engine began."""
        if not self._polls_left:
            return
        self._polls_left -= 1
        gc.collect(1)  # garbage would stay for ever
        gc.freeze()
        if not self._polls_left:
            gc.enable()

    def _note(self, phase: str, info: dict[str, Any]) -> None:
        """Freeze what a long scan has found to be in use: a later one would find the same."""
        if phase == "start":
            self._began_s = time.thread_time()
        elif not self._polls_left and time.thread_time() - self._began_s > LONG_S:
            gc.freeze()
