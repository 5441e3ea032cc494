"""What lives long is not scanned, and what is replaced is freed all the same."""

import asyncio
import gc
import weakref
from collections.abc import Iterator

import pytest

from roostd.ops import collector as module
from roostd.ops.collector import POLLS, YOUNG_COUNT, Collector


class Part:
    """Knows its engine, or does not."""

    def __init__(self, engine: "Engine | None" = None) -> None:
        self.engine = engine


class Engine:
    """Is part of a cycle if it is told so; only the collector frees it then."""

    def __init__(self, *, in_cycle: bool = False) -> None:
        self.part = Part(self if in_cycle else None)


@pytest.fixture
def collector() -> Iterator[Collector]:
    thresholds = gc.get_threshold()
    with Collector() as collector:
        assert gc.get_threshold()[0] == YOUNG_COUNT
        yield collector
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0
    assert gc.get_threshold() == thresholds


def settle(collector: Collector) -> None:
    for _ in range(POLLS):
        collector.poll()


def test_the_collector_rests_until_an_engine_has_the_jobs(collector: Collector) -> None:
    for _ in range(POLLS - 1):
        collector.poll()
        assert not gc.isenabled()
    collector.poll()
    assert gc.isenabled()


async def test_it_rests_for_seconds_and_polls_by_itself(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert POLLS * module.INTERVAL_S == 5.0
    monkeypatch.setattr(module, "INTERVAL_S", 0.0)
    task = asyncio.create_task(collector.run())
    async with asyncio.timeout(60.0):
        while not gc.isenabled():  # noqa: ASYNC110  nothing tells of it
            await asyncio.sleep(0)
    task.cancel()


def test_what_an_engine_is_given_is_frozen_as_it_comes(collector: Collector) -> None:
    jobs = list[Part]()
    for count in range(1, POLLS + 1):
        frozen_count = gc.get_freeze_count()
        jobs += [Part() for _ in range(100)]
        collector.poll()
        assert gc.get_freeze_count() >= max(frozen_count, 100 * count)


def test_an_engine_in_no_cycle_is_freed_by_the_next_though_it_is_frozen(
    collector: Collector,
) -> None:
    engine = Engine()
    gone = weakref.ref(engine)
    settle(collector)
    collector.begin_engine()
    engine = Engine()
    assert gone() is None


def test_garbage_of_the_time_of_rest_is_freed(collector: Collector) -> None:
    gone = weakref.ref(Engine(in_cycle=True))
    assert gone() is not None
    collector.poll()
    assert gone() is None


def test_what_a_long_scan_found_in_use_is_scanned_no_more(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(collector)
    frozen_count = gc.get_freeze_count()
    monkeypatch.setattr(module, "LONG_S", 0.0)
    many = [Part() for _ in range(1_000)]
    gc.collect()
    assert gc.get_freeze_count() >= frozen_count + len(many)
