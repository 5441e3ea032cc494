import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from roost_engine.domain.events import Tick
from roost_engine.engine import EngineConfig
from roost_formats.journal.codec import encode
from roost_formats.journal.journal import FILE_NAME, Journal
from roost_formats.journal.pruning import JournalLimits
from roost_formats.journal.reader import JournalReader
from roost_formats.journal.records import Record, RunHead
from roostd.app.decision.recorder import Recorder

HEAD = RunHead(
    version="0",
    policy="heuristic",
    epoch_of_zero_s=time.time(),  # a run of long ago would be deleted
    began_s=0.0,
    config=encode(EngineConfig()),
)


@contextlib.asynccontextmanager
async def recording(journal: Journal, **limits: float) -> AsyncIterator[Recorder]:
    recorder = Recorder(journal, retry_s=limits.get("retry_s", 0.05))
    task = asyncio.create_task(recorder.run())
    yield recorder
    recorder.close()
    await asyncio.wait_for(task, 60)


def times(folder: Path) -> list[list[float]]:
    reader = JournalReader(folder / FILE_NAME)
    runs = [[step.event.at_s for step in reader.steps(run)] for run in reader.runs()]
    reader.close()
    return runs


async def until(done: object, recorder: Recorder) -> None:
    async with asyncio.timeout(60):
        while not done():  # type: ignore[operator]  # noqa: ASYNC110  a thread makes it true
            await asyncio.sleep(0.01)


async def test_a_step_is_on_disk_when_wait_durable_returns(tmp_path: Path) -> None:
    async with recording(Journal.open(tmp_path)) as recorder:
        recorder.begin_run(HEAD)
        for number in range(50):
            ticket = recorder.append(Tick(at_s=float(number)), ())
        await recorder.wait_durable(ticket)

        assert times(tmp_path) == [[float(number) for number in range(50)]]


async def test_what_is_pending_at_the_end_is_written(tmp_path: Path) -> None:
    async with recording(Journal.open(tmp_path)) as recorder:
        recorder.begin_run(HEAD)
        recorder.append(Tick(at_s=1.0), ())

    assert times(tmp_path) == [[1.0]]


async def test_a_disk_that_fails_and_recovers_ends_in_a_new_run_without_a_gap(
    tmp_path: Path,
) -> None:
    journal = Journal.open(tmp_path)
    async with recording(journal) as recorder:
        recorder.begin_run(HEAD)
        await recorder.wait_durable(recorder.append(Tick(at_s=1.0), ()))
        pages = journal._db.execute("PRAGMA page_count").fetchone()[0]
        journal._db.execute(f"PRAGMA max_page_count = {pages}")
        for number in range(20_000):
            ticket = recorder.append(Tick(at_s=2.0 + number), ())
        await recorder.wait_durable(ticket)
        assert "full" in recorder.fault
        assert not recorder.wants_new_run
        recorder.append(Tick(at_s=3.0), ())

        journal._db.execute("PRAGMA max_page_count = 1000000")
        await until(lambda: recorder.wants_new_run, recorder)
        recorder.append(Tick(at_s=4.0), ())  # still of the torn run
        recorder.begin_run(HEAD)
        await recorder.wait_durable(recorder.append(Tick(at_s=5.0), ()))

        assert recorder.fault == ""
        assert recorder.dropped_count >= 20_000
    first, *_, last = times(tmp_path)
    assert first[0] == 1.0
    assert last == [5.0]


async def test_a_journal_over_its_limit_loses_its_oldest_run_once_another_begins(
    tmp_path: Path,
) -> None:
    journal = Journal.open(tmp_path, JournalLimits(max_bytes=1))
    async with recording(journal) as recorder:
        for number in range(3):
            recorder.begin_run(HEAD)
            await recorder.wait_durable(recorder.append(Tick(at_s=float(number)), ()))
    assert times(tmp_path) == [[2.0]]


class SlowJournal(Journal):
    """A journal whose disk takes a while."""

    may_write = threading.Event()

    def write(self, records: Sequence[Record]) -> None:
        assert self.may_write.wait(60)
        super().write(records)


async def test_a_ticket_after_a_torn_backlog_waits_until_its_own_record_is_written(
    tmp_path: Path,
) -> None:
    SlowJournal.may_write.clear()
    async with recording(SlowJournal.open(tmp_path)) as recorder:
        recorder.begin_run(HEAD)
        for number in range(50):
            recorder.append(Tick(at_s=float(number)), ())
        await until(lambda: not recorder._pending, recorder)  # the thread writes them
        while not recorder.fault:
            recorder.append(Tick(at_s=99.0), ())
        SlowJournal.may_write.set()
        await until(lambda: recorder.wants_new_run, recorder)

        SlowJournal.may_write.clear()
        recorder.begin_run(HEAD)
        durable = asyncio.create_task(recorder.wait_durable(recorder.append(Tick(at_s=100.0), ())))
        await asyncio.sleep(0.1)
        assert not durable.done()
        SlowJournal.may_write.set()
        await durable
        assert times(tmp_path)[-1] == [100.0]


async def test_a_run_far_beyond_its_limit_must_end_at_once(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path)
    recorder = Recorder(journal, 1_000)
    task = asyncio.create_task(recorder.run())
    recorder.begin_run(HEAD)
    while journal.run_bytes <= 1_000:
        await recorder.wait_durable(recorder.append(Tick(at_s=1.0), ()))
    assert (recorder.wants_new_run, recorder.must_begin_new_run) == (True, False)
    while journal.run_bytes <= 2_000:
        await recorder.wait_durable(recorder.append(Tick(at_s=1.0), ()))
    assert recorder.must_begin_new_run
    recorder.close()
    await asyncio.wait_for(task, 60)
