"""A long queue is read by changed settings in a thread, before a fresh engine asks for it."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.daemon.app.watched_site import Site

from roost_engine.domain.events import JobQueued
from roostd.app.polls import snapshot_reading
from roostd.config.config import Mode
from roostd.slurm.queue_reading import view
from roostd.slurm.queue_view import SlurmQueueView


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setattr(snapshot_reading, "LONG_QUEUE", 0)
    return Site(tmp_path)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each reading of the queue was in the loop."""
    found: list[bool] = []

    def read(*args: Any) -> SlurmQueueView:
        found.append(threading.current_thread() is threading.main_thread())
        return view(*args)

    monkeypatch.setattr(snapshot_reading, "view", read)
    return found


def set_mode(site: Site, mode: Mode) -> None:
    site.state.config = site.state.config.model_copy(update={"mode": mode})


def bindings(site: Site) -> list[bool]:
    events = site.watch.cluster_events()
    return [event.job.binding for event in events if isinstance(event, JobQueued)]


async def test_a_fresh_engine_gets_what_was_read_beside_the_loop(
    site: Site, reads: list[bool]
) -> None:
    site.slurm.submit(gpus=2)
    await site.look()
    reads.clear()
    set_mode(site, Mode.ADVISE)
    await site.watch.prepare_settings()
    assert bindings(site) == [False]
    assert reads == [False]
    await site.watch.prepare_settings()
    assert bindings(site) == [False]
    assert reads == [False]


async def test_settings_that_have_changed_since_are_read_by_again(
    site: Site, reads: list[bool]
) -> None:
    site.slurm.submit(gpus=2)
    await site.look()
    reads.clear()
    set_mode(site, Mode.ADVISE)
    await site.watch.prepare_settings()
    set_mode(site, Mode.ENFORCE)
    site.state.config = site.state.config.model_copy(update={"accounts": ("physics",)})
    assert bindings(site) == []
    assert reads == [False, True]


async def test_a_poll_that_comes_between_is_what_counts(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.slurm.submit(gpus=2)
    await site.look()
    set_mode(site, Mode.ADVISE)
    await site.watch.prepare_settings()
    site.slurm.submit(gpus=2)
    await site.look()
    assert bindings(site) == [False, False]

    began, may_end = threading.Event(), threading.Event()

    def read(*args: Any) -> SlurmQueueView:
        began.set()
        assert may_end.wait(60.0)
        return view(*args)

    monkeypatch.setattr(snapshot_reading, "view", read)
    set_mode(site, Mode.ENFORCE)
    preparing = asyncio.create_task(site.watch.prepare_settings())
    assert await asyncio.to_thread(began.wait, 60.0)
    site.slurm.submit(gpus=2)
    looking = asyncio.create_task(site.look())
    may_end.set()
    await preparing
    assert bindings(site) == [True, True]
    assert await looking == ["JobQueued"]
