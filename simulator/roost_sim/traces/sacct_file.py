"""sacct traces: reads Slurm's accounting as `sacct -P` prints it.

`COMMAND` writes a file with every column that is used. Columns stand in any order, and most may be
missing. Slurm prints local times without a zone; they are read as UTC, so a trace across a clock
change has one hour that is wrong.
"""

import csv
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TextIO

from roost_sim.errors import TraceError
from roost_sim.traces.moments import epoch_of
from roost_sim.traces.rows import (
    LoadedTrace,
    Row,
    Skipped,
    TraceCollector,
    Unusable,
    short_name,
    status_of,
)
from roost_sim.traces.text_file import open_trace
from roost_sim.traces.time_limits import limit_in_minutes_s, slurm_limit_s
from roost_sim.traces.trace import UNKNOWN, Status

# JobName comes last: a separator in a name then costs nothing.
COMMAND = (
    "sacct -a -P -X -S 2026-01-01 -o JobID,User,Account,Partition,QOS,Submit,Start,ElapsedRaw,"
    "Timelimit,NNodes,AllocTRES,ReqTRES,State,JobName"
)
_ELAPSED_OR_END = ("ElapsedRaw", "Elapsed", "End")
_NEEDED = (("JobID",), ("Submit",), _ELAPSED_OR_END, ("AllocTRES", "ReqTRES"))
# Fields whose text users choose: sacct does not escape a separator in them.
_FREE_TEXT = frozenset(
    {"jobname", "comment", "admincomment", "systemcomment", "submitline", "workdir", "extra"}
)
_SEPARATORS = "|,;\t^~#@!&"  # none of them is in a time, a TRES or a job id
_ELAPSED = re.compile(r"(?:(\d{1,9})-)?(?:(\d{1,9}):)?(\d{1,9}):(\d{1,9})(?:\.\d+)?", re.ASCII)
_ANY_GPU_TRES = re.compile(r"(?:^|,)gres/gpu(?=[:=,]|$)", re.ASCII)
_GPU_TRES = re.compile(r"(?:^|,)gres/gpu(:[^=,]*)?=(\d+)(?=,|$)", re.ASCII)
_TRES_PART = re.compile(r"[a-z]+(?:/[^=,]+)?=[^=,]+")
_EPOCH = re.compile(r"\d{1,11}", re.ASCII)  # SLURM_TIME_FORMAT=%s
_NO_TIME = ("", "unknown", "none")
_DISABLED = "accounting storage is disabled"  # on stderr, which `&>` puts into the file
_NOT_ENDED = frozenset(
    {"PENDING", "RUNNING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESIZING", "CONFIGURING"}
    | {"COMPLETING", "SIGNALING", "SPECIAL_EXIT", "STAGE_OUT", "STOPPED", "RESV_DEL_HOLD"}
)


@dataclass(frozen=True, slots=True)
class _Fields:
    """The header: where each field stands in a row."""

    separator: str
    position: dict[str, int]
    width: int
    free_text: int | None  # the only field that may contain separators
    ends_open: bool  # each line ends with a separator: sacct -p

    def get(self, cells: Sequence[str], name: str) -> str:
        """Return a cell; "" where the file does not have that field, named in small letters."""
        index = self.position.get(name)
        return "" if index is None else cells[index].strip()

    def cells(self, line: str) -> list[str]:
        """Split a row.

        Raises:
            Unusable: the row does not have as many fields as the header.
        """
        cells = _split(line, self.separator)
        if self.ends_open and not cells[-1].strip():
            cells.pop()
        if len(cells) > self.width and self.separator == ",":
            cells = _with_whole_tres(cells)
        extra = len(cells) - self.width
        if extra > 0 and self.free_text is not None:
            end = self.free_text + extra + 1
            joined = self.separator.join(cells[self.free_text : end])
            return [*cells[: self.free_text], joined, *cells[end:]]
        if extra:
            raise Unusable("wrong number of fields", f"{len(cells)} of {self.width}")
        return cells


def read_sacct(path: Path, *, strict: bool = False) -> LoadedTrace:
    """Read what `sacct -P` wrote into a file, plain or gzip.

    Steps (`12.batch`) are skipped, and so are jobs that have not ended, and the second row of a
    job that is listed twice.

    Args:
        path: with sacct's header line; the fields may stand in any order, separated by `|`, a
            comma, a semicolon, a tab or one of `^~#@!&`.
        strict: raise at the first bad row.

    Raises:
        TraceError: a field is missing, no job is usable, or strict and a row is bad.
    """
    with open_trace(path) as text:
        return _read(text, str(path), strict)


