"""Keeps the scans of Python's garbage collector short, however much the daemon holds.

A scan of 20,000 jobs and their records takes a quarter of a second, in which the event loop does
nothing else, whichever thread began it. Nearly nothing that lives long is freed by a scan: an
engine is in no cycle, and a probe's stream is in none (tests/daemon/ops/test_collector.py,
tests/daemon/rpc/services/test_telemetry.py). So each object is scanned once: what a scan finds in
use is taken out of later ones ("frozen"), and is then freed by its last reference alone. A cycle
that is in use during a scan and dropped later stays in memory for ever: of gRPC's calls that is one
in each scan at most, see docs/design/0021-short-scans.md.
"""

import asyncio
import gc
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

# A scan of so many new objects takes 3 to 15 ms. It comes once there have been as many for
# STAY_POLLS: a poll of 20,000 jobs makes 60,000 objects and drops most of them.
YOUNG_COUNT = 20_000
STAY_POLLS = 10
# A scan of so many takes 57 to 76 ms. It comes at once, or these would be 15 MB and more.
MOST_YOUNG_COUNT = 100_000
# While an engine is given the jobs, objects come to stay: the scan of YOUNG_COUNT comes at once.
GROWTH_POLLS = 50
# A scan also finds what all probes' streams have made since the last, fifteen objects each, as each
# sample makes new ones: 54 ms with 5,000 streams. Scans at each poll alone find a tenth, still 15
# to 44 ms with 10,000 on a busy machine. So one comes for each SCANNED_STREAMS between two polls.
MANY_STREAMS = 3_000
SCANNED_STREAMS = 1_000
INTERVAL_S = 0.1


class Collector:
    """Is in charge of the garbage collector while it is entered.

    Args:
        stream_count: returns how many streams probes have at most.
    """

    def __init__(self, stream_count: Callable[[], int]) -> None:
        self._stream_count = stream_count
        self._thresholds = gc.get_threshold()
        self._growth_polls_left = self._full_polls = 0

    def __enter__(self) -> Self:
        """Take charge, before the first engine."""
        self._thresholds = gc.get_threshold()
        gc.callbacks.append(_freeze_survivors)
        gc.collect()
        self.expect_growth()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave the collector as it was found."""
        gc.callbacks.remove(_freeze_survivors)
        gc.set_threshold(*self._thresholds)
        gc.unfreeze()

    def expect_growth(self) -> None:
        """Scan in short steps for a while: an engine is given the jobs, or they are read again."""
        self._growth_polls_left = GROWTH_POLLS
        self._scan_at(YOUNG_COUNT)

    async def run(self) -> None:
        """Poll until cancelled."""
        while True:
            scan_count = self._scans_in_a_poll()
            for _ in range(scan_count - 1):
                await asyncio.sleep(INTERVAL_S / scan_count)
                gc.collect(0)
            await asyncio.sleep(INTERVAL_S / scan_count)
            self.poll()

    def _scans_in_a_poll(self) -> int:
        """Return how many scans find what all streams make between two polls."""
        count = self._stream_count()
        return count // SCANNED_STREAMS if count >= MANY_STREAMS else 1

    def poll(self) -> None:
        """Scan the objects since the last scan, if they stay or if many streams make them."""
        if self._growth_polls_left:
            self._growth_polls_left -= 1
            if not self._growth_polls_left:
                self._scan_at(MOST_YOUNG_COUNT)
        self._full_polls = self._full_polls + 1 if gc.get_count()[0] > YOUNG_COUNT else 0
        if self._full_polls >= STAY_POLLS or self._stream_count() >= MANY_STREAMS:
            self._full_polls = 0
            gc.collect(0)

    def _scan_at(self, count: int) -> None:
        gc.set_threshold(count, *self._thresholds[1:])


def _freeze_survivors(phase: str, _info: dict[str, Any]) -> None:
    if phase == "stop":
        gc.freeze()
