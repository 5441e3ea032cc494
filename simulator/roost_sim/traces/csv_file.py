"""CSV traces: reads and writes Roost's columns, and reads those of public traces.

The public names: Helios' cluster_log.csv has gpu_num, node_num, state, submit_time and duration
(S-Lab HeliosData README); the tables that others cut from Philly have num_gpus and submit_time.
"""

import csv
import gzip
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain, islice
from pathlib import Path
from typing import TextIO

import numpy as np
from numpy.typing import NDArray

from roost_sim.errors import TraceError
from roost_sim.traces.rows import (
    MAX_DURATION_S,
    STATUS_OF,
    Chunk,
    LoadedTrace,
    Row,
    TraceCollector,
    Unusable,
    short_name,
    status_of,
)
from roost_sim.traces.text_file import open_trace
from roost_sim.traces.time_limits import limit_in_s, slurm_limit_s
from roost_sim.traces.trace import LABELS, UNKNOWN, Labels, Status, Trace

CHUNK_ROWS = 50_000
NAMES = {
    "submit": ("submit_s",),
    "submit_time": ("submit_time", "submit_time_local"),
    "duration": ("duration_s", "duration"),
    "gpus": ("num_gpus", "gpu_num", "gpu_count"),
    "nodes": ("num_nodes", "node_num", "node_count"),
    "user": ("user",),
    "model": ("model",),
    "status": ("status", "state"),
    "job_name": ("job_name", "jobname"),
    "account": ("account",),
    "vc": ("vc",),
    "partition": ("partition",),
    "qos": ("qos",),
    "time_limit": ("time_limit_s", "req_walltime_s"),
    "slurm_limit": ("time_limit", "timelimit"),
    "wait": ("wait_s",),
    "is_array": ("is_array",),
}
_LABEL_KEYS = {label: (label,) for label in LABELS} | {"account": ("account", "vc")}
_TRUE, _FALSE = ("1", "true", "yes"), ("", "0", "false", "no")
_SEPARATORS = ",;\t|"


@dataclass(frozen=True, slots=True)
class Columns:
    """The position of each quantity in a row; None: the file does not have it.

    Attributes:
        labels: the columns of each label of a trace, the preferred one first: a virtual cluster
            (`vc`) stands for the account where there is none.
        time_limit: in seconds.
        slurm_limit: in one of Slurm's forms, if there is none in seconds.
    """

    width: int
    submit: int | None
    submit_time: int | None
    duration: int
    gpus: int
    nodes: int | None
    user: int | None
    model: int | None
    status: int | None
    labels: Mapping[str, tuple[int, ...]]
    time_limit: int | None
    slurm_limit: int | None
    wait: int | None
    is_array: int | None


def read_csv(path: Path, *, strict: bool = False) -> LoadedTrace:
    """Read a CSV with a header, plain or gzip.

    Args:
        path: columns submit_s (or submit_time), duration_s, num_gpus, and where they are known
            num_nodes, user, model, status, job_name, account, partition, qos, time_limit_s; see
            docs/simulator/traces.md for the others and for other names.
        strict: raise at the first bad row.

    Raises:
        TraceError: a column is missing, no job is usable, or strict and a row is bad.
    """
    with open_trace(path) as text:
        return _read(text, str(path), strict)


def _read(text: TextIO, source: str, strict: bool) -> LoadedTrace:
    collector = TraceCollector(source, strict)
    header = text.readline()
    separator = max(_SEPARATORS, key=header.count)
    reader = csv.reader(chain([header], text), delimiter=separator)
    line = 1
    try:
        columns = find_columns(next(reader, []), source)
        epoch_s: float | None = 0.0 if columns.submit is None else None
        while rows := list(islice(reader, CHUNK_ROWS)):
            if epoch_s is None and columns.submit_time is not None:
                epoch_s = _epoch_of_zero_s(rows[0], columns)
            if not _add_clean(rows, columns, collector):
                _add_each(rows, line + 1, columns, collector)
            line = reader.line_num
    except csv.Error as error:
        raise TraceError(source, reader.line_num, str(error)) from error
    return collector.finish(epoch_s)


