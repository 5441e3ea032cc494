"""Measured pairs of jobs on one GPU, as the truth of a simulation: Gavel's columns.

A kind is a model with its batch size. The file has two lines for each pair of kinds, one for each
of them: its speed beside the other as a fraction of its speed alone, and whether both fitted into
the GPU. The memory of a kind was not published. It is chosen so that two kinds fit together in the
simulation just where they did when they were measured.
"""

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from roost_sim.errors import PairsError

GPU_BYTES = 16 << 30
"""Memory of a GPU. Nominal: the memory that kinds need is chosen relative to it."""

_COLUMNS = (
    *("gpu_type", "model_a", "batch_a", "model_b", "batch_b"),
    *("steps_per_s_a_isolated", "speed_ratio_a", "fits_in_memory"),
)


@dataclass(frozen=True, slots=True, order=True)
class Kind:
    """A model at one batch size; "" if the model has only one."""

    model: str
    batch: str

    @property
    def name(self) -> str:
        """What users of a site would name it."""
        return f"{self.model}/{self.batch}" if self.batch else self.model

    @property
    def family(self) -> str:
        """The family of the model: ResNet of ResNet-18 and ResNet-50."""
        return self.model.split("-")[0]


@dataclass(frozen=True, slots=True)
class Alone:
    """What a site can measure of a kind that has a GPU for itself.

    Attributes:
        step_s: seconds of one step.
        fill_frac: how far its batch fills the GPU, 0 to 1: samples a second, of the most that any
            batch size of the model reaches. 1: the model has one batch size.
    """

    step_s: float
    fill_frac: float


@dataclass(frozen=True, slots=True)
class MeasuredPairs:
    """What one GPU type's pairs do to each other.

    Attributes:
        kinds: all of them, ascending.
        speed: (kind, kind beside it) to its speed, as a fraction of its speed alone: above 0, at
            most 1; only pairs that fitted into memory.
        memory_bytes: what each kind needs of a GPU of GPU_BYTES.
        alone: each kind with a GPU for itself.
        digest: of the file and the GPU type.
    """

    kinds: tuple[Kind, ...]
    speed: Mapping[tuple[Kind, Kind], float]
    memory_bytes: Mapping[Kind, int]
    alone: Mapping[Kind, Alone]
    digest: str

    @property
    def families(self) -> tuple[str, ...]:
        """The families of the models, ascending."""
        return tuple(sorted({kind.family for kind in self.kinds}))


def read_pairs(path: Path, gpu_type: str) -> MeasuredPairs:
    """Read the pairs of one GPU type.

    Raises:
        PairsError: the file cannot be read, has a bad line or lacks a pair, or memory does not
            explain which pairs fitted.
    """
    speed, isolated, fits = dict[tuple[Kind, Kind], float](), dict[Kind, float](), set()
    asked, types = set[tuple[Kind, Kind]](), set[str]()
    for line, row in _rows(path):
        types.add(row["gpu_type"])
        if row["gpu_type"] != gpu_type:
            continue
        pair = Kind(row["model_a"], row["batch_a"]), Kind(row["model_b"], row["batch_b"])
        if pair in asked:
            raise PairsError(path, line, f"{pair[0].name} beside {pair[1].name} comes twice")
        asked.add(pair)
        isolated[pair[0]] = _number(path, line, row, "steps_per_s_a_isolated")
        if row["fits_in_memory"] == "1":
            fits.add(pair)
            # Ratios above 1 are noise: no job runs faster beside another.
            speed[pair] = min(_number(path, line, row, "speed_ratio_a"), 1.0)
    if not asked:
        raise PairsError(
            path, None, f"no pair on {gpu_type!r}; there are {', '.join(sorted(types))}"
        )
    kinds = tuple(sorted(isolated))
    for pair in ((a, b) for a in kinds for b in kinds):
        if pair not in asked or (pair in fits) != (pair[::-1] in fits):
            raise PairsError(path, None, f"{pair[0].name} beside {pair[1].name} is missing")
    return MeasuredPairs(
        kinds=kinds,
        speed=speed,
        memory_bytes=_memory(path, kinds, fits),
        alone=_alone(path, isolated),
        digest=sha256(gpu_type.encode() + path.read_bytes()).hexdigest()[:16],
    )


def _rows(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            missing = [name for name in _COLUMNS if name not in (reader.fieldnames or ())]
            if missing:
                raise PairsError(path, 1, f"no column {missing[0]}; want {', '.join(_COLUMNS)}")
            for row in reader:
                if any(row[name] is None for name in _COLUMNS):
                    raise PairsError(path, reader.line_num, "too few fields")
                yield reader.line_num, row
    except OSError as error:
        raise PairsError(path, None, str(error.strerror)) from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise PairsError(path, None, str(error)) from error


def _number(path: Path, line: int, row: Mapping[str, str], name: str) -> float:
    try:
        value = float(row[name])
    except ValueError:
        value = 0.0
    if not 0.0 < value < float("inf"):
        raise PairsError(path, line, f"{name}: want a number above 0, got {row[name]!r}")
    return value


def _memory(path: Path, kinds: tuple[Kind, ...], fits: set[tuple[Kind, Kind]]) -> dict[Kind, int]:
    """Choose memory such that two kinds fit together just where they fitted when measured.

    The more partners a kind did not fit with, the more it gets: with four ranks above 0, rank 4
    fits beside rank 0 alone, rank 3 beside 0 and 1, and so on. A rank is worth a fifth of the GPU,
    and each kind a twentieth more: 4 + 0 ranks are 18 twentieths of the GPU, 4 + 1 are 22.
    """
    refused = {kind: sum((kind, other) not in fits for other in kinds) for kind in kinds}
    ranks = {count: rank for rank, count in enumerate(sorted({0, *refused.values()}))}
    unit = GPU_BYTES / len(ranks)
    found = {kind: int(unit * (ranks[refused[kind]] + 0.25)) for kind in kinds}
    for a, b in ((a, b) for a in kinds for b in kinds):
        if (found[a] + found[b] <= GPU_BYTES) != ((a, b) in fits):
            reason = f"{a.name} beside {b.name}: no memory of each kind explains fits_in_memory"
            raise PairsError(path, None, f"{reason}; choose another GPU type")
    return found


def _alone(path: Path, isolated: Mapping[Kind, float]) -> dict[Kind, Alone]:
    samples: dict[str, list[float]] = {}
    for kind, steps_per_s in isolated.items():
        samples.setdefault(kind.model, []).append(steps_per_s * _batch(path, kind))
    return {
        kind: Alone(1.0 / each, each * _batch(path, kind) / max(samples[kind.model]))
        for kind, each in isolated.items()
    }


def _batch(path: Path, kind: Kind) -> float:
    if not kind.batch:
        return 1.0
    try:
        batch = float(kind.batch)
    except ValueError:
        batch = 0.0
    if not 0.0 < batch < float("inf"):
        raise PairsError(path, None, f"{kind.name}: want a batch size above 0, or none")
    return batch
