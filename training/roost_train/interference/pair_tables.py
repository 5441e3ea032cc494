"""Tables of pairs that a site or a paper has measured, on any GPU type, as cases of the model.

A row is job a beside job b on one GPU: `model_a, model_b` and a speed of a, either `speed_ratio_a`
or its steps a second beside b and alone. The rest is optional, and what is not there stays absent:
GPU type (a MIG slice is one), batch sizes, the speed of b, whether both fitted, and what a driver
or a profile of stages said of each job alone. The site's own table (`model, beside, speed`) is
read too. Heads: docs/interference.md.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from roost_engine.prediction.interference.interference_vector import fraction, vector
from roost_train.errors import BadTable
from roost_train.interference.pairs import Pairs, log_slowdown
from roost_train.interference.public import PublicJob
from roost_train.interference.table_rows import Row, read_rows

UNNAMED_GPU = "unnamed"
MOST_RATIO = 1.5  # beyond it, it is no speed beside another of the speed alone: a percentage
_YES, _NO = frozenset({"1", "true", "yes", ""}), frozenset({"0", "false", "no"})
# Heads of one job's fields, without the _a or _b that pairs have; the first that is there counts.
_MODEL = ("model", "job", "workload", "job_type")
_BATCH = ("batch", "batch_size", "bs")
_GPU = ("gpu_type", "gpu", "device", "mig_slice")
_ALONE_PER_S = ("steps_per_s_isolated", "steps_per_s_alone", "isolated", "alone")
_BESIDE_PER_S = ("steps_per_s_colocated", "steps_per_s", "colocated")
_RATIO = ("speed_ratio", "speed", "ratio", "normalized_throughput")
_STEP_S = {"step_s": 1.0, "batch_s": 1.0, "median_batch_s": 1.0}
_STEP_MS = {"iteration_ms": 1e-3, "step_ms": 1e-3}
_LOADS: Mapping[str, tuple[str, ...]] = {
    "sm": ("sm_frac", "sm_activity_frac"),
    "memory": ("memory_activity_frac", "dram_frac"),
    "memory_used": ("memory_used_frac",),
    "pcie": ("pcie_bytes_per_s",),
    "nvlink": ("nvlink_bytes_per_s",),
    "nic": ("nic_frac",),
    "power": ("power_w",),
    "clock": ("sm_clock_hz",),
}
_STAGES = {"sm": ("gpu_ms",), "nic": ("network_ms",)}  # of an iteration


def read_pair_tables(pairs: Sequence[Path], alone: Sequence[Path] = ()) -> Pairs:
    """Read tables of pairs, and tables of jobs alone that say more of their jobs.

    A row without a speed, or whose jobs did not fit, is left out: it was not measured.

    Raises:
        BadTable: a table cannot be read, or has no pair.
    """
    jobs = _Jobs()
    for path in alone:
        for row in read_rows(path):
            jobs.note(_job(path, row, ""), row, "", is_alone=True)
    a, b, slowdown = list[PublicJob](), list[PublicJob](), list[float]()
    rows = [(path, list(read_rows(path))) for path in pairs]
    for path, found in rows:
        for row in found:
            for one, other in _sides(row):
                jobs.note(_job(path, row, one), row, one)
                jobs.note(_job(path, row, other), row, other)
    for path, found in rows:
        before = len(a)
        for row in found:
            for one, other in _sides(row) if _fits(row) else ():
                mine, its = _job(path, row, one), _job(path, row, other)
                ratio = _ratio(row, one, jobs.alone_per_s.get(mine))
                if ratio is not None:
                    a.append(mine)
                    b.append(its)
                    slowdown.append(log_slowdown(ratio))
        if len(a) == before:
            why = "no pair has a speed; want speed_ratio_a, or steps_per_s_a and that alone"
            raise BadTable(path, 0, why)
    vectors = jobs.vectors()
    own, beside = (np.stack([vectors[job] for job in each]) for each in (a, b))
    return Pairs(a, b, own, beside, np.array(slowdown))


class _Jobs:
    """What tables say of jobs alone."""

    def __init__(self) -> None:
        self.alone_per_s: dict[PublicJob, float] = {}
        self._means: dict[PublicJob, dict[str, float]] = {}

    def note(self, job: PublicJob, row: Row, which: str, *, is_alone: bool = False) -> None:
        """Note what a row says of one of its jobs; what an earlier row said stays.

        Args:
            job: the job.
            row: that names it.
            which: "_a", "_b" or "", after the heads of its fields; "beside", of a site's table: the
                row says its name only.
            is_alone: whether the row is of this job alone, so that its speed is that alone.
        """
        known = self._means.setdefault(job, {})
        if which == "beside":
            return  # the other fields of the row are of the first job
        rate = _positive(row, _heads(_ALONE_PER_S, which))
        if rate is None and is_alone:
            rate = _alone_per_s(row)
        if rate is not None:
            self.alone_per_s.setdefault(job, rate)
            known.setdefault("step_time", fraction("step_time", 1.0 / rate))
        for quantity, heads in _LOADS.items():
            if (value := row.number_of(*_heads(heads, which))) is not None:
                known.setdefault(quantity, fraction(quantity, value))
        whole_ms = _positive(row, _heads(("iteration_ms",), which))
        for quantity, heads in _STAGES.items() if whole_ms is not None else ():
            part_ms = row.number_of(*_heads(heads, which))
            if part_ms is not None and whole_ms is not None:
                known.setdefault(quantity, fraction(quantity, part_ms / whole_ms))

    def vectors(self) -> dict[PublicJob, NDArray[np.float32]]:
        """Return the vector of each job; SM activity by Gavel's definition where none is said."""
        most = defaultdict[tuple[str, str], list[float]](list)
        for job, rate in self.alone_per_s.items():
            if (batch := _batch(job)) is not None:
                most[job.gpu_type, job.model].append(rate * batch)
        found = {}
        for job, means in self._means.items():
            samples, batch = most[job.gpu_type, job.model], _batch(job)
            if batch is not None and job in self.alone_per_s and len(samples) > 1:
                fill = self.alone_per_s[job] * batch / max(samples)
                means = {"sm": fill} | means
            found[job] = vector(means)
        return found


