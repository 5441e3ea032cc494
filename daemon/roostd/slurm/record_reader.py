"""Slurm's records as this daemon may read them: the lease of another daemon is none."""

import asyncio
import time
from collections.abc import Collection
from dataclasses import replace
from typing import TypeVar

from roost_slurm.text.scontrol import JobDetail, parse_jobs
from roost_slurm.text.squeue import QueuedJob, QueueDump, QueueReader
from roost_slurm.text.stamp import seen_by

_Record = TypeVar("_Record", QueuedJob, JobDetail)
_LONG_DUMP = 100_000  # letters, of about 300 jobs


class RecordReader:
    """Reads what squeue and scontrol have printed.

    Args:
        owner: of this daemon's heartbeat: jobs that another daemon has leased are not its own.

    Attributes:
        dump_cost_s: the CPU time that reading the last dump took.
    """

    def __init__(self, owner: str = "") -> None:
        self._owner, self._reader = owner, QueueReader()
        self.dump_cost_s = 0.0

    async def dump(self, text: str) -> QueueDump:
        """Read a dump of the queue; a long one is read in a thread and stalls no other task."""
        read = self._read_dump
        return await asyncio.to_thread(read, text) if len(text) > _LONG_DUMP else read(text)

    def _read_dump(self, text: str) -> QueueDump:
        began_s = time.thread_time()
        dump = self._reader.read(text)
        dump = replace(dump, jobs=tuple(map(self._as_seen, dump.jobs)))
        self.dump_cost_s = time.thread_time() - began_s
        return dump

    def details(self, text: str, wanted: Collection[int] | None = None) -> dict[int, JobDetail]:
        """Read the details of jobs, by record number; None: of every job that is shown."""
        found = parse_jobs(text, wanted)
        return {number: self._as_seen(detail) for number, detail in found.items()}

    def _as_seen(self, record: _Record) -> _Record:
        comment = seen_by(self._owner, record.admin_comment)
        return record if comment is record.admin_comment else replace(record, admin_comment=comment)