def write_csv(trace: Trace, path: Path) -> None:
    """Write a trace in Roost's own columns, gzip where the name ends in .gz.

    Columns that the trace does not know are left out. Times keep a thousandth of a second.

    Raises:
        TraceError: the file cannot be written.
    """
    cells: dict[str, Iterable[object]] = {
        "submit_s": (f"{value:.3f}".rstrip("0").rstrip(".") for value in trace.submit_s),
        "duration_s": (f"{value:.3f}".rstrip("0").rstrip(".") for value in trace.duration_s),
        "num_gpus": trace.gpu_count.tolist(),
    }
    if trace.user_names:
        cells["user"] = (trace.user_name(position) for position in range(len(trace)))
    if trace.model_names:
        cells["model"] = (trace.model_name(position) for position in range(len(trace)))
    if bool(np.any(trace.status != Status.UNKNOWN)):
        cells["status"] = (
            "" if value == Status.UNKNOWN else Status(value).name for value in trace.status
        )
    if bool(np.any(trace.node_count != UNKNOWN)):
        cells["num_nodes"] = ("" if n == UNKNOWN else n for n in trace.node_count.tolist())
    for name in LABELS:
        labels: Labels = getattr(trace, name)
        if labels.names:
            cells[name] = map(labels.of, range(len(trace)))
    for name in ("time_limit_s", "wait_s"):
        seconds = getattr(trace, name)
        if not bool(np.all(np.isnan(seconds))):
            cells[name] = map(_seconds_text, seconds.tolist())
    if bool(np.any(trace.is_array)):
        cells["is_array"] = trace.is_array.astype(int).tolist()
    try:
        is_gzip = path.suffix == ".gz"
        with gzip.open(path, "wt", newline="") if is_gzip else path.open("w", newline="") as text:
            writer = csv.writer(text, lineterminator="\n")
            writer.writerow(cells)
            writer.writerows(zip(*cells.values(), strict=True))
    except OSError as error:
        raise TraceError(str(path), None, error.strerror or str(error)) from error


def _seconds_text(seconds: float) -> str:
    if not math.isfinite(seconds):
        return "" if math.isnan(seconds) else "unlimited"
    return f"{seconds:.3f}".rstrip("0").rstrip(".")


def find_columns(header: Sequence[str], source: str) -> Columns:
    """Find the columns of a header line.

    Raises:
        TraceError: names the missing column and what it may be called, or the column that stands
            there twice.
    """
    names = [name.strip().lower() for name in header]
    used = {name for options in NAMES.values() for name in options}
    for name in names:
        if name in used and names.count(name) > 1:
            raise TraceError(source, 1, f"the header has {names.count(name)} columns {name}")
    position = {name: index for index, name in enumerate(names)}
    found = {
        key: next((position[name] for name in options if name in position), None)
        for key, options in NAMES.items()
    }
    if found["submit"] is None and found["submit_time"] is None:
        raise _missing("submit_s or submit_time", header, source)
    duration, gpus = found["duration"], found["gpus"]
    if duration is None:
        raise _missing("duration_s or duration", header, source)
    if gpus is None:
        raise _missing("num_gpus, gpu_num or gpu_count", header, source)
    return Columns(
        width=len(header),
        submit=found["submit"],
        submit_time=found["submit_time"],
        duration=duration,
        gpus=gpus,
        nodes=found["nodes"],
        user=found["user"],
        model=found["model"],
        status=found["status"],
        labels={
            label: tuple(index for key in keys if (index := found[key]) is not None)
            for label, keys in _LABEL_KEYS.items()
        },
        time_limit=found["time_limit"],
        slurm_limit=found["slurm_limit"],
        wait=found["wait"],
        is_array=found["is_array"],
    )


def _missing(wanted: str, header: Sequence[str], source: str) -> TraceError:
    names = ", ".join(name.strip() for name in header)[:200]
    there = f"the header: {names}" if names else "the header, which is empty"
    return TraceError(source, 1, f"no column {wanted} in {there}")


def epoch_of(text: str) -> float:
    """Parse a date and time to seconds since 1970, as UTC unless it names a zone.

    Raises:
        Unusable: the text is not a date and time.
    """
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise Unusable("not a date and time such as 2020-04-01 00:00:00", text) from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _epoch_of_zero_s(row: Sequence[str], columns: Columns) -> float | None:
    assert columns.submit is not None
    assert columns.submit_time is not None
    try:
        return epoch_of(row[columns.submit_time]) - float(row[columns.submit])
    except (Unusable, ValueError, IndexError):
        return None


def _add_clean(rows: list[list[str]], columns: Columns, collector: TraceCollector) -> bool:
    """Add a chunk at once; False, and nothing is added, if a row has to be checked by itself."""
    if any(len(row) != columns.width for row in rows):
        return False
    table = list(zip(*rows, strict=True))
    try:
        chunk = Chunk(
            submit_s=_submissions(table, columns),
            duration_s=np.array(list(map(float, table[columns.duration]))),
            gpu_count=np.array(list(map(int, table[columns.gpus]))),
            node_count=None if columns.nodes is None else _node_counts(table[columns.nodes]),
            users=None if columns.user is None else list(map(short_name, table[columns.user])),
            models=None if columns.model is None else list(map(short_name, table[columns.model])),
            statuses=None if columns.status is None else _statuses(table[columns.status]),
            labels=_labels(table, columns),
            time_limit_s=_limits(table, columns),
            wait_s=None if columns.wait is None else _parsed(wait_in_s, table[columns.wait]),
            is_array=None if columns.is_array is None else _flags(table[columns.is_array]),
        )
    except (ValueError, KeyError, OverflowError, Unusable):
        return False
    return collector.add_chunk(chunk)


