"""CSV traces: reads and writes Roost's columns, and reads those of public traces."""

import csv
import gzip
import math
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import TextIO

import numpy as np
from numpy.typing import NDArray

from roost_sim.errors import TraceError
from roost_sim.traces.csv_columns import Columns, find_columns
from roost_sim.traces.moments import moment_s
from roost_sim.traces.rows import (
    MAX_DURATION_S,
    MAX_GPU_COUNT,
    STATUS_OF,
    Chunk,
    LoadedTrace,
    Row,
    Skipped,
    TraceCollector,
    Unusable,
    short_name,
    status_of,
)
from roost_sim.traces.text_file import open_trace
from roost_sim.traces.time_limits import limit_in_s, slurm_limit_s
from roost_sim.traces.trace import LABELS, UNKNOWN, Labels, Status, Trace

CHUNK_ROWS = 50_000
FIRST_WALL_CLOCK_S = 1e9  # earlier submissions count from the beginning of their trace
_TRUE, _FALSE = ("1", "true", "yes"), ("", "0", "false", "no")
_SEPARATORS = ",;\t|"


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
        epoch_s: float | None = None
        while rows := list(islice(reader, CHUNK_ROWS)):
            if epoch_s is None:
                epoch_s = _epoch_of_zero_s(rows[0], columns)
            is_a_line_each = reader.line_num - line == len(rows)
            if not (is_a_line_each and _add_clean(rows, columns, collector)):
                _add_each(rows, line + 1, columns, collector)
            line = reader.line_num
    except csv.Error as error:
        reason = str(error)
        if "field limit" in reason:
            most = f"{csv.field_size_limit():,} characters"
            reason = f"a column of more than {most}; is a quote before this line not closed?"
        raise TraceError(source, reader.line_num, reason) from error
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


