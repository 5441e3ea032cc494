"""Keeps the scans of Python's garbage collector short, however much the daemon holds.

A scan of 20,000 jobs and their records takes a quarter of a second, in which the event loop does
nothing else, whichever thread began it. Nearly nothing that lives long is freed by a scan: an
engine is in no cycle, and a probe's stream is in none (tests/daemon/ops/test_collector.py,
tests/daemon/rpc/services/test_telemetry.py). So each object is scanned once: what a scan finds in
use is taken out of later ones ("frozen"), and is then freed by its last reference alone.
"""

import asyncio
import gc
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

# A scan comes when there are so many objects more than after the last one; they take it 3 to 15 ms.
YOUNG_COUNT = 20_000
# It also finds what all probes' streams have made since, fifteen objects each, as each sample makes
# new ones: 54 ms with 5,000 streams. Scans ten times a second find a tenth of them, and take 3 ms.
MANY_STREAMS = 3_000
INTERVAL_S = 0.1


class Collector:
    """Is in charge of the garbage collector while it is entered.

    Args:
        stream_count: returns how many streams probes have.
    """

    def __init__(self, stream_count: Callable[[], int]) -> None:
        self._stream_count = stream_count
        self._thresholds = gc.get_threshold()

    def __enter__(self) -> Self:
        """Take charge, before the first engine."""
        self._thresholds = gc.get_threshold()
        gc.set_threshold(YOUNG_COUNT, *self._thresholds[1:])
        gc.callbacks.append(_freeze_survivors)
        gc.collect()
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

    async def run(self) -> None:
        """Poll until cancelled."""
        while True:
            await asyncio.sleep(INTERVAL_S)
            self.poll()

    def poll(self) -> None:
        """Scan the objects since the last scan, if many streams make them."""
        if self._stream_count() >= MANY_STREAMS:
            gc.collect(0)


def _freeze_survivors(phase: str, _info: dict[str, Any]) -> None:
    if phase == "stop":
        gc.freeze()
