"""Rows of trace files: collects them into a trace, for all formats, and counts the bad ones.

Clean rows are added by the chunk, so that a million of them load in a few seconds. A chunk with a
bad row is read again row by row, so that each message names its line.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from roost_sim.errors import TraceError
from roost_sim.traces.trace import LABELS, MAX_TIME_S, UNKNOWN, Labels, Status, Trace, make_trace

EXAMPLE_COUNT = 20
MAX_GPU_COUNT = 1_000_000
MAX_NAME_LENGTH = 200
# Ten years. A longer job has a wrong unit, and a simulation in rounds of minutes would not end.
MAX_DURATION_S = 320_000_000

_COMPLETED = ("pass", "passed", "completed", "complete", "done", "success", "succeeded", "finished")
_FAILED = ("failed", "fail", "error", "node_fail", "out_of_memory", "boot_fail", "launch_failed")
_CANCELLED = ("killed", "cancelled", "canceled", "suspended", "deadline", "preempted", "revoked")
STATUS_OF = {
    **dict.fromkeys(_COMPLETED, Status.COMPLETED),
    **dict.fromkeys(_FAILED, Status.FAILED),
    **dict.fromkeys(_CANCELLED, Status.CANCELLED),
    "timeout": Status.TIMEOUT,
    # Pods that were deleted are Running; Terminated is PAI's completed, and killed elsewhere.
    **dict.fromkeys(("", "unknown", "running", "pending", "terminated"), Status.UNKNOWN),
}


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that is not a usable job."""

    source: str
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.source}:{self.line}: {self.reason}"


@dataclass(slots=True)
class ReadReport:
    """Counts of the rows of a trace file.

    Attributes:
        job_count: jobs read.
        skipped: valid rows that are not a GPU job, by reason.
        bad_count: invalid rows.
        bad_by_reason: invalid rows by kind of error, without the values.
        examples: the first bad rows.
        ignored: values that cannot be used, by reason; each belongs to a job that was read.
    """

    job_count: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    bad_count: int = 0
    bad_by_reason: Counter[str] = field(default_factory=Counter)
    examples: list[BadRow] = field(default_factory=list)
    ignored: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class LoadedTrace:
    """A trace, and the counts of the rows that were left out of it."""

    trace: Trace
    report: ReadReport


@dataclass(slots=True)
class Names:
    """Numbers names in the order of their first occurrence. "" is UNKNOWN."""

    index: dict[str, int] = field(default_factory=lambda: {"": UNKNOWN})

    def ids(self, names: Sequence[str]) -> NDArray[np.int32]:
        """Return the numbers of some names, int32 [name]; new names get the next numbers."""
        index = self.index
        numbers = (index.setdefault(name, len(index) - 1) for name in names)
        return np.fromiter(numbers, dtype=np.int32, count=len(names))

    @property
    def names(self) -> tuple[str, ...]:
        """Every name but "", by number."""
        return tuple(name for name in self.index if name)


@dataclass(frozen=True, slots=True, eq=False)
class Chunk:
    """Clean rows as columns; columns other than times and sizes may be unknown as a whole.

    Attributes:
        submit_s: [row], seconds from any origin that the whole file shares.
        duration_s: [row].
        gpu_count: [row].
        node_count: [row], or None.
        users: [row], or None.
        models: [row], or None.
        statuses: [row], values of Status, or None.
        labels: some of trace.LABELS by name, [row] each.
        time_limit_s: [row], as in a trace, or None.
        wait_s: [row], as in a trace, or None.
        is_array: [row], or None.
    """

    submit_s: NDArray[np.float64]
    duration_s: NDArray[np.float64]
    gpu_count: NDArray[np.int64]
    node_count: NDArray[np.int64] | None = None
    users: Sequence[str] | None = None
    models: Sequence[str] | None = None
    statuses: NDArray[np.uint8] | None = None
    labels: Mapping[str, Sequence[str]] = field(default_factory=dict)
    time_limit_s: NDArray[np.float64] | None = None
    wait_s: NDArray[np.float64] | None = None
    is_array: NDArray[np.bool_] | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One job of a file, before times are made relative and names numbered."""

    submit_s: float
    duration_s: float
    gpu_count: int
    node_count: int = UNKNOWN
    user: str = ""
    model: str = ""
    status: Status = Status.UNKNOWN
    job_name: str = ""
    account: str = ""
    partition: str = ""
    qos: str = ""
    time_limit_s: float = math.nan
    wait_s: float = math.nan
    is_array: bool = False


class Unusable(Exception):
    """A row is not a usable job; `kind` is the reason without the row's values."""

    def __init__(self, kind: str, value: str = "") -> None:
        super().__init__(f"{kind}, got {value!r}" if value else kind)
        self.kind = kind


