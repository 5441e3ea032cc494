"""Records are read as this daemon may: another daemon's lease is none."""

import threading

import pytest
from tests.daemon.slurm.test_queue import queued

from roost_slurm.text.squeue import QueueDump, QueueReader
from roostd.slurm import record_reader
from roostd.slurm.record_reader import RecordReader

MINE, OTHERS = "roost:lease owner=1f", "roost:lease owner=2e"


async def test_the_lease_of_another_daemon_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(reader: QueueReader, text: str) -> QueueDump:
        jobs = tuple(
            queued(number, admin_comment=text) for number, text in enumerate((MINE, OTHERS))
        )
        return QueueDump(jobs=jobs, malformed_count=0)

    monkeypatch.setattr(QueueReader, "read", read)
    dump = await RecordReader("1f").dump("")
    assert [job.admin_comment for job in dump.jobs] == [MINE, "roost:other owner=2e"]


async def test_a_long_dump_is_read_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[threading.Thread] = []

    def read(reader: QueueReader, text: str) -> QueueDump:
        threads.append(threading.current_thread())
        return QueueDump(jobs=(), malformed_count=len(text))

    monkeypatch.setattr(QueueReader, "read", read)
    monkeypatch.setattr(record_reader, "_LONG_DUMP", 3)
    reader = RecordReader()
    assert (await reader.dump("abc")).malformed_count == 3
    assert (await reader.dump("abcd")).malformed_count == 4
    assert [thread is threading.main_thread() for thread in threads] == [True, False]
    assert reader.dump_cost_s >= 0.0
