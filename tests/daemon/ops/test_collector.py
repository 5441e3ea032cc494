"""What lives long is not scanned, and what is replaced is freed all the same."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from roostd.ops import collector as module
from roostd.ops.collector import POLLS, Collector


class Engine:
    """Is only freed by the collector: it is part of a cycle."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as collector:
        yield collector
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0


def settle(collector: Collector) -> None:
    for _ in range(POLLS):
        collector.poll()


def test_the_collector_rests_until_an_engine_has_the_jobs(collector: Collector) -> None:
    for _ in range(POLLS - 1):
        collector.poll()
        assert not gc.isenabled()
    assert gc.get_freeze_count() == 0
    collector.poll()
    assert gc.isenabled()
    assert gc.get_freeze_count() > 1_000


def test_what_is_there_is_frozen_once(collector: Collector) -> None:
    settle(collector)
    frozen_count = gc.get_freeze_count()
    settle(collector)
    assert gc.get_freeze_count() <= frozen_count


def test_the_engine_before_is_freed_once_its_follower_has_the_jobs(collector: Collector) -> None:
    engine = Engine()
    gone = weakref.ref(engine)
    settle(collector)
    del engine
    gc.collect()
    assert gone() is not None  # it is frozen
    collector.begin_engine()
    settle(collector)
    assert gone() is None


def test_what_a_long_scan_found_in_use_is_scanned_no_more(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(collector)
    frozen_count = gc.get_freeze_count()
    monkeypatch.setattr(module, "LONG_S", 0.0)
    many = [Engine() for _ in range(1_000)]
    gc.collect()
    assert gc.get_freeze_count() >= frozen_count + len(many)