def _epoch_of_zero_s(row: Sequence[str], columns: Columns) -> float | None:
    """Return the wall clock at a submission of 0, by the first row of a chunk; None: unknown."""
    clock = columns.submit_time
    if clock is None and columns.submit is None:
        clock = columns.start  # which then stands for the submission
    if clock is None:
        return None
    try:
        at_s = moment_s(row[clock])
        zero_s = 0.0 if columns.submit is None else at_s - float(row[columns.submit])
    except (Unusable, ValueError, IndexError):
        return None
    is_wall_clock = at_s >= FIRST_WALL_CLOCK_S or not _is_number(row[clock])
    return zero_s if is_wall_clock and math.isfinite(at_s + zero_s) else None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _add_clean(rows: list[list[str]], columns: Columns, collector: TraceCollector) -> bool:
    """Add a chunk at once; False, and nothing is added, if a row has to be checked by itself."""
    if any(len(row) != columns.width for row in rows):
        return False
    table = list(zip(*rows, strict=True))
    try:
        chunk = Chunk(
            submit_s=_submissions(table, columns),
            duration_s=_durations(table, columns),
            gpu_count=_gpu_counts(table, columns),
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
    if columns.submit_time is None:
        raise Unusable("a start stands for the submission")
    return np.array(list(map(moment_s, table[columns.submit_time])))


def _durations(table: list[tuple[str, ...]], columns: Columns) -> NDArray[np.float64]:
    if columns.duration is None:
        raise Unusable("a job may not have started or ended")
    return np.array(list(map(float, table[columns.duration])))


def _gpu_counts(table: list[tuple[str, ...]], columns: Columns) -> NDArray[np.int64]:
    if columns.gpus is None or not columns.has_whole_gpus:
        raise Unusable("a job may have a part of a GPU")
    return np.array(list(map(int, table[columns.gpus])))


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
                _refuse_swallowed_rows(row, columns.width)
                collector.add(line, _row(line, row, columns, collector))
            except Skipped as reason:
                collector.skip(str(reason))
            except Unusable as problem:
                collector.reject(line, problem)
        line += 1 + sum(cell.count("\n") for cell in row)


def _refuse_swallowed_rows(row: Sequence[str], width: int) -> None:
    """Refuse a row with a quoted cell that holds whole rows, up to the next quote of the file.

    A name may have line breaks, but hardly a line with as many separators as a row.
    """
    for cell in row:
        if any(
            line.count(separator) >= width - 1 > 0
            for line in cell.split("\n")[1:]
            for separator in _SEPARATORS
        ):
            raise Unusable("a quote opens here and holds later rows", cell.strip()[:40])


def _row(line: int, cells: list[str], columns: Columns, collector: TraceCollector) -> Row:
    if len(cells) != columns.width:
        raise Unusable("wrong number of fields", f"{len(cells)} of {columns.width}")

    def cell(index: int | None) -> str:
        return "" if index is None else cells[index].strip()

    def label(indices: Sequence[int]) -> str:
        return next((name for name in map(short_name, map(cell, indices)) if name), "")

    gpus = _gpus(cell, columns)
    gpu_count = math.ceil(gpus)
    duration_s = _duration_s(cell, columns, gpu_count)
    if gpu_count != gpus:
        collector.ignore(line, Unusable("a part of a GPU, which becomes a whole one", f"{gpus:g}"))
    nodes = cell(columns.nodes)
    return Row(
        submit_s=_submission_s(line, cell, columns, collector),
        duration_s=duration_s,
        gpu_count=gpu_count,
        node_count=_count(nodes, "nodes") if nodes else UNKNOWN,
        user=short_name(cell(columns.user)),
        model=short_name(cell(columns.model)),
        status=_status(line, cell(columns.status), collector),
        **{name: label(indices) for name, indices in columns.labels.items()},
        time_limit_s=(
            collector.usable_s(line, cell(columns.slurm_limit), slurm_limit_s)
            if columns.time_limit is None
            else collector.usable_s(line, cell(columns.time_limit), limit_in_s)
        ),
        wait_s=collector.usable_s(line, cell(columns.wait), wait_in_s),
        is_array=is_true(cell(columns.is_array)),
    )


def _gpus(cell: Callable[[int | None], str], columns: Columns) -> float:
    """Return how many GPUs all instances of a job have together; parts of GPUs are summed."""
    if columns.gpus is None:
        gpus, parts = _number(cell(columns.gpu_percent) or "0", "GPU count"), 100
    else:
        gpus, parts = _number(cell(columns.gpus), "GPU count"), 1
    if columns.gpu_milli is not None:
        gpus, parts = gpus * _number(cell(columns.gpu_milli), "a share of a GPU"), parts * 1_000
    if columns.instances is not None:
        gpus *= _number(cell(columns.instances), "instances")
    gpus /= parts  # last: 7 / 100 * 100 is 7.000000000000001, which would become 8 GPUs
    if not 0 <= gpus <= MAX_GPU_COUNT:  # nor is "not a number" in between
        raise Unusable(f"GPUs are not 0 to {MAX_GPU_COUNT}", f"{gpus:g}")
    return gpus


def _duration_s(cell: Callable[[int | None], str], columns: Columns, gpu_count: int) -> float:
    """Return how long a job ran; from its start and end where no column has it.

    Raises:
        Skipped: the job has no GPU, was never started or has not ended.
        Unusable: the times are no times.
    """
    text, start, end = cell(columns.duration), cell(columns.start), cell(columns.end)
    if text or columns.start is None or columns.end is None:
        return _number(text, "duration")
    if gpu_count == 0:
        raise Skipped("asks for no GPU")
    if not start:
        raise Skipped("was never started")
    if not end:
        raise Skipped("has not ended")
    return moment_s(end) - moment_s(start)


def _submission_s(
    line: int, cell: Callable[[int | None], str], columns: Columns, collector: TraceCollector
) -> float:
    if columns.submit is not None:
        return _number(cell(columns.submit), "submission")
    if columns.submit_time is not None:
        return moment_s(cell(columns.submit_time))
    collector.report.ignored["no submission; the start stands for it"] += 1
    return moment_s(cell(columns.start))


def _status(line: int, text: str, collector: TraceCollector) -> Status:
    try:
        return status_of(text)
    except Unusable as problem:
        collector.ignore(line, problem)
        return Status.UNKNOWN


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
