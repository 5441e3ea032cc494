"""Fits speed profiles on tables of measured step times, and computes their error.

Three rows in ten of the large table are held out of the fit, chosen by a checksum of what they
measured; the error is computed on these. Tables: a user's own download of the public data.
"""

import csv
import gzip
import zlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import log2
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from roost_sim.worlds.speed.profiles import Profile

POLLUX = "Pollux on AWS g4dn.12xlarge (4 T4, 50 Gbit/s): Qiao et al., OSDI 2021, artifact"
GAVEL = "Gavel on P100: Narayanan et al., OSDI 2020, isolated throughputs"
MURI = "Muri on nodes of 8 V100, InfiniBand: Zhao et al., SIGCOMM 2022, stage profile"
VARIANTS = 4  # batch sizes of each model of the large table that become profiles
LEAST_ROWS = 100
_FAMILIES = {"imagenet": "resnet50", "cifar10": "resnet18", "shufflenet_v2_x1_0": "shufflenet"}


@dataclass(frozen=True, slots=True)
class Measured:
    """One measurement: a model at a batch size on some GPUs."""

    model: str
    batch: str
    node_count: int
    gpu_count: int
    fullest_gpu_count: int
    step_s: float

    @property
    def is_held_out(self) -> bool:
        """Whether the fit leaves it out; single GPUs and single nodes are never left out."""
        if self.node_count == 1:
            return False
        text = f"{self.model}/{self.batch}/{self.node_count}/{self.gpu_count}"
        return zlib.crc32(f"{text}/{self.fullest_gpu_count}".encode()) % 10 < 3


@dataclass(frozen=True, slots=True)
class FitError:
    """Relative error of predicted step times, of one family or of all."""

    family: str
    row_count: int
    mean_frac: float
    median_frac: float
    p90_frac: float


