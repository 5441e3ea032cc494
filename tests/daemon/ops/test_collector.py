"""What lives long is scanned once, and what is replaced is freed all the same."""

import asyncio
import contextlib
import gc
import threading
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import grpc
import pytest

from roostd.ops import collector as module
from roostd.ops.collector import (
    GROWTH_POLLS,
    MANY_STREAMS,
    MOST_YOUNG_COUNT,
    SCANNED_STREAMS,
    STAY_POLLS,
    YOUNG_COUNT,
    Collector,
)


class Part:
    """Knows its engine, or does not."""

    def __init__(self, engine: "Engine | None" = None) -> None:
        self.engine = engine


class Engine:
    """Is part of a cycle if it is told so; only the collector frees it then."""

    def __init__(self, *, in_cycle: bool = False) -> None:
        self.part = Part(self if in_cycle else None)


class Scans:
    """The scans since it was made: how many objects they could have found."""

    def __init__(self) -> None:
        self.young_counts = list[int]()

    def note(self, phase: str, _info: dict[str, Any]) -> None:
        """Count all objects that are not frozen; those are in no generation."""
        if phase == "start":
            self.young_counts.append(len(gc.get_objects()))


class PassOn(grpc.aio.ServerInterceptor):
    """Changes nothing; for a call with interceptors grpcio makes objects that are in a cycle."""

    async def intercept_service(
        self, continuation: Callable[[Any], Awaitable[Any]], handler_call_details: Any
    ) -> Any:
        """See grpc.aio.ServerInterceptor."""
        return await continuation(handler_call_details)


@contextlib.asynccontextmanager
async def echo_server() -> AsyncIterator[Callable[[bytes], Awaitable[bytes]]]:
    """Serve a method whose calls stay in flight for a while; yield what calls it."""

    async def echo(request: bytes, _context: Any) -> bytes:
        await asyncio.sleep(0.02)
        return request

    server = grpc.aio.server(interceptors=(PassOn(),))
    handler: Any = grpc.unary_unary_rpc_method_handler(echo)
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("test.Echo", {"Echo": handler}),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        call: Any = channel.unary_unary("/test.Echo/Echo")
        yield call
    await server.stop(None)


def left_call_count() -> int:
    """Return how many calls left their cycle behind in frozen memory, and unfreeze it."""
    gc.set_threshold(0)
    gc.collect()
    gc.unfreeze()
    return sum(type(one).__name__ == "_HandlerCallDetails" for one in gc.get_objects())


@pytest.fixture
def streams() -> list[int]:
    return []


@pytest.fixture
def collector(streams: list[int]) -> Iterator[Collector]:
    thresholds, callbacks = gc.get_threshold(), list(gc.callbacks)
    with Collector(lambda: len(streams)) as collector:
        assert gc.get_threshold()[0] == YOUNG_COUNT
        yield collector
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0
    assert gc.get_threshold() == thresholds
    assert gc.callbacks == callbacks


@pytest.fixture
def scans(collector: Collector) -> Iterator[Scans]:
    scans = Scans()
    gc.callbacks.append(scans.note)
    yield scans
    gc.callbacks.remove(scans.note)


def settle(collector: Collector) -> None:
    """Let the time of growth pass."""
    for _ in range(GROWTH_POLLS):
        collector.poll()


def test_what_was_there_before_is_scanned_no_more(collector: Collector) -> None:
    assert gc.get_freeze_count() > len(gc.get_objects())


def test_no_scan_finds_more_than_what_has_come_since_the_last(scans: Scans) -> None:
    jobs = [Part() for _ in range(10 * YOUNG_COUNT)]
    assert len(scans.young_counts) >= 9
    assert max(scans.young_counts) < 1.2 * YOUNG_COUNT
    assert gc.get_freeze_count() >= len(jobs) - YOUNG_COUNT


def test_that_holds_in_other_threads(scans: Scans) -> None:
    jobs = list[Part]()
    reader = threading.Thread(target=lambda: jobs.extend(Part() for _ in range(4 * YOUNG_COUNT)))
    reader.start()
    reader.join()
    assert len(scans.young_counts) >= 3
    assert max(scans.young_counts) < 1.2 * YOUNG_COUNT


