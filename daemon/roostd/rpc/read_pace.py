"""When the next message of a probe is read: together with the messages of other probes.

A stream that waits for its message is woken when it comes, by gRPC's thread and by the event loop,
once for each probe and second. So a stream whose probe keeps its interval asks for the next sample
when that sample is there, and all streams that are due within TURN_S ask in one turn of the loop.
1,000 probes at a sample a second cost .10 of a core so and .14 otherwise (benchmarks/ingest.py).
Where more than MOST_PACED send, several samples come in each turn anyway, and waiting only adds a
turn: 5,000 cost .42 of a core with it and .39 without.
"""

import asyncio
from typing import Any

from roostd.rpc.errors import Context

TURN_S = 0.005  # of 2,000 streams 10 are due then: 1 ms, in which the loop answers nothing else
MARGIN_S = 0.02  # by which a sample may be late
MOST_PACED = 2_000  # streams
PACED_COUNT = 60  # messages after which the probe's own pace is looked at again


class Turns:
    """Wakes everything that is due within TURN_S at once.

    Attributes:
        stream_count: streams that are open.
    """

    def __init__(self) -> None:
        self.stream_count = 0
        self._waiting: dict[int, list[asyncio.Future[None]]] = {}

    @property
    def are_worth_it(self) -> bool:
        """Return whether waiting for a turn costs less than reading each message as it comes."""
        return self.stream_count <= MOST_PACED

    def wait(self, until_s: float) -> asyncio.Future[None]:
        """Return what is done in the first turn after that time of the event loop's clock."""
        loop, turn = asyncio.get_running_loop(), int(until_s / TURN_S) + 1
        if turn not in self._waiting:
            self._waiting[turn] = []
            loop.call_at(turn * TURN_S, self._wake, turn)
        waiting = loop.create_future()
        self._waiting[turn].append(waiting)
        return waiting

    def _wake(self, turn: int) -> None:
        for waiting in self._waiting.pop(turn):
            if not waiting.done():  # else its stream has ended
                waiting.set_result(None)


class ReadPace:
    """Reads the messages of one stream.

    Args:
        turns: shared by all streams.
        context: of the stream's call.
        interval_s: at which the probe was asked to send.
    """

    def __init__(self, turns: Turns, context: Context, interval_s: float) -> None:
        self._turns, self._context, self._interval_s = turns, context, interval_s
        self._paced_left = 0
        self._due_s = 0.0

    async def read(self) -> Any:
        """Return the next message, or grpc.aio.EOF."""
        if self._paced_left:
            self._paced_left -= 1
            self._due_s += self._interval_s
            await self._turns.wait(self._due_s)
            return await self._context.read()
        loop = asyncio.get_running_loop()
        asked_s = loop.time()
        message = await self._context.read()
        # A message that came late was the only one; otherwise others may wait behind it.
        if loop.time() - asked_s > self._interval_s / 4 and self._turns.are_worth_it:
            self._paced_left, self._due_s = PACED_COUNT, loop.time() + MARGIN_S
        return message

    def hurry(self) -> None:
        """Read the next messages as they come: the probe was asked for something."""
        self._paced_left = 0
