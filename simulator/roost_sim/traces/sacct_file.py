"""sacct traces: reads Slurm's accounting as `sacct -P` prints it.

    sacct -a -P -X -S 2026-01-01 -o JobID,User,Submit,ElapsedRaw,NNodes,AllocTRES,State

Slurm prints local times without a zone; they are read as UTC, so a trace across a clock change
has one hour that is wrong.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from roost_sim.errors import TraceError
from roost_sim.traces.csv_file import epoch_of
from roost_sim.traces.rows import (
    LoadedTrace,
    Row,
    TraceCollector,
    Unusable,
    open_trace,
    status_of,
)
from roost_sim.traces.trace import UNKNOWN

_ELAPSED = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)(?:\.\d+)?$")
_GPU_TRES = re.compile(r"(?:^|,)gres/gpu(:[^=,]*)?=(\d+)")
_NOT_ENDED = frozenset({"PENDING", "RUNNING", "REQUEUED", "RESIZING", "CONFIGURING", "COMPLETING"})
_WANTED = ("JobID", "Submit", "ElapsedRaw", "Elapsed", "AllocTRES", "ReqTRES", "State", "NNodes")


@dataclass(frozen=True, slots=True)
class _Fields:
    position: dict[str, int]
    width: int

    def get(self, cells: Sequence[str], name: str) -> str:
        index = self.position.get(name.lower())
        return "" if index is None else cells[index].strip()


def read_sacct(path: Path, *, strict: bool = False) -> LoadedTrace:
    """Read what `sacct -P` wrote into a file, plain or gzip.

    Steps (`12.batch`) are skipped, and so are jobs that have not ended.

    Args:
        path: with sacct's header line; the fields may stand in any order.
        strict: raise at the first bad row.

    Raises:
        TraceError: a field is missing, no job is usable, or strict and a row is bad.
    """
    with open_trace(path) as text:
        return _read(text, str(path), strict)


def is_sacct_header(line: str) -> bool:
    """Whether a file that begins with this line is sacct's."""
    names = {name.strip().lower() for name in line.split("|")}
    return {"jobid", "submit"} <= names


def _read(text: TextIO, source: str, strict: bool) -> LoadedTrace:
    collector = TraceCollector(source, strict)
    fields = _fields(text.readline(), source)
    for line, content in enumerate(text, start=2):
        cells = content.rstrip("\r\n").split("|")
        if cells == [""]:
            continue
        try:
            _add(line, cells, fields, collector)
        except Unusable as problem:
            collector.reject(line, problem)
    return collector.finish(epoch_of_zero_s=0.0)


def _fields(header: str, source: str) -> _Fields:
    names = [name.strip().lower() for name in header.rstrip("\r\n").split("|")]
    fields = _Fields({name: index for index, name in enumerate(names)}, len(names))
    for options in (("JobID",), ("Submit",), ("ElapsedRaw", "Elapsed"), ("AllocTRES", "ReqTRES")):
        if not any(name.lower() in fields.position for name in options):
            missing = " or ".join(options)
            command = f"sacct -a -P -X -o {','.join(_WANTED)}"
            raise TraceError(source, 1, f"no field {missing}; write the file with: {command}")
    return fields


def _add(line: int, cells: list[str], fields: _Fields, collector: TraceCollector) -> None:
    if len(cells) != fields.width:
        raise Unusable("wrong number of fields", f"{len(cells)} of {fields.width}")
    if "." in fields.get(cells, "JobID"):
        collector.skip("is a job step")
        return
    state = fields.get(cells, "State")
    if state.split(" ")[0] in _NOT_ENDED:
        collector.skip("has not ended")
        return
    nodes = fields.get(cells, "NNodes")
    collector.add(
        line,
        Row(
            submit_s=epoch_of(fields.get(cells, "Submit")),
            duration_s=_elapsed_s(cells, fields),
            gpu_count=gpus_of(fields.get(cells, "AllocTRES") or fields.get(cells, "ReqTRES")),
            node_count=int(nodes) if nodes.isdecimal() and nodes != "0" else UNKNOWN,
            user=fields.get(cells, "User"),
            status=status_of(state),
        ),
    )


def gpus_of(tres: str) -> int:
    """Return the GPUs in a TRES list: `billing=8,cpu=8,gres/gpu:a100=4,gres/gpu=4` has 4.

    Slurm lists the sum beside the types; an old slurmdbd lists only what AccountingStorageTRES
    names, so without a sum the types are added up.
    """
    found = _GPU_TRES.findall(tres)
    sums = [int(count) for kind, count in found if not kind]
    return sums[0] if sums else sum(int(count) for _, count in found)


def _elapsed_s(cells: Sequence[str], fields: _Fields) -> float:
    raw = fields.get(cells, "ElapsedRaw")
    if raw:
        if not raw.isdecimal():
            raise Unusable("ElapsedRaw is no number of seconds", raw)
        return float(raw)
    text = fields.get(cells, "Elapsed")
    match = _ELAPSED.match(text)
    if match is None:
        raise Unusable("Elapsed is not [days-][hours:]minutes:seconds", text or "nothing")
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)
