import asyncio
from typing import Any

from roostd.rpc.read_pace import MARGIN_S, MOST_PACED, ReadPace, Turns

INTERVAL_S = 0.1


class Stream:
    """A call whose messages come when the test says; notes when each was asked for."""

    def __init__(self) -> None:
        self._messages = asyncio.Queue[str]()
        self.asked_s: list[float] = []

    def send(self, *messages: str) -> None:
        for message in messages:
            self._messages.put_nowait(message)

    async def read(self) -> str:
        self.asked_s.append(asyncio.get_running_loop().time())
        return await self._messages.get()


async def read_late(pace: ReadPace, stream: Stream) -> None:
    """Read a message that comes half an interval after it was asked for."""
    asyncio.get_running_loop().call_later(INTERVAL_S / 2, stream.send, "late")
    assert await pace.read() == "late"


def paced(turns: Turns) -> tuple[Any, Stream]:
    stream: Any = Stream()
    return ReadPace(turns, stream, INTERVAL_S), stream


async def test_messages_that_wait_are_read_at_once() -> None:
    pace, stream = paced(Turns())
    stream.send(*"abcdefgh")

    began_s = asyncio.get_running_loop().time()
    assert [await pace.read() for _ in range(8)] == list("abcdefgh")

    assert asyncio.get_running_loop().time() - began_s < INTERVAL_S


async def test_next_message_of_a_steady_probe_is_asked_for_an_interval_later() -> None:
    pace, stream = paced(Turns())
    await read_late(pace, stream)
    came_s = asyncio.get_running_loop().time()

    stream.send("next")
    assert await pace.read() == "next"

    assert stream.asked_s[-1] - came_s >= INTERVAL_S + MARGIN_S * 0.9


async def test_streams_that_are_due_together_are_read_in_one_turn() -> None:
    turns = Turns()
    now_s = asyncio.get_running_loop().time()
    first, second, later = turns.wait(now_s + 0.02), turns.wait(now_s + 0.02), turns.wait(now_s + 1)
    second.cancel()  # its stream ends

    await asyncio.wait_for(first, 1)

    assert not later.done()


async def test_after_an_answer_messages_are_read_as_they_come() -> None:
    pace, stream = paced(Turns())
    await read_late(pace, stream)
    pace.hurry()
    stream.send("hello again")

    before_s = asyncio.get_running_loop().time()
    await pace.read()

    assert stream.asked_s[-1] - before_s < INTERVAL_S / 2


async def test_messages_of_a_crowd_are_read_as_they_come() -> None:
    turns = Turns()
    turns.stream_count = MOST_PACED + 1
    pace, stream = paced(turns)
    await read_late(pace, stream)
    stream.send("next")

    before_s = asyncio.get_running_loop().time()
    await pace.read()

    assert stream.asked_s[-1] - before_s < INTERVAL_S / 2