def read_pollux(path: Path, kind: str = "placements") -> list[Measured]:
    """Read the table of step times on T4: columns model, kind, placement, local_bsz, step_time_s.

    A placement is one digit a node: "134" is 1, 3 and 4 GPUs.
    """
    with gzip.open(path, "rt", encoding="utf-8", newline="") as text:
        return [
            Measured(
                model=row["model"],
                batch=row["local_bsz"],
                node_count=int(row["num_nodes"]),
                gpu_count=int(row["num_gpus"]),
                fullest_gpu_count=(
                    max(map(int, row["placement"]))
                    if row["placement"]
                    else -(-int(row["num_gpus"]) // int(row["num_nodes"]))
                ),
                step_s=float(row["step_time_s"]),
            )
            for row in csv.DictReader(text)
            if row["kind"] == kind
        ]


def read_gavel(path: Path) -> list[Measured]:
    """Read isolated throughputs; steps_per_s is the sum over GPUs, 0 where it did not fit."""
    found = list[Measured]()
    with path.open(encoding="utf-8", newline="") as text:
        for row in csv.DictReader(text):
            rate, gpus = float(row["steps_per_s"]), int(row["num_gpus"])
            if row["gpu_type"] != "p100" or rate <= 0:
                continue
            nodes = 1 if row["consolidated"] == "1" or gpus == 1 else gpus
            found.append(Measured(row["model"], row["batch_size"], nodes, gpus, 1, gpus / rate))
    return found


def read_muri(path: Path) -> list[Measured]:
    """Read the stage profile: whole iterations, packed on nodes of 8 GPUs."""
    with path.open(encoding="utf-8", newline="") as text:
        return [
            Measured(
                model=row["model"],
                batch=row["batch_size"],
                node_count=-(-int(row["num_gpus"]) // 8),
                gpu_count=int(row["num_gpus"]),
                fullest_gpu_count=min(int(row["num_gpus"]), 8),
                step_s=float(row["iteration_ms"]) / 1e3,
            )
            for row in csv.DictReader(text)
        ]


def fit_folder(folder: Path) -> tuple[Profile, ...]:
    """Fit every profile on the tables of a folder (pollux, gavel, muri).

    Raises:
        OSError: a table is not there.
    """
    pollux = _groups(read_pollux(folder / "pollux_aws_t4_steptime.csv.gz"), LEAST_ROWS)
    gavel = _groups(read_gavel(folder / "gavel_isolated_p100_k80.csv"), 7)
    muri = _groups(read_muri(folder / "muri_stage_profile.csv"), 6)
    profiles = [fit_profile(rows, POLLUX, "t4") for rows in _some_batches(pollux)]
    profiles += [fit_profile(rows, GAVEL, "p100") for rows in gavel]
    profiles += [fit_profile(rows, MURI, "v100") for rows in muri]
    return tuple(profiles)


def fit_profile(rows: Sequence[Measured], source: str, gpu_type: str) -> Profile:
    """Fit one profile on the rows of one model and batch size that are not held out.

    Least squares on the step time relative to the measured one, so that slow placements do not
    outweigh the fast ones.

    Args:
        rows: one of them on a single GPU.
        source: of the measurement.
        gpu_type: for the name of the profile.
    """
    alone_s = next(row.step_s for row in rows if row.gpu_count == 1)
    near = [row for row in rows if row.node_count == 1 and row.gpu_count > 1]
    far = [row for row in rows if row.node_count > 1 and not _skips(row, source)]
    (local,) = _solve([[log2(row.gpu_count)] for row in near], near, alone_s)
    terms = [_spread_terms(row) for row in far]
    if not any(row[2] for row in terms) or source != POLLUX:
        terms = [row[:2] for row in terms]
    spread = [*_solve(terms, far, alone_s), 0.0]
    family = family_of(rows[0].model)
    return Profile(
        name=f"{family}/{rows[0].batch}@{gpu_type}",
        family=family,
        source=source,
        compute_s=_round(alone_s),
        local=_round(max(local, 0.0)),
        spread=_round(spread[0]),
        spread_log=_round(spread[1]),
        pair_log=_round(spread[2]),
    )


def family_of(model: str) -> str:
    """Return the family of a model by its name in a table."""
    name = model.lower().replace("resnet-", "resnet")
    return _FAMILIES.get(name, name)


def errors(profiles: Iterable[Profile], rows: Iterable[Measured]) -> tuple[FitError, ...]:
    """Compute relative errors of the step times that T4 profiles predict, by family and for "all".

    Args:
        profiles: to evaluate.
        rows: measurements; those without a profile of their batch size are skipped.
    """
    by_name = {profile.name: profile for profile in profiles}
    found = defaultdict[str, list[float]](list)
    for row in rows:
        profile = by_name.get(f"{family_of(row.model)}/{row.batch}@t4")
        if profile is not None and row.gpu_count > 1:
            error = abs(predicted_s(profile, row) / row.step_s - 1.0)
            found[profile.family].append(error)
            found["all"].append(error)
    return tuple(
        FitError(
            family,
            len(values),
            float(np.mean(values)),
            float(np.median(values)),
            float(np.percentile(values, 90)),
        )
        for family, values in sorted(found.items())
    )


def predicted_s(profile: Profile, row: Measured) -> float:
    """Return the step time that a profile predicts for a measurement."""
    if row.node_count == 1:
        return profile.compute_s * (1.0 + profile.local_overhead(row.gpu_count))
    far = profile.spread_overhead(row.gpu_count, row.node_count, row.fullest_gpu_count)
    return profile.compute_s * (1.0 + far)


def _skips(row: Measured, source: str) -> bool:
    return source == POLLUX and row.is_held_out


def _spread_terms(row: Measured) -> list[float]:
    pair = log2(row.fullest_gpu_count) if row.node_count == 2 else 0.0
    return [1.0, log2(row.gpu_count), pair]


def _solve(terms: list[list[float]], rows: Sequence[Measured], alone_s: float) -> list[float]:
    slowdown = np.array([row.step_s / alone_s for row in rows])
    matrix: NDArray[np.float64] = np.array(terms) / slowdown[:, None]
    solution = np.linalg.lstsq(matrix, (slowdown - 1.0) / slowdown, rcond=None)[0]
    return [float(value) for value in solution]


def _groups(rows: Iterable[Measured], least_rows: int) -> list[list[Measured]]:
    groups = defaultdict[tuple[str, str], list[Measured]](list)
    for row in rows:
        groups[row.model, row.batch].append(row)
    whole = [group for group in groups.values() if len(group) >= least_rows]
    return sorted(whole, key=lambda group: (family_of(group[0].model), float(group[0].batch)))


def _some_batches(groups: list[list[Measured]]) -> list[list[Measured]]:
    """Batch sizes spread evenly over those of each model, the smallest and largest included."""
    by_model = defaultdict[str, list[list[Measured]]](list)
    for group in groups:
        by_model[group[0].model].append(group)
    chosen = list[list[Measured]]()
    for found in by_model.values():
        steps = min(VARIANTS, len(found))
        places = np.linspace(0, len(found) - 1, steps).round().astype(int)
        chosen += [found[place] for place in places]
    return chosen


def _round(value: float) -> float:
    return float(f"{value:.4g}")