def is_sacct(line: str) -> bool:
    """Return whether a file with this first line is of sacct, or an error of sacct's."""
    padded = set(line.lower().split())
    is_header = any({"jobid", "submit"} <= names for names in (set(_names(line)), padded))
    return is_header or _is_complaint(line)


def _is_complaint(line: str) -> bool:
    return line.startswith("sacct: ") or _DISABLED in line.lower()


def _separator(header: str) -> str:
    return max(_SEPARATORS, key=header.count)


def _names(header: str) -> list[str]:
    return [name.strip().strip('"').lower() for name in header.split(_separator(header))]


def _split(line: str, separator: str) -> list[str]:
    if separator == "|" or '"' not in line:
        return line.split(separator)
    try:
        return next(csv.reader([line], delimiter=separator), [])
    except csv.Error as error:
        raise Unusable("quotes are wrong", str(error)) from error


def _with_whole_tres(cells: Sequence[str]) -> list[str]:
    """Join the parts of a TRES list that its own commas have split: cpu=8, gres/gpu=2.

    A list has each TRES once. So of cpu=8, gres/gpu=2, cpu=4 the last begins the next column.
    """
    joined = list[str]()
    names = set[str]()  # of the list that the cell before is part of
    for cell in cells:
        name = cell.partition("=")[0].strip()
        is_part = _TRES_PART.fullmatch(cell.strip()) is not None
        if is_part and names and name not in names:
            joined[-1] += f",{cell}"
            names.add(name)
        else:
            joined.append(cell)
            names = {name} if is_part else set()
    return joined


def _read(text: TextIO, source: str, strict: bool) -> LoadedTrace:
    collector = TraceCollector(source, strict)
    header = text.readline().rstrip("\r\n")
    fields = _fields(header, source)
    has_rows = False
    seen = set[int]()  # digests of rows: sacct lists a job in each month in which it ran
    for line, content in enumerate(text, start=2):
        row = content.rstrip("\r\n")
        if not row or row == header:  # the files of several months, one after the other
            continue
        has_rows = True
        try:
            if hash(row) in seen:
                raise Skipped("is listed twice")
            _add(line, fields.cells(row), fields, collector)
            seen.add(hash(row))
        except Skipped as skipped:
            collector.skip(str(skipped))
        except Unusable as problem:
            is_cut = row == content  # sacct ends each line, so the file has lost its end
            cut = Unusable("the file is cut off in its last line; write it again", row[-40:])
            collector.reject(line, cut if is_cut else problem)
    if not has_rows:
        reason = "no jobs: without -S sacct lists those of today, without -a those of one user"
        raise TraceError(source, 1, f"{reason}; write the file with: {COMMAND}")
    return collector.finish(epoch_of_zero_s=0.0)


def _fields(header: str, source: str) -> _Fields:
    if _is_complaint(header):
        reason = f"sacct has listed no jobs but said: {header[:200].strip()}"
        if _DISABLED in header.lower():
            cure = "set AccountingStorageType=accounting_storage/slurmdbd in slurm.conf"
            reason += f"; {cure}, or take roostd's journal as a trace"
        raise TraceError(source, 1, reason)
    names = _names(header)
    ends_open = len(names) > 1 and not names[-1]
    if ends_open:
        names.pop()
    position = {name: index for index, name in enumerate(names)}
    for options in _NEEDED:
        if not any(name.lower() in position for name in options):
            missing = " or ".join(options)
            is_padded = len(names) <= 1 and missing.lower() in header.lower().split()
            reason = "the columns are padded" if is_padded else f"no field {missing}"
            raise TraceError(source, 1, f"{reason}; write the file with: {COMMAND}")
    if not {"elapsedraw", "elapsed", "start"} & position.keys():
        raise TraceError(source, 1, f"no field Start beside End; write the file with: {COMMAND}")
    free = [position[name] for name in position if name in _FREE_TEXT]
    return _Fields(
        _separator(header), position, len(names), free[0] if len(free) == 1 else None, ends_open
    )


