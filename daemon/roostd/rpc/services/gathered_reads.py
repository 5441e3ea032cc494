"""Reads what the streams of many probes have sent, in turns of a few dozen messages.

A stream that a task of its own reads costs a wake-up of that task for each message, with cold
caches: 1,000 samples a second come one by one. Here no task waits for a message. gRPC notes that it
has come, and up to READ_COUNT messages are read in one turn of the event loop, GATHER_S after the
first of them at the latest.

A read of gRPC is a coroutine that waits for one future (grpc.aio.ServicerContext.read). It is
started and ended here by hand. gRPC gets that future from the event loop: roostd's own makes an
_Arrival, which reports its result at once (DaemonLoop.begin). On any other loop a done callback
does, a turn of the loop later.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from roostd.ops.event_loop import DaemonLoop
from roostd.rpc.errors import Context

GATHER_S = 0.05
# In a turn: about a millisecond, in which the loop answers nothing else. A message takes 20 us in
# turns of 16, and 15 us in turns of 64, as code and data stay in the caches.
READ_COUNT = 64

Stream = TypeVar("Stream")


class GatheredReads(Generic[Stream]):
    """The reads of all streams of a service.

    Args:
        take: called with a stream and its message; returns whether that is all there is to do. A
            message that it does not take goes to `Read.next`.
    """

    def __init__(self, take: Callable[[Stream, Any], bool]) -> None:
        self._take = take
        self._ready: list[Read[Stream]] = []
        self._timer: asyncio.Handle | None = None

    def note(self, read: "Read[Stream]") -> None:
        """Note that a stream has a message, or has ended."""
        self._ready.append(read)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(GATHER_S, self._turn)
        elif len(self._ready) == READ_COUNT:
            self._timer.cancel()
            self._timer = asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        """Read some messages; what else has come to the event loop is done before the next turn."""
        loop = asyncio.get_running_loop()
        batch, self._ready = self._ready[:READ_COUNT], self._ready[READ_COUNT:]
        self._timer = loop.call_soon(self._turn) if self._ready else None
        now_s = loop.time()
        for read in batch:
            read.finish(self._take, now_s)


class Read(Generic[Stream]):
    """The reads of one stream. Close it when the stream ends.

    Args:
        reads: of all streams.
        context: of the call.
        stream: what `take` is called with.

    Attributes:
        heard_s: when the last message was read, by the event loop's clock.
    """

    __slots__ = (
        "_context",
        "_coroutine",
        "_left",
        "_loop",
        "_reads",
        "_stream",
        "_timer",
        "heard_s",
    )

    def __init__(self, reads: GatheredReads[Stream], context: Context, stream: Stream) -> None:
        self._reads, self._context = reads, context
        self._stream: Stream | None = stream
        self._coroutine: Coroutine[Any, Any, Any] | None = None
        self._left: asyncio.Future[Any] | None = None  # of the message that is not taken
        self._timer: asyncio.TimerHandle | None = None
        loop = asyncio.get_running_loop()
        self._loop = loop if isinstance(loop, DaemonLoop) else None
        self.heard_s = loop.time()

    async def next(self, patience_s: float) -> Any:
        """Return the next message that is not taken, or grpc.aio.EOF.

        Raises:
            TimeoutError: no message at all came for so long.
        """
        self._left = asyncio.get_running_loop().create_future()
        self._begin()
        self._watch(patience_s)
        try:
            return await self._left
        finally:
            if self._timer is not None:
                self._timer.cancel()

    def close(self) -> None:
        """Take nothing any more."""
        self._stream = self._left = None

    def finish(self, take: Callable[[Stream, Any], bool], now_s: float) -> None:
        """Read the message that has come; wait for another if it is taken."""
        stream, left, coroutine = self._stream, self._left, self._coroutine
        self._coroutine = None
        if stream is None or left is None or left.done() or coroutine is None:
            return  # the stream has ended, or its task was cancelled and ends it next
        try:
            message = _result(coroutine)
            self.heard_s = now_s
            if take(stream, message):
                self._begin()
            else:
                left.set_result(message)
        except Exception as error:  # noqa: BLE001  the stream's own task raises it
            left.set_exception(error)

    def _watch(self, patience_s: float) -> None:
        """End `next` once nothing has come for so long: one timer, and not one a message."""
        loop, left = asyncio.get_running_loop(), self._left
        due_s = self.heard_s + patience_s
        if due_s > loop.time():
            self._timer = loop.call_at(due_s, self._watch, patience_s)
        elif left is not None and not left.done():
            left.set_exception(TimeoutError())

    def _begin(self) -> None:
        coroutine = self._context.read()
        if self._loop is None:
            awaited = coroutine.send(None)
        else:
            awaited = self._loop.begin(coroutine, self._make_arrival)
        self._coroutine = coroutine
        if not isinstance(awaited, _Arrival):  # another grpcio, or another loop
            awaited.add_done_callback(self.note)

    def _make_arrival(self) -> "_Arrival":
        return _Arrival(self)

    def note(self, arrival: asyncio.Future[Any]) -> None:
        """Note that the message has come, or that none will."""
        if self._stream is None:
            arrival.exception()  # nothing else looks at it
        else:
            self._reads.note(self)


class _Arrival(asyncio.Future[Any]):
    """The future that a read of gRPC waits for; reports its result to the Read at once."""

    __slots__ = ("_read",)

    def __init__(self, read: Read[Any]) -> None:
        super().__init__()
        self._read: Read[Any] | None = read

    def set_result(self, result: Any) -> None:
        super().set_result(result)
        self._tell()

    def set_exception(self, error: BaseException | type[BaseException]) -> None:
        super().set_exception(error)
        self._tell()

    def _tell(self) -> None:
        read, self._read = self._read, None  # the two would be in a cycle otherwise
        if read is not None:
            read.note(self)


def _result(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine to its end, which needs no waiting any more."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise RuntimeError("a read waits for a second thing")
