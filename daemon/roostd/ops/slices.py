"""Long reading in the event loop, in slices, so that no other task waits for the whole of it."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import TypeVar

SLICE_S = 0.002

_Item = TypeVar("_Item")


class Slices:
    """Gives way to the other tasks of the event loop whenever a slice is used up."""

    def __init__(self) -> None:
        self._began_s = time.perf_counter()

    async def give_way(self) -> None:
        """Let the other tasks run if SLICE_S have passed since they could."""
        if time.perf_counter() - self._began_s >= SLICE_S:
            await asyncio.sleep(0)
            self._began_s = time.perf_counter()

    async def over(self, items: Iterable[_Item]) -> AsyncIterator[_Item]:
        """Yield the items; the other tasks may run between any two of them."""
        for item in items:
            yield item
            await self.give_way()


class Readings:
    """Admits one reading at a time: slices of many would add up to a long turn of the loop."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[Slices]:
        """Wait for the readings before this one, and for a turn of its own."""
        async with self._lock:
            await asyncio.sleep(0)  # the reading before may have ended in this turn
            yield Slices()
