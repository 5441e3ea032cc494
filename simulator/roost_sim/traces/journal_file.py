"""Journal traces: reads the jobs whose wait, start and end roostd recorded in its journal.

The layout is roostd's (tables run and entry; a record is four bytes of length and that much JSON,
see docs/operations.md). Not read with the daemon's reader: of all events only three kinds matter,
and of those only a few fields.
"""

import math
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from roost_engine.domain.errors import JournalError
from roost_formats.journal.codec import FORMAT, plain_of
from roost_sim.errors import TraceError
from roost_sim.traces.rows import (
    MAX_DURATION_S,
    LoadedTrace,
    Row,
    TraceCollector,
    Unusable,
    short_name,
)
from roost_sim.traces.trace import UNKNOWN

FILE_NAME = "journal.sqlite"

_QUERY = """
SELECT entry.sequence, entry.event FROM entry JOIN run USING (run)
ORDER BY entry.sequence
"""


@dataclass(slots=True)
class _JobSoFar:
    """What the journal has recorded of one job so far; times are engine times."""

    submit_s: float
    gpu_count: int
    user: str = ""
    node_count: int = UNKNOWN
    started_s: float | None = None
    held_s: float = 0.0
    wait_s: float = math.nan  # until the first start
    job_name: str = ""
    account: str = ""
    partition: str = ""
    qos: str = ""
    time_limit_s: float = math.nan

    def describe(self, job: Mapping[str, Any]) -> None:
        """Take from a request what run times are predicted from.

        Journals of earlier versions have neither account nor QoS.
        """
        self.user = str(job["user_id"])
        self.job_name = short_name(str(job.get("name") or ""))
        self.account = short_name(str(job.get("account") or ""))
        self.partition = short_name(str(job.get("partition") or ""))
        self.qos = short_name(str(job.get("qos") or ""))
        self.time_limit_s = _limit_s(job.get("time_limit_s"))

    def stop(self, at_s: float) -> None:
        if self.started_s is not None:
            self.held_s += at_s - self.started_s
            self.started_s = None


@dataclass(slots=True)
class _History:
    """Follows the jobs of a journal; a job goes to the collector when it has ended."""

    collector: TraceCollector
    jobs: dict[str, _JobSoFar] = field(default_factory=dict)

    def apply(self, sequence: int, event: Mapping[str, Any]) -> None:
        match event["$"]:
            case "JobQueued" | "JobChanged":
                self._queued(event)
            case "JobStarted":
                self._started(event)
            case "JobEnded":
                self._ended(sequence, event)

    def _queued(self, event: Mapping[str, Any]) -> None:
        job = event["job"]
        shape = job["shapes"][0]
        seen = self.jobs.setdefault(job["job_id"], _JobSoFar(float(job["submit_s"]), 0))
        seen.stop(float(event["at_s"]))  # a requeue
        seen.gpu_count = int(shape["node_count"]) * int(shape["gpus_per_node"])
        seen.describe(job)

    def _started(self, event: Mapping[str, Any]) -> None:
        at_s, shares = float(event["at_s"]), event["shares"]
        seen = self.jobs.get(event["job_id"])
        if seen is None:
            seen = self.jobs[event["job_id"]] = _JobSoFar(at_s, 0)
            if event.get("job") is not None:  # it has run since before the daemon's start
                seen.describe(event["job"])
        elif math.isnan(seen.wait_s):
            seen.wait_s = max(at_s - seen.submit_s, 0.0)
        seen.gpu_count = sum(len(share["gpu_indices"]) for share in shares)
        seen.node_count = len(shares) or UNKNOWN
        if seen.started_s is None:  # running jobs are reported to a restarted daemon again
            seen.started_s = at_s

    def _ended(self, sequence: int, event: Mapping[str, Any]) -> None:
        seen = self.jobs.pop(event["job_id"], None)
        if seen is None:
            return
        seen.stop(float(event["at_s"]))
        row = Row(
            submit_s=seen.submit_s,
            duration_s=seen.held_s,
            gpu_count=seen.gpu_count,
            node_count=seen.node_count,
            user=seen.user,
            job_name=seen.job_name,
            account=seen.account,
            partition=seen.partition,
            qos=seen.qos,
            time_limit_s=seen.time_limit_s,
            wait_s=seen.wait_s,
            is_array="_" in event["job_id"],
        )
        self.collector.add(sequence, row)


def _limit_s(value: object) -> float:
    """Return the limit that the engine was given, which does not tell unknown from unlimited."""
    if isinstance(value, int | float) and 0 < value <= MAX_DURATION_S:
        return float(value)
    return math.nan


def is_journal(path: Path) -> bool:
    """Return whether a path is a journal, or a folder that has one."""
    try:
        with _file_of(path).open("rb") as file:
            return file.read(16) == b"SQLite format 3\x00"
    except OSError:
        return False


def read_journal(path: Path, *, strict: bool = False) -> LoadedTrace:
    """Read the jobs that ended while roostd was running. The file is opened read-only.

    Lines in messages are the sequence numbers of the journal's entries.

    Args:
        path: the journal, or the folder that has it.
        strict: raise at the first record that cannot be read.

    Raises:
        TraceError: no journal, one of a newer format, no usable job, or strict and a bad record.
    """
    file = _file_of(path)
    collector = TraceCollector(str(file), strict)
    history = _History(collector)
    epoch_s: float | None = None
    try:
        with closing(_open(file)) as connection:
            epoch_s = _epoch_of_zero_s(connection, file)
            for sequence, event in _events(connection, collector):
                try:
                    history.apply(sequence, event)
                except (KeyError, TypeError, ValueError, IndexError) as error:
                    collector.reject(sequence, Unusable("event lacks a field", str(error)))
    except sqlite3.Error as error:
        raise TraceError(str(file), None, str(error)) from error
    collector.skip("has not ended", len(history.jobs))
    return collector.finish(epoch_s)


def _file_of(path: Path) -> Path:
    return path / FILE_NAME if path.is_dir() else path


def _open(file: Path) -> sqlite3.Connection:
    if not file.is_file():
        raise TraceError(str(file), None, "no such file")
    return sqlite3.connect(f"file:{quote(str(file.absolute()))}?mode=ro", uri=True)


def _epoch_of_zero_s(connection: sqlite3.Connection, file: Path) -> float | None:
    heads: Sequence[tuple[int, float]] = connection.execute(
        "SELECT format, epoch_of_zero_s FROM run ORDER BY run"
    ).fetchall()
    newest = max((format_ for format_, _ in heads), default=FORMAT)
    if newest > FORMAT:
        raise TraceError(
            str(file), None, f"journal format {newest} is newer than {FORMAT}; update Roost"
        )
    return heads[0][1] if heads else None


def _events(
    connection: sqlite3.Connection, collector: TraceCollector
) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for sequence, record in connection.execute(_QUERY):
        try:
            event = plain_of(record)
        except JournalError as error:
            collector.reject(sequence, Unusable("record cannot be read", str(error)))
            continue
        if isinstance(event, dict) and "$" in event:
            yield sequence, event