def test_an_engine_in_no_cycle_is_freed_though_it_is_frozen(collector: Collector) -> None:
    engine = Engine()
    gone = weakref.ref(engine)
    gc.collect(0)
    engine = Engine()
    assert gone() is None


def test_young_garbage_is_freed(scans: Scans) -> None:
    gone = weakref.ref(Engine(in_cycle=True))
    jobs = [Part() for _ in range(YOUNG_COUNT)]
    assert len(scans.young_counts) == 1
    assert gone() is None
    assert len(jobs) == YOUNG_COUNT


def test_what_is_dropped_soon_is_not_scanned(collector: Collector, scans: Scans) -> None:
    settle(collector)
    for _ in range(2 * STAY_POLLS):
        jobs = [Part() for _ in range(3 * YOUNG_COUNT)]
        collector.poll()
        del jobs
        collector.poll()
    assert not scans.young_counts


def test_what_stays_is_scanned_within_a_second(collector: Collector, scans: Scans) -> None:
    settle(collector)
    jobs = [Part() for _ in range(2 * YOUNG_COUNT)]
    for _ in range(STAY_POLLS):
        assert not scans.young_counts
        collector.poll()
    assert len(scans.young_counts) == 1
    assert gc.get_freeze_count() >= len(jobs)


def test_a_burst_is_scanned_at_once(collector: Collector, scans: Scans) -> None:
    settle(collector)
    jobs = [Part() for _ in range(MOST_YOUNG_COUNT + 100)]
    assert len(scans.young_counts) == 1
    collector.expect_growth()
    jobs += [Part() for _ in range(YOUNG_COUNT + 100)]
    assert len(scans.young_counts) == 2


async def test_it_scans_ten_times_a_second_while_there_are_many_streams(
    collector: Collector, scans: Scans, streams: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert module.INTERVAL_S == 0.1
    monkeypatch.setattr(module, "INTERVAL_S", 0.0)
    task = asyncio.create_task(collector.run())
    for _ in range(10):
        await asyncio.sleep(0)
    assert not scans.young_counts
    streams.extend(range(MANY_STREAMS))
    gone = weakref.ref(Engine(in_cycle=True))
    async with asyncio.timeout(60.0):
        while len(scans.young_counts) < 2:  # noqa: ASYNC110  nothing tells of it
            await asyncio.sleep(0)
    assert gone() is None
    task.cancel()


async def test_the_more_streams_the_more_scans_come_between_two_polls(
    collector: Collector, scans: Scans, streams: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "INTERVAL_S", 0.0)
    streams.extend(range(5 * SCANNED_STREAMS))
    counts, poll = list[int](), collector.poll

    def noting_poll() -> None:
        poll()
        counts.append(len(scans.young_counts))

    monkeypatch.setattr(collector, "poll", noting_poll)
    task = asyncio.create_task(collector.run())
    async with asyncio.timeout(60.0):
        while len(counts) < 2:  # noqa: ASYNC110  nothing tells of it
            await asyncio.sleep(0)
    task.cancel()
    assert counts[0] == 5
    assert counts[1] == 10


async def test_a_scan_leaves_one_call_in_memory_at_most(collector: Collector, scans: Scans) -> None:
    async with echo_server() as echo:
        await echo(b"first")
        gc.collect()
        scans.young_counts.clear()
        gc.set_threshold(1_000)  # scans come in the midst of calls
        await asyncio.gather(*(echo(b"again") for _ in range(300)))
        scan_count = len(scans.young_counts)
        assert 0 < scan_count < 100
        assert left_call_count() <= scan_count


async def test_a_scan_by_a_poll_leaves_no_call_in_memory(collector: Collector) -> None:
    async with echo_server() as echo:
        await echo(b"first")
        gc.set_threshold(0)
        calls = asyncio.gather(*(echo(b"again") for _ in range(300)))
        while not calls.done():
            gc.collect(0)
            await asyncio.sleep(0.001)
        assert left_call_count() == 0