class Skipped(Exception):
    """A valid row is not a GPU job that ran; its text is the reason."""


@dataclass(slots=True)
class TraceCollector:
    """Collects rows and chunks into a trace.

    Attributes:
        source: the file, for messages.
        strict: raise at the first bad row instead of counting it.
    """

    source: str
    strict: bool = False
    report: ReadReport = field(default_factory=ReadReport)
    _parts: list[dict[str, NDArray[np.generic]]] = field(default_factory=list)
    _rows: list[Row] = field(default_factory=list)
    _users: Names = field(default_factory=Names)
    _models: Names = field(default_factory=Names)
    _labels: dict[str, Names] = field(default_factory=lambda: {name: Names() for name in LABELS})

    def add(self, line: int, row: Row) -> None:
        """Add one row, or count it as bad or skipped."""
        try:
            check_range(row)
        except Unusable as problem:
            self.reject(line, problem)
            return
        if row.gpu_count == 0:
            self.skip("asks for no GPU")
        elif row.duration_s == 0:
            self.skip("ran for no time")
        else:
            self._rows.append(row)

    def add_chunk(self, chunk: Chunk) -> bool:
        """Add a chunk if every row of it is in range; else add nothing and return False."""
        submit_s, duration_s, gpus = chunk.submit_s, chunk.duration_s, chunk.gpu_count
        nodes = chunk.node_count
        is_clean = (
            bool(np.all((np.abs(submit_s) < MAX_TIME_S) & (duration_s >= 0)))
            and bool(np.all((duration_s <= MAX_DURATION_S) & (gpus >= 0) & (gpus <= MAX_GPU_COUNT)))
            and (nodes is None or bool(np.all((nodes >= UNKNOWN) & (nodes <= MAX_GPU_COUNT))))
        )
        if not is_clean:
            return False
        self._flush()
        keep = (gpus > 0) & (duration_s > 0)
        self.skip("asks for no GPU", int(np.sum(gpus == 0)))
        self.skip("ran for no time", int(np.sum((gpus > 0) & (duration_s == 0))))
        count = len(submit_s)
        unknown = np.full(count, UNKNOWN, dtype=np.int32)
        columns: dict[str, NDArray[np.generic]] = {
            "submit_s": submit_s,
            "duration_s": duration_s,
            "gpu_count": gpus.astype(np.int32),
            "node_count": unknown if nodes is None else nodes.astype(np.int32),
            "user_id": unknown if chunk.users is None else self._users.ids(chunk.users),
            "model_id": unknown if chunk.models is None else self._models.ids(chunk.models),
            "status": np.zeros(count, np.uint8) if chunk.statuses is None else chunk.statuses,
            "time_limit_s": _or_unknown(chunk.time_limit_s, count),
            "wait_s": _or_unknown(chunk.wait_s, count),
            "is_array": np.zeros(count, bool) if chunk.is_array is None else chunk.is_array,
        }
        for name in LABELS:
            texts = chunk.labels.get(name)
            columns[name] = unknown if texts is None else self._labels[name].ids(texts)
        self._parts.append({name: column[keep] for name, column in columns.items()})
        return True

    def skip(self, reason: str, count: int = 1) -> None:
        """Count valid rows that are not a GPU job."""
        if count:
            self.report.skipped[reason] += count

    def usable_s(self, line: int, text: str, parse: Callable[[str], float]) -> float:
        """Parse a time that a job can do without; count it if that fails, and take it as unknown.

        Raises:
            TraceError: strict, and the text cannot be parsed.
        """
        try:
            return parse(text)
        except Unusable as problem:
            self.ignore(line, problem)
            return math.nan

    def ignore(self, line: int, problem: Unusable) -> None:
        """Count a value that cannot be used, of a job that is read without it.

        Raises:
            TraceError: strict.
        """
        if self.strict:
            raise TraceError(self.source, line, str(problem)) from problem
        self.report.ignored[problem.kind] += 1

    def reject(self, line: int, problem: Unusable) -> None:
        """Count a bad row, or raise an error if the reading is strict.

        Raises:
            TraceError: strict.
        """
        if self.strict:
            raise TraceError(self.source, line, str(problem))
        self.report.bad_count += 1
        self.report.bad_by_reason[problem.kind] += 1
        if len(self.report.examples) < EXAMPLE_COUNT:
            self.report.examples.append(BadRow(self.source, line, str(problem)))

    def finish(self, epoch_of_zero_s: float | None = None) -> LoadedTrace:
        """Return the trace: sorted, with times from its first submission.

        Args:
            epoch_of_zero_s: the wall clock at submit_s 0 of the added rows; None: unknown.

        Raises:
            TraceError: there is no job in the file.
        """
        self._flush()
        if not any(len(part["submit_s"]) for part in self._parts):
            raise TraceError(self.source, None, self._why_empty())
        columns = {
            name: np.concatenate([part[name] for part in self._parts]) for name in self._parts[0]
        }
        first_s = float(np.min(columns["submit_s"].astype(np.float64)))
        self.report.job_count = len(columns["submit_s"])
        trace = make_trace(
            self.source,
            columns["submit_s"].astype(np.float64) - first_s,
            columns["duration_s"].astype(np.float64),
            columns["gpu_count"].astype(np.int32),
            node_count=columns["node_count"].astype(np.int32),
            user_id=columns["user_id"].astype(np.int32),
            model_id=columns["model_id"].astype(np.int32),
            status=columns["status"].astype(np.uint8),
            labels={
                name: Labels(columns[name].astype(np.int32), names.names)
                for name, names in self._labels.items()
            },
            time_limit_s=columns["time_limit_s"].astype(np.float64),
            wait_s=columns["wait_s"].astype(np.float64),
            is_array=columns["is_array"].astype(np.bool_),
            user_names=self._users.names,
            model_names=self._models.names,
            epoch_of_zero_s=None if epoch_of_zero_s is None else epoch_of_zero_s + first_s,
        )
        return LoadedTrace(trace, self.report)

    def _why_empty(self) -> str:
        if self.report.examples:
            return f"no usable job; the first bad row: {self.report.examples[0]}"
        if self.report.skipped:
            reason, count = self.report.skipped.most_common(1)[0]
            return f"no GPU job; of {count} rows: {reason}"
        return "no jobs"

    def _flush(self) -> None:
        rows, self._rows = self._rows, []
        if not rows:
            return
        self.add_chunk(
            Chunk(
                submit_s=np.array([row.submit_s for row in rows]),
                duration_s=np.array([row.duration_s for row in rows]),
                gpu_count=np.array([row.gpu_count for row in rows]),
                node_count=np.array([row.node_count for row in rows]),
                users=[row.user for row in rows],
                models=[row.model for row in rows],
                statuses=np.array([row.status for row in rows], dtype=np.uint8),
                labels={name: [getattr(row, name) for row in rows] for name in LABELS},
                time_limit_s=np.array([row.time_limit_s for row in rows]),
                wait_s=np.array([row.wait_s for row in rows]),
                is_array=np.array([row.is_array for row in rows]),
            )
        )