def _add(line: int, cells: list[str], fields: _Fields, collector: TraceCollector) -> None:
    job_id = fields.get(cells, "jobid")
    if "." in job_id:
        raise Skipped("is a job step")
    state = fields.get(cells, "state")
    if state.split(" ")[0].rstrip("+") in _NOT_ENDED:
        raise Skipped("has not ended")
    nodes = fields.get(cells, "nnodes")
    submit_s = _moment_s(fields.get(cells, "submit"))
    held, asked = (gpus_of(fields.get(cells, name)) for name in ("alloctres", "reqtres"))
    collector.add(
        line,
        Row(
            submit_s=submit_s,
            duration_s=_elapsed_s(cells, fields),
            gpu_count=held or asked,
            node_count=int(nodes[:9]) if nodes.isdecimal() and int(nodes[:9]) else UNKNOWN,
            user=short_name(fields.get(cells, "user") or fields.get(cells, "uid")),
            status=_status(line, state, collector),
            job_name=short_name(fields.get(cells, "jobname")),
            account=short_name(fields.get(cells, "account")),
            partition=short_name(fields.get(cells, "partition")),
            qos=short_name(fields.get(cells, "qos")),
            time_limit_s=_limit_s(line, cells, fields, collector),
            wait_s=collector.usable_s(
                line, fields.get(cells, "start"), lambda start: _wait_s(submit_s, start)
            ),
            is_array="_" in job_id,
        ),
    )


@lru_cache(maxsize=4096)  # a site has few different ones
def gpus_of(tres: str) -> int:
    """Return the GPUs in a TRES list: `billing=8,cpu=8,gres/gpu:a100=4,gres/gpu=4` has 4.

    Slurm lists the sum beside the types; an old slurmdbd lists only what AccountingStorageTRES
    names, so without a sum the types are added up.

    Raises:
        Unusable: a count of GPUs is no whole number.
    """
    found = [(kind, int(count[:10])) for kind, count in _GPU_TRES.findall(tres)]
    if len(found) != len(_ANY_GPU_TRES.findall(tres)):
        raise Unusable("its GPUs cannot be counted", tres[:40])
    sums = [count for kind, count in found if not kind]
    return sums[0] if sums else sum(count for _, count in found)


def _moment_s(text: str) -> float:
    if _EPOCH.fullmatch(text):
        return float(text)
    try:
        return epoch_of(text)
    except Unusable as problem:
        kind = f"{problem.kind}; unset SLURM_TIME_FORMAT for sacct"
        raise Unusable(kind, text[:40]) from problem


def _wait_s(submit_s: float, start: str) -> float:
    if start.lower() in _NO_TIME:
        return math.nan
    wait_s = _moment_s(start) - submit_s
    if wait_s < 0:
        raise Unusable("start is before submission", start[:40])
    return wait_s


def _limit_s(line: int, cells: Sequence[str], fields: _Fields, collector: TraceCollector) -> float:
    text = fields.get(cells, "timelimit")
    if text:
        return collector.usable_s(line, text, slurm_limit_s)
    return collector.usable_s(line, fields.get(cells, "timelimitraw"), limit_in_minutes_s)


def _status(line: int, state: str, collector: TraceCollector) -> Status:
    try:
        return status_of(state)
    except Unusable as problem:  # a state of a later Slurm
        collector.ignore(line, problem)
        return Status.UNKNOWN


def _elapsed_s(cells: Sequence[str], fields: _Fields) -> float:
    if not {"elapsedraw", "elapsed"} & fields.position.keys():
        return _ran_s(fields.get(cells, "start"), fields.get(cells, "end"))
    raw = fields.get(cells, "elapsedraw")
    if raw:
        if not raw.isdecimal():
            raise Unusable("ElapsedRaw is no number of seconds", raw[:40])
        return float(raw)
    text = fields.get(cells, "elapsed")
    match = _ELAPSED.fullmatch(text)
    if match is None:
        raise Unusable("Elapsed is not [days-][hours:]minutes:seconds", text[:40] or "nothing")
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


def _ran_s(start: str, end: str) -> float:
    if start.lower() in _NO_TIME:
        raise Skipped("was never started")
    if end.lower() in _NO_TIME:
        raise Skipped("has not ended")
    return _moment_s(end) - _moment_s(start)
