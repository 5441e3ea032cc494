"""Long reading in the event loop, in slices, so that no other task waits for the whole of it."""

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Hashable, Iterable
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
    """Admits one reading at a time: slices of many would add up to a long turn of the loop.

    The callers take turns: one that asks for many readings waits for itself, and each other caller
    for one reading of it.
    """

    def __init__(self) -> None:
        self._is_busy = False
        self._waiting: OrderedDict[Hashable, deque[asyncio.Future[None]]] = OrderedDict()

    @asynccontextmanager
    async def begin(self, caller: Hashable = None) -> AsyncIterator[Slices]:
        """Wait for the readings before this one, and for a turn of its own.

        Args:
            caller: whose reading it is.
        """
        await self._enter(caller)
        try:
            await asyncio.sleep(0)  # the reading before may have ended in this turn
            yield Slices()
        finally:
            self._leave()

    async def _enter(self, caller: Hashable) -> None:
        if not self._is_busy:
            self._is_busy = True
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(caller, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # cancelled in the turn in which it was let in
                self._leave()
            raise

    def _leave(self) -> None:
        """Let in the next reading of the caller that has waited longest for its turn."""
        while self._waiting:
            caller, turns = self._waiting.popitem(last=False)
            turn = turns.popleft()
            if turns:
                self._waiting[caller] = turns  # behind the other callers
            if not turn.done():
                turn.set_result(None)
                return
        self._is_busy = False