def _or_unknown(seconds: NDArray[np.float64] | None, count: int) -> NDArray[np.float64]:
    return np.full(count, np.nan) if seconds is None else seconds


def short_name(text: str) -> str:
    """Return a name on one line, without blanks at its ends.

    Slurm accepts job names of many kilobytes, and a trace keeps each different one: the end of a
    very long one becomes a digest.
    """
    name = text.strip().replace("\n", " ").replace("\r", " ")
    if len(name) <= MAX_NAME_LENGTH:
        return name
    digest = sha256(name.encode("utf-8", "backslashreplace")).hexdigest()[:16]
    return f"{name[: MAX_NAME_LENGTH - 17]}~{digest}"


def check_range(row: Row) -> None:
    """Refuse quantities out of range.

    Raises:
        Unusable: names the quantity.
    """
    if not (math.isfinite(row.submit_s) and abs(row.submit_s) < MAX_TIME_S):
        raise Unusable("submission is not a time in seconds", f"{row.submit_s:g}")
    if not (math.isfinite(row.duration_s) and 0 <= row.duration_s <= MAX_DURATION_S):
        raise Unusable(f"duration is not 0 to {MAX_DURATION_S} s", f"{row.duration_s:g}")
    if not 0 <= row.gpu_count <= MAX_GPU_COUNT:
        raise Unusable(f"GPUs are not 0 to {MAX_GPU_COUNT}", str(row.gpu_count))
    if not (row.node_count == UNKNOWN or 1 <= row.node_count <= MAX_GPU_COUNT):
        raise Unusable(f"nodes are not 1 to {MAX_GPU_COUNT}", str(row.node_count))


def status_of(text: str) -> Status:
    """Return the status for a scheduler's word: Pass, COMPLETED, CANCELLED by 1000.

    Raises:
        Unusable: the word is not known.
    """
    words = text.split(maxsplit=1)
    status = STATUS_OF.get(words[0].lower() if words else "")
    if status is None:
        raise Unusable("unknown status", text)
    return status
