"""The journal's table of past jobs: one line each, for explanations and reports.

A job that ends leaves the engine's memory soon. What was asked, chosen and done stays here for a
month, on disk: `roostctl explain` reads one of them, `roostctl report` all of a time.
"""

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass

from roost_engine.domain.model import JobId, NodeShare
from roost_formats.journal.codec import decode, encode

KEPT_COUNT = 200_000  # about 150 MB
KEPT_S = 31 * 86_400.0
_PIECE_ROWS = 5_000

SCHEMA = """
CREATE TABLE IF NOT EXISTS past_job (
    number INTEGER PRIMARY KEY,
    job_id TEXT NOT NULL,
    ended_epoch_s REAL NOT NULL,
    record BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS past_job_id ON past_job (job_id);
CREATE INDEX IF NOT EXISTS past_job_end ON past_job (ended_epoch_s);
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastJob:
    """A job that has ended, or left the queue. Times are seconds since 1970.

    Attributes:
        gpu_count: that it asked for, all nodes together.
        is_binding: whether Slurm had to start it where Roost chose; None: it never was under Roost.
        reason: why Roost did not place it; "" where it did.
        queued_s: when its last wait began: from then it could have been placed.
        decided_s: when Roost first chose GPUs for it in that wait; None: it never did.
        started_s: of its last run; None: it never ran.
        planned, allocated: the GPUs that Roost chose last, and those that Slurm gave.
        link_score, planned_link_score, best_link_score: of the GPUs that it got, of those chosen,
            and the best of as many on idle nodes; None: not known.
        stock_link_score: of the GPUs that plain Slurm would have taken on the chosen nodes.
        tier, planned_tier: 0 one node, 1 one rack, 2 across racks; None: not known.
        limit: the last one of Slurm's limits that kept it waiting; "": none did.
        limited_s: seconds for which limits kept it waiting.
        speeds_frac: its expected speed on each tier, as fractions of that on one node; None: no
            policy asked.
    """

    job_id: JobId
    user_id: int
    partition: str
    name: str = ""
    account: str = ""
    qos: str = ""
    gpu_count: int
    is_binding: bool | None = None
    reason: str = ""
    queued_s: float
    decided_s: float | None = None
    started_s: float | None = None
    ended_s: float
    planned: tuple[NodeShare, ...] = ()
    allocated: tuple[NodeShare, ...] = ()
    link_score: int | None = None
    planned_link_score: int | None = None
    best_link_score: int | None = None
    stock_link_score: int | None = None
    tier: int | None = None
    planned_tier: int | None = None
    limit: str = ""
    limited_s: float = 0.0
    speeds_frac: tuple[float, float, float] | None = None

    @property
    def is_as_planned(self) -> bool:
        """Whether Slurm gave it just the GPUs that Roost had chosen."""
        return _gpus(self.planned) == _gpus(self.allocated)

    @property
    def run_gpu_s(self) -> float:
        """GPU-seconds of its last run."""
        return 0.0 if self.started_s is None else (self.ended_s - self.started_s) * self.gpu_count


def _gpus(shares: tuple[NodeShare, ...]) -> frozenset[tuple[str, int]]:
    return frozenset((share.node, gpu) for share in shares for gpu in share.gpu_indices)


def write_past_job(db: sqlite3.Connection, job: PastJob) -> None:
    """Add a job.

    Raises:
        sqlite3.Error: the disk does not take it.
    """
    db.execute(
        "INSERT INTO past_job (job_id, ended_epoch_s, record) VALUES (?, ?, ?)",
        (job.job_id, job.ended_s, encode(job)),
    )


def read_past_job(db: sqlite3.Connection, job_id: JobId) -> PastJob | None:
    """Return the last job that had an id; None: there is none.

    Raises:
        sqlite3.Error: the file cannot be read.
        JournalError: the record is damaged.
    """
    row = db.execute(
        "SELECT record FROM past_job WHERE job_id = ? ORDER BY number DESC LIMIT 1", (job_id,)
    ).fetchone()
    return None if row is None else decode(row[0], PastJob)


def past_records(
    db: sqlite3.Connection, since_epoch_s: float, until_epoch_s: float
) -> Iterator[bytes]:
    """Yield the records of the jobs that ended in a time, in short reads, oldest first.

    Raises:
        sqlite3.Error: the file cannot be read.
    """
    at_s, number = since_epoch_s, -1
    while rows := db.execute(
        "SELECT ended_epoch_s, number, record FROM past_job WHERE ended_epoch_s < ?"
        " AND (ended_epoch_s, number) > (?, ?) ORDER BY ended_epoch_s, number LIMIT ?",
        (until_epoch_s, at_s, number, _PIECE_ROWS),
    ).fetchall():
        yield from (record for _, _, record in rows)
        at_s, number, _ = rows[-1]


def forget_past_jobs(db: sqlite3.Connection, now_epoch_s: float) -> None:
    """Delete the jobs that ended too long ago, and the oldest where there are too many.

    Raises:
        sqlite3.Error: the disk does not take it.
    """
    db.execute(
        "DELETE FROM past_job WHERE ended_epoch_s < ? OR number <= ifnull("
        "(SELECT number FROM past_job ORDER BY number DESC LIMIT 1 OFFSET ?), -1)",
        (now_epoch_s - KEPT_S, KEPT_COUNT),
    )
