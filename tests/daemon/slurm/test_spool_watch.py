import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from roost_engine.domain.errors import RoostError
from roost_slurm.hooks import spool
from roost_slurm.hooks.spool import SpoolReader, Started
from roostd.slurm.spool_watch import FolderWatch


@pytest_asyncio.fixture
async def watch(tmp_path: Path) -> AsyncIterator[FolderWatch]:
    watch = FolderWatch(tmp_path)
    yield watch
    watch.close()


async def noticed(watch: FolderWatch) -> None:
    async with asyncio.timeout(60):
        await watch.changed.wait()
    watch.changed.clear()


async def test_wakes_when_the_file_comes_and_at_every_line(
    watch: FolderWatch, tmp_path: Path
) -> None:
    reader = SpoolReader(tmp_path / "events")
    assert not watch.changed.is_set()
    for number in ("1", "2", "3"):
        spool.append(tmp_path / "events", Started(number))
        await noticed(watch)
        assert reader.drain().events == (Started(number),)


async def test_survives_truncation_replacement_and_absence(
    watch: FolderWatch, tmp_path: Path
) -> None:
    file, reader = tmp_path / "events", SpoolReader(tmp_path / "events")
    spool.append(file, Started("1"))
    await noticed(watch)
    assert reader.drain().events == (Started("1"),)
    os.truncate(file, 0)
    await noticed(watch)
    assert reader.drain().events == ()
    file.rename(tmp_path / "events.1")
    spool.append(file, Started("2"))
    await noticed(watch)
    assert reader.drain().events == (Started("2"),)
    file.rename(tmp_path / "events.2")
    assert reader.drain().events == ()
    spool.append(file, Started("3"))
    await noticed(watch)
    assert reader.drain().events == (Started("3"),)


async def test_sleeps_while_nothing_happens(watch: FolderWatch, tmp_path: Path) -> None:
    (tmp_path / "events").touch()
    await noticed(watch)
    (tmp_path / "events").read_bytes()
    await asyncio.sleep(0)
    assert not watch.changed.is_set()


async def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(RoostError, match="missing cannot be watched: No such file"):
        FolderWatch(tmp_path / "missing")