def _submissions(table: list[tuple[str, ...]], columns: Columns) -> NDArray[np.float64]:
    if columns.submit is not None:
        return np.array(list(map(float, table[columns.submit])))
    assert columns.submit_time is not None
    return np.array(list(map(epoch_of, table[columns.submit_time])))


def _node_counts(texts: tuple[str, ...]) -> NDArray[np.int64]:
    counts = np.array([int(text) if text else UNKNOWN for text in texts])
    if bool(np.any(counts == 0)):
        raise Unusable("nodes are 0")
    return counts


def _statuses(texts: tuple[str, ...]) -> NDArray[np.uint8]:
    value_of = {text: STATUS_OF[text.lower()] for text in set(texts)}
    return np.array([value_of[text] for text in texts], dtype=np.uint8)


def _labels(table: list[tuple[str, ...]], columns: Columns) -> dict[str, list[str]]:
    found = dict[str, list[str]]()
    for name, indices in columns.labels.items():
        for index in indices:
            names = list(map(short_name, table[index]))
            if name in found:
                names = [first or second for first, second in zip(found[name], names, strict=True)]
            found[name] = names
    return found


def _limits(table: list[tuple[str, ...]], columns: Columns) -> NDArray[np.float64] | None:
    if columns.time_limit is not None:
        return _parsed(limit_in_s, table[columns.time_limit])
    if columns.slurm_limit is not None:
        return _parsed(slurm_limit_s, table[columns.slurm_limit])
    return None


def _parsed(parse: Callable[[str], float], texts: tuple[str, ...]) -> NDArray[np.float64]:
    value_of = {text: parse(text) for text in set(texts)}
    return np.array([value_of[text] for text in texts], dtype=np.float64)


def _flags(texts: tuple[str, ...]) -> NDArray[np.bool_]:
    return np.array([is_true(text) for text in texts], dtype=np.bool_)


def wait_in_s(text: str) -> float:
    """Return a wait in seconds; not a number where the text is empty.

    Raises:
        Unusable: the text is no number of seconds, or negative.
    """
    stripped = text.strip()
    wait_s = _number(stripped, "wait") if stripped else math.nan
    if wait_s < 0 or wait_s > MAX_DURATION_S:
        raise Unusable(f"wait is not 0 to {MAX_DURATION_S} s", stripped[:40])
    return wait_s


def is_true(text: str) -> bool:
    """Return whether a text says yes; an empty one says no.

    Raises:
        Unusable: the text is neither yes nor no.
    """
    word = text.strip().lower()
    if word not in (*_TRUE, *_FALSE):
        raise Unusable("neither 1 nor 0", text[:40])
    return word in _TRUE


def _add_each(
    rows: list[list[str]], line: int, columns: Columns, collector: TraceCollector
) -> None:
    for row in rows:
        if row:
            try:
                collector.add(line, _row(line, row, columns, collector))
            except Unusable as problem:
                collector.reject(line, problem)
        line += 1 + sum(cell.count("\n") for cell in row)


def _row(line: int, cells: list[str], columns: Columns, collector: TraceCollector) -> Row:
    if len(cells) != columns.width:
        raise Unusable("wrong number of fields", f"{len(cells)} of {columns.width}")

    def cell(index: int | None) -> str:
        return "" if index is None else cells[index].strip()

    def label(indices: Sequence[int]) -> str:
        return next((name for name in map(short_name, map(cell, indices)) if name), "")

    nodes = cell(columns.nodes)
    return Row(
        submit_s=(
            epoch_of(cell(columns.submit_time))
            if columns.submit is None
            else _number(cell(columns.submit), "submission")
        ),
        duration_s=_number(cell(columns.duration), "duration"),
        gpu_count=_count(cell(columns.gpus), "GPUs"),
        node_count=_count(nodes, "nodes") if nodes else UNKNOWN,
        user=short_name(cell(columns.user)),
        model=short_name(cell(columns.model)),
        status=Status.UNKNOWN if columns.status is None else status_of(cell(columns.status)),
        **{name: label(indices) for name, indices in columns.labels.items()},
        time_limit_s=(
            collector.usable_s(line, cell(columns.slurm_limit), slurm_limit_s)
            if columns.time_limit is None
            else collector.usable_s(line, cell(columns.time_limit), limit_in_s)
        ),
        wait_s=collector.usable_s(line, cell(columns.wait), wait_in_s),
        is_array=is_true(cell(columns.is_array)),
    )


def _number(text: str, what: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise Unusable(f"{what} is no number", text or "nothing") from None


def _count(text: str, what: str) -> int:
    number = _number(text, what)
    if not number.is_integer():  # neither is infinity, nor "not a number"
        raise Unusable(f"{what} are no whole number", text)
    return int(number)
