"""The results file: finished runs of a sweep, one a line; an interrupted sweep continues from it.

The first line has what the runs have in common. A file of another trace, cluster or setting is
refused; policies, seeds and loads may be added, and only missing runs are simulated.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import IO, TypeAlias

import numpy as np
from pydantic import TypeAdapter, ValidationError

from roost_sim.errors import SimError
from roost_sim.sweeps.sweep import Case, Done, Sweep
from roost_sim.traces.trace import LABELS, Trace

_FORMAT = 2

Facts: TypeAlias = Mapping[str, object]
_DONE = TypeAdapter(Done)


class ResultsFileError(SimError):
    """A file of results cannot be used; names file, line and cure."""


def facts_of(sweep: Sweep) -> Facts:
    """Return what all runs of a file must have in common, as JSON values."""
    run = sweep.template
    return {
        "format": _FORMAT,
        "roost": version("roost"),
        "jobs": len(run.trace),
        "trace": fingerprint(run.trace),
        "cluster": run.cluster.name,
        "nodes": sha256(repr(run.cluster).encode()).hexdigest()[:16],
        "window_jobs": sweep.window_jobs,
        "sample_jobs": sweep.sample_jobs,
        "span": repr(run.span),
        "world": repr(run.world),
        "start_delay_s": run.start_delay_s,
        "engine": repr(run.engine_config),
        **run.world.predictions.facts(),
    }


def read_results(path: Path, facts: Facts) -> list[Done]:
    """Read the runs in a file; none if there is no file yet.

    An incomplete last line is left by a killed sweep; that run is simulated again.

    Raises:
        ResultsFileError: it is not a results file, or of other runs.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ResultsFileError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ResultsFileError(f"{path}: is no text; name another file") from error
    lines = text.split("\n")[:-1]
    if not lines:
        if not _line(facts).startswith(text.encode()):  # not the start of a results file
            raise ResultsFileError(f"{path}:1: is no results file; name another file")
        return []
    _check(path, _parsed(path, 1, lines[0]), facts)
    return [_done(path, number, line) for number, line in enumerate(lines[1:], start=2)]


@contextmanager
def appending(path: Path, facts: Facts) -> "Iterator[ResultsWriter]":
    """Open a file to append runs; it is created if it does not exist.

    Raises:
        ResultsFileError: it cannot be written.
    """
    try:
        with path.open("a+b") as file:
            _drop_torn_line(file)
            writer = ResultsWriter(file)
            if not file.tell():
                writer.write_line(facts)
            yield writer
    except OSError as error:
        raise ResultsFileError(f"{path}: {error.strerror}") from error


class ResultsWriter:
    """Appends runs to an open file and flushes each, so that a kill loses only the present run."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def write(self, done: Done) -> None:
        """Append one run."""
        self.write_line(asdict(done))

    def write_line(self, value: Mapping[str, object]) -> None:
        """Append one line."""
        self._file.write(_line(value))
        self._file.flush()


def _line(value: Mapping[str, object]) -> bytes:
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode() + b"\n"


def _drop_torn_line(file: IO[bytes]) -> None:
    file.seek(0)
    whole = file.read()
    keep = whole.rfind(b"\n") + 1
    if keep < len(whole):
        file.truncate(keep)
    file.seek(0, os.SEEK_END)


def fingerprint(trace: Trace) -> str:
    """Return sixteen digits that tell traces apart."""
    digest = sha256()
    columns = (trace.submit_s, trace.duration_s, trace.gpu_count, trace.node_count)
    for column in (*columns, trace.user_id, trace.model_id):
        digest.update(column.tobytes())
    digest.update(repr(trace.model_names).encode())
    for labels in (getattr(trace, name) for name in LABELS):
        if labels.names:  # so that files about traces without them can be continued
            digest.update(labels.ids.tobytes() + repr(labels.names).encode())
    if not bool(np.all(np.isnan(trace.time_limit_s))):
        digest.update(trace.time_limit_s.tobytes())
    return digest.hexdigest()[:16]


def _parsed(path: Path, number: int, line: str) -> dict[str, object]:
    try:
        value = json.loads(line)
    except ValueError as error:
        raise ResultsFileError(f"{path}:{number}: is no JSON; name another file") from error
    if not isinstance(value, dict):
        raise ResultsFileError(f"{path}:{number}: is no JSON object; name another file")
    return value


def _check(path: Path, found: Facts, wanted: Facts) -> None:
    different = sorted(name for name in wanted if found.get(name) != wanted[name])
    if different:
        raise ResultsFileError(
            f"{path}:1: holds runs of another {', '.join(different)}; name another file"
        )


def _done(path: Path, number: int, line: str) -> Done:
    try:
        return _DONE.validate_json(line)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ResultsFileError(
            f"{path}:{number}: is no run ({where}: {first['msg']}); name another file"
        ) from error


def unfinished(cases: Iterable[Case], done: Iterable[Done]) -> list[Case]:
    """Return the cases that still have to be run."""
    there = {run.case for run in done}
    return [case for case in cases if case not in there]
