"""What lives long is not scanned, and what is replaced is freed all the same."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from roostd.ops.collector import POLLS, Collector


class Engine:
    """Is only freed by the collector: it is part of a cycle."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def unfrozen() -> Iterator[None]:
    gc.unfreeze()  # a daemon of an earlier test may have frozen what there was
    yield
    gc.unfreeze()


def poll(collector: Collector) -> None:
    for _ in range(POLLS):
        collector.poll()


def test_what_is_there_after_a_start_is_scanned_no_more() -> None:
    collector = Collector()
    for _ in range(POLLS - 1):
        collector.poll()
    assert gc.get_freeze_count() == 0
    collector.poll()
    frozen_count = gc.get_freeze_count()
    assert frozen_count > 1_000
    poll(collector)
    assert gc.get_freeze_count() <= frozen_count  # once is enough


def test_the_engine_before_is_freed_once_its_follower_is_settled() -> None:
    collector, engine = Collector(), Engine()
    gone = weakref.ref(engine)
    poll(collector)
    collector.loosen()
    del engine
    poll(collector)
    assert gone() is None
    assert gc.get_freeze_count() > 1_000
