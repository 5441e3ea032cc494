"""Messages of many streams are read in turns, each goes where it belongs, and none is left."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import pytest

from roostd.ops.event_loop import DaemonLoop
from roostd.rpc.services import gathered_reads
from roostd.rpc.services.gathered_reads import GATHER_S, READ_COUNT, GatheredReads, Read


class FakeContext:
    """A call of gRPC: each `read` waits for the next of `say`."""

    def __init__(self) -> None:
        self.next: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    async def read(self) -> Any:
        message = await self.next
        self.next = asyncio.get_running_loop().create_future()
        return message

    def say(self, message: object) -> None:
        self.next.set_result(message)


class Site:
    """Some streams; texts are taken, all other messages are not."""

    def __init__(self, count: int, kind: type[FakeContext] = FakeContext) -> None:
        self.taken = list[tuple[int, str]]()
        self.reads = GatheredReads[int](self.take)
        self.contexts = [kind() for _ in range(count)]
        self.streams = [
            Read(self.reads, context, number)  # type: ignore[arg-type]
            for number, context in enumerate(self.contexts)
        ]
        self.tasks = [asyncio.create_task(stream.next(5.0)) for stream in self.streams]

    def take(self, stream: int, message: object) -> bool:
        if message == "impossible":
            raise ValueError(message)
        if isinstance(message, str):
            self.taken.append((stream, message))
        return isinstance(message, str)

    async def until_taken(self, count: int) -> None:
        async with asyncio.timeout(5):
            while len(self.taken) < count:  # noqa: ASYNC110
                await asyncio.sleep(0.001)

    async def end(self) -> None:
        for stream, task in zip(self.streams, self.tasks, strict=True):
            stream.close()
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


async def test_messages_wait_for_others_but_not_for_long() -> None:
    site = Site(3)
    await asyncio.sleep(0)
    began_s = asyncio.get_running_loop().time()
    site.contexts[0].say("a")
    await asyncio.sleep(GATHER_S / 5)
    site.contexts[2].say("b")
    assert site.taken == []

    await site.until_taken(2)

    assert site.taken == [(0, "a"), (2, "b")]
    assert asyncio.get_running_loop().time() - began_s >= GATHER_S * 0.9
    await site.end()


async def test_a_full_turn_does_not_wait_and_leaves_the_rest_for_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gathered_reads, "GATHER_S", 60.0)
    site = Site(2 * READ_COUNT)
    await asyncio.sleep(0)
    for context in site.contexts:
        context.say("a")

    await site.until_taken(2 * READ_COUNT)

    await site.end()


class GrpcContext(FakeContext):
    """Makes the future of a read when the read begins, by the loop, as gRPC does."""

    async def read(self) -> Any:
        self.next = asyncio.get_running_loop().create_future()
        return await self.next


def on_the_loop_of_roostd(coroutine: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=DaemonLoop) as runner:
        runner.run(coroutine)


def test_messages_are_noted_as_grpc_tells_of_them_and_not_a_turn_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gathered_reads, "READ_COUNT", 2)

    async def run() -> None:
        site = Site(2, GrpcContext)
        await asyncio.sleep(0)
        for number in range(3):
            for context in site.contexts:
                context.say(str(number))
            await asyncio.sleep(0)
            assert len(site.taken) == 2 * (number + 1)
        await site.end()

    on_the_loop_of_roostd(run())


async def test_the_loop_makes_its_own_futures_for_all_else() -> None:
    site = Site(1, GrpcContext)
    await asyncio.sleep(0)
    loop = asyncio.get_running_loop()
    assert type(loop.create_future()) is asyncio.Future
    is_own = isinstance(loop, DaemonLoop)
    assert (type(site.contexts[0].next) is not asyncio.Future) == is_own
    site.contexts[0].next.set_exception(ConnectionError("gone"))
    with pytest.raises(ConnectionError, match="gone"):
        await asyncio.wait_for(site.tasks[0], 5)
    await site.end()


async def test_a_stream_is_read_on_after_each_message() -> None:
    site = Site(1)
    for number in range(3):
        await asyncio.sleep(0)
        site.contexts[0].say(str(number))
        await site.until_taken(number + 1)
    assert site.taken == [(0, "0"), (0, "1"), (0, "2")]
    await site.end()


async def test_a_message_that_is_not_taken_goes_to_the_stream_s_own_task() -> None:
    site = Site(1)
    await asyncio.sleep(0)
    site.contexts[0].say(7)
    assert await asyncio.wait_for(site.tasks[0], 5) == 7

    site.tasks[0] = asyncio.create_task(site.streams[0].next(5.0))
    await asyncio.sleep(0)
    site.contexts[0].say("a")
    await site.until_taken(1)
    await site.end()


async def test_errors_are_raised_in_the_stream_s_own_task() -> None:
    site = Site(2)
    await asyncio.sleep(0)
    site.contexts[0].say("impossible")
    site.contexts[1].next.set_exception(ConnectionError("gone"))
    with pytest.raises(ValueError, match="impossible"):
        await asyncio.wait_for(site.tasks[0], 5)
    with pytest.raises(ConnectionError, match="gone"):
        await asyncio.wait_for(site.tasks[1], 5)
    await site.end()


async def test_a_stream_is_given_up_when_it_says_nothing_and_not_while_it_speaks() -> None:
    site = Site(1)
    site.tasks[0].cancel()
    site.tasks[0] = silent = asyncio.create_task(site.streams[0].next(1.5))
    for _ in range(6):
        await asyncio.sleep(0.3)  # a busy machine sleeps longer
        assert not silent.done()
        site.contexts[0].say("a")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(silent, 5)
    await site.end()


async def test_a_stream_that_was_cancelled_does_not_hinder_the_others_of_its_turn() -> None:
    """10,000 probes that left at once made a turn stop at the first of them."""
    site = Site(3)
    await asyncio.sleep(0)
    for context in site.contexts:
        context.say("a")
    site.tasks[0].cancel()

    await site.until_taken(2)

    assert site.taken == [(1, "a"), (2, "a")]
    await site.end()


@pytest.mark.parametrize("kind", [FakeContext, GrpcContext])
async def test_a_read_that_fails_after_its_stream_has_ended_is_no_news(
    kind: type[FakeContext],
) -> None:
    news = list[dict[str, Any]]()
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: news.append(context))
    site = Site(1, kind)
    await asyncio.sleep(0)
    await site.end()
    site.contexts[0].next.set_exception(ConnectionError("gone"))
    site.contexts.clear()
    site.streams.clear()
    await asyncio.sleep(2 * GATHER_S)
    assert news == []


@pytest.mark.parametrize(
    "test",
    [
        test_messages_wait_for_others_but_not_for_long,
        test_the_loop_makes_its_own_futures_for_all_else,
        test_a_stream_is_read_on_after_each_message,
        test_a_message_that_is_not_taken_goes_to_the_stream_s_own_task,
        test_errors_are_raised_in_the_stream_s_own_task,
        test_a_stream_is_given_up_when_it_says_nothing_and_not_while_it_speaks,
        test_a_stream_that_was_cancelled_does_not_hinder_the_others_of_its_turn,
        partial(test_a_read_that_fails_after_its_stream_has_ended_is_no_news, GrpcContext),
    ],
)
def test_the_same_on_the_loop_of_roostd(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    on_the_loop_of_roostd(test())
