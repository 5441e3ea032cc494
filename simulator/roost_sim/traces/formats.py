"""Trace formats: loads a trace of any of them, detected by the first bytes of the file."""

import shutil
from dataclasses import replace
from enum import Enum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

from roost_sim.errors import TraceError
from roost_sim.traces.csv_file import read_csv
from roost_sim.traces.journal_file import is_journal, read_journal
from roost_sim.traces.philly_file import read_philly
from roost_sim.traces.rows import LoadedTrace
from roost_sim.traces.sacct_file import COMMAND, is_sacct, read_sacct
from roost_sim.traces.text_file import open_trace


class Format(Enum):
    """The formats by name."""

    CSV = "csv"
    SACCT = "sacct"
    PHILLY = "philly"
    JOURNAL = "journal"


class Reader(Protocol):
    """Reads one format."""

    def __call__(self, path: Path, *, strict: bool = False) -> LoadedTrace:
        """Read a file; raises TraceError."""


READERS: dict[Format, Reader] = {
    Format.CSV: read_csv,
    Format.SACCT: read_sacct,
    Format.PHILLY: read_philly,
    Format.JOURNAL: read_journal,
}


def load_trace(path: Path, *, format: Format | None = None, strict: bool = False) -> LoadedTrace:
    """Load a trace.

    Args:
        path: a CSV (Roost's or Helios' columns), `sacct -P` text, Philly's cluster_job_log, or a
            journal of roostd (the file, or the folder that has it). Text may be gzip, and come
            through a pipe: /dev/stdin.
        format: None: detect it.
        strict: raise at the first bad row instead of counting it.

    Raises:
        TraceError: names file, line and reason.
    """
    if path.exists() and not (path.is_file() or path.is_dir()):
        return _load_pipe(path, format, strict)
    return READERS[format or detect_format(path)](path, strict=strict)


def _load_pipe(path: Path, format: Format | None, strict: bool) -> LoadedTrace:
    """Load what comes through a pipe, which can be read only once: by way of a file."""
    with TemporaryDirectory(prefix="roost-sim-") as folder:
        copy = Path(folder) / path.name
        try:
            with path.open("rb") as pipe, copy.open("wb") as file:
                shutil.copyfileobj(pipe, file)
            loaded = load_trace(copy, format=format, strict=strict)
        except TraceError as error:
            raise TraceError(str(path), error.line, error.reason) from error
        except OSError as error:
            raise TraceError(str(path), None, error.strerror or str(error)) from error
    report = loaded.report
    report.examples = [replace(row, source=str(path)) for row in report.examples]
    return LoadedTrace(replace(loaded.trace, source=str(path)), report)


def detect_format(path: Path) -> Format:
    """Detect a trace's format by its first bytes.

    Raises:
        TraceError: the file cannot be read, is empty, or is another JSON than Philly's array.
    """
    if is_journal(path):
        return Format.JOURNAL
    with open_trace(path) as text:
        first_line = text.readline(1 << 20)
    if not first_line:
        raise TraceError(str(path), None, "the file is empty")
    if first_line.lstrip().startswith("["):
        return Format.PHILLY
    if first_line.lstrip().startswith("{"):
        reason = "is JSON, but not Philly's array of jobs; sacct writes a trace with"
        raise TraceError(str(path), 1, f"{reason}: {COMMAND}")
    return Format.SACCT if is_sacct(first_line) else Format.CSV
