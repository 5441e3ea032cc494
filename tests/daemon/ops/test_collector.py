"""What lives long is scanned once, and what is replaced is freed all the same."""

import asyncio
import gc
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from roostd.ops import collector as module
from roostd.ops.collector import (
    GROWTH_POLLS,
    MANY_STREAMS,
    MOST_YOUNG_COUNT,
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