def _sides(row: Row) -> Iterator[tuple[str, str]]:
    """Yield the ordered pairs of a row: (job, job beside it), by what stands after their heads.

    Raises:
        BadTable: the row does not name two jobs.
    """
    if "beside" in row.fields:
        if not row["beside"]:
            raise row.bad("beside is empty; want the name of the other job")
        yield "", "beside"
        return
    for name in ("model_a", "model_b"):
        if not row.text(*_heads(_MODEL, name[-2:])):
            raise row.bad(f"no {name}; want the names of two jobs, model_a and model_b")
    yield "_a", "_b"
    if row.text(*_heads(_RATIO, "_b")):  # else the order b, a has a row of its own
        yield "_b", "_a"


def _job(path: Path, row: Row, which: str) -> PublicJob:
    gpu_type = row.text(*_GPU).lower() or UNNAMED_GPU
    if which == "beside":
        return PublicJob(gpu_type, row["beside"], "")
    model = row.text(*_heads(_MODEL, which))
    if not model:
        raise row.bad("no model; want a column model")
    return PublicJob(gpu_type, model, row.text(*_heads(_BATCH, which)))


def _ratio(row: Row, which: str, alone_per_s: float | None) -> float | None:
    """Return the speed of a job beside the other, of its speed alone; None: not measured.

    Raises:
        BadTable: the ratio is no such fraction, or the speed alone is not known.
    """
    ratio = row.number_of(*_heads(_RATIO, which))
    if ratio is None:
        beside_per_s = row.number_of(*_heads(_BESIDE_PER_S, which))
        if beside_per_s is None:
            return None
        if alone_per_s is None:
            raise row.bad("a speed beside another and none alone; want steps_per_s_a_isolated")
        ratio = beside_per_s / alone_per_s
    if not 0 < ratio <= MOST_RATIO:
        raise row.bad(f"speed ratio {ratio:.6g}; want the fraction of the speed alone, 0 to 1")
    return ratio


def _fits(row: Row) -> bool:
    given = row.text("fits_in_memory", "fits").lower()
    if given not in _YES | _NO:
        raise row.bad(f"fits_in_memory is {given!r}; want 1 or 0")
    return given in _YES


def _alone_per_s(row: Row) -> float | None:
    """Return steps a second of a job alone, by a rate or by the time of a step."""
    rate = _positive(row, ("steps_per_s",))
    if rate is not None:
        return rate
    for name, scale_s in (_STEP_S | _STEP_MS).items():
        if (step := _positive(row, (name,))) is not None:
            return 1.0 / (step * scale_s)
    return None


def _positive(row: Row, names: Sequence[str]) -> float | None:
    """Return a rate or a time; None: absent, or 0, as of a job that did not run."""
    value = row.number_of(*names)
    if value is not None and value < 0:
        raise row.bad(f"{names[0]} is {value:g}; want a number above 0")
    return value or None


def _heads(names: Sequence[str], which: str) -> tuple[str, ...]:
    """Return heads with `_a` or `_b`; also as Gavel writes it, steps_per_s_a_isolated."""
    if which not in ("_a", "_b"):
        return tuple(names)
    inner = [name.replace("per_s_", f"per_s{which}_") for name in names if "per_s_" in name]
    return (*(f"{name}{which}" for name in names), *inner)


def _batch(job: PublicJob) -> float | None:
    try:
        batch = float(job.batch)
    except ValueError:
        return None
    return batch if 0 < batch < float("inf") else None
