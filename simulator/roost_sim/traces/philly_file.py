"""Philly traces: reads Microsoft's public trace as published, the JSON of cluster_job_log.

An array of jobs, each with submitted_time, status, user and attempts; an attempt has start_time,
end_time and detail, one entry a machine with the list of its GPUs (msr-fiddle/philly-traces,
README). A job holds GPUs while an attempt runs, so its duration is the sum over its attempts; one
without times is a logging error and counts for nothing.
"""

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path

from roost_sim.errors import TraceError
from roost_sim.traces.moments import epoch_of
from roost_sim.traces.rows import (
    LoadedTrace,
    Row,
    TraceCollector,
    Unusable,
    short_name,
    status_of,
)
from roost_sim.traces.text_file import open_trace
from roost_sim.traces.trace import UNKNOWN

_NO_TIME = (None, "", "None")


def read_philly(path: Path, *, strict: bool = False) -> LoadedTrace:
    """Read cluster_job_log, plain or gzip.

    Args:
        path: the file.
        strict: raise at the first bad job.

    Raises:
        TraceError: it is not that JSON, no job is usable, or strict and a job is bad.
    """
    with open_trace(path) as text:
        content = text.read()
    collector = TraceCollector(str(path), strict)
    for line, item in _items(content, str(path)):
        try:
            _add(line, item, collector)
        except Unusable as problem:
            collector.reject(line, problem)
    return collector.finish(epoch_of_zero_s=0.0)


def _items(content: str, source: str) -> Iterator[tuple[int, object]]:
    """The elements of the top array, each with the line it begins in."""
    decoder = json.JSONDecoder()
    position, counted, line = _skip_space(content, 0), 0, 1
    if content[position : position + 1] != "[":
        raise TraceError(source, 1, "want a JSON array of jobs, as in Philly's cluster_job_log")
    position = _skip_space(content, position + 1)
    while content[position : position + 1] != "]":
        line += content.count("\n", counted, position)
        counted = position
        try:
            item, position = decoder.raw_decode(content, position)
        except json.JSONDecodeError as error:
            raise TraceError(source, error.lineno, f"not JSON: {error.msg}") from error
        except RecursionError as error:
            raise TraceError(source, line, "no jobs: nested too deeply") from error
        yield line, item
        position = _skip_space(content, position)
        if content[position : position + 1] == ",":
            position = _skip_space(content, position + 1)
        elif content[position : position + 1] != "]":
            wrong = line + content.count("\n", counted, position)
            raise TraceError(source, wrong, "not JSON: want , or ] after a job")


def _skip_space(content: str, position: int) -> int:
    while content[position : position + 1] in (" ", "\t", "\r", "\n"):
        position += 1
    return position


def _add(line: int, item: object, collector: TraceCollector) -> None:
    if not isinstance(item, Mapping):
        raise Unusable("is no job object")
    attempts = _list(item, "attempts")
    held_s = [held for held in map(_held_s, attempts) if held is not None]
    if attempts and _held_s(attempts[-1]) is None:
        collector.skip("has not ended")  # still running when the snapshot was taken (README)
        return
    if not held_s:
        collector.skip("was never started")
        return
    submit_s = epoch_of(str(item.get("submitted_time")))
    machines = [_list(attempt, "detail") for attempt in attempts]
    widest = max(machines, key=_gpu_count)
    collector.add(
        line,
        Row(
            submit_s=submit_s,
            duration_s=sum(held_s),
            gpu_count=_gpu_count(widest),
            node_count=len(widest) or UNKNOWN,
            user=short_name(str(item.get("user") or "")),
            account=short_name(str(item.get("vc") or "")),
            wait_s=_wait_s(submit_s, attempts),
            status=status_of(str(item.get("status") or "")),
        ),
    )


def _list(item: object, key: str) -> list[object]:
    value = item.get(key) if isinstance(item, Mapping) else None
    if not isinstance(value, list):
        raise Unusable(f"{key} is no list")
    return value


def _held_s(attempt: object) -> float | None:
    if not isinstance(attempt, Mapping):
        raise Unusable("an attempt is no object")
    start, end = attempt.get("start_time"), attempt.get("end_time")
    if start in _NO_TIME or end in _NO_TIME:
        return None
    return epoch_of(str(end)) - epoch_of(str(start))


def _wait_s(submit_s: float, attempts: list[object]) -> float:
    """Return the time to the first attempt whose start is known."""
    for attempt in attempts:
        start = attempt.get("start_time") if isinstance(attempt, Mapping) else None
        if start not in _NO_TIME:
            wait_s = epoch_of(str(start)) - submit_s
            return wait_s if wait_s >= 0 else math.nan
    return math.nan


def _gpu_count(machines: list[object]) -> int:
    return sum(len(_list(machine, "gpus")) for machine in machines)
