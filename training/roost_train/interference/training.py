"""Training of the interference model on measured pairs, and its figures against others."""

import hashlib
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx
from numpy.typing import NDArray

from roost_engine.prediction.interference.interference_model import BESIDE, OWN, SLOWDOWN, TIER
from roost_formats.models.interference import load_onnx_interference
from roost_formats.models.manifest import Manifest, manifest_path
from roost_formats.models.signature import INTERFERENCE
from roost_train.interference.baselines import (
    BASELINES,
    counts_of_kinds,
    table_of_kinds,
)
from roost_train.interference.fit import (
    InterferenceFit,
    Shape,
    export_interference,
    fit,
)
from roost_train.interference.pairs import Pairs, Split, family_of, parts_of
from roost_train.interference.spread import INTERVAL, Spread, fit_spread
from roost_train.runtimes.run_time_figures import rank_correlation

Array = NDArray[np.float64]

MODEL_FILE = "interference.onnx"
MODEL, TABLE, BOTH = "model", "table of kinds", "model and table"
WIDTHS = (0.3, 0.8, 1.2)
LEAST_CASES = 20  # of a GPU type, to say whether nine in ten are inside an interval
_FEW_COUNT = 2.0
_CANARY_COUNT = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitFigures:
    """How good one predictor is under one split.

    Attributes:
        split, predictor: their names.
        mae: mean absolute error of the speed ratio.
        rank: Spearman's correlation of predicted and measured slowdowns.
        inside_frac: share of cases inside the 90 % interval; None: no interval.
        inside_by_part: the same of each part of the split; empty: no interval.
        parts: name and number of cases of each part, where the parts are GPU types.
        case_count: ordered pairs that were predicted.
    """

    split: str
    predictor: str
    mae: float
    rank: float
    inside_frac: float | None
    case_count: int
    inside_by_part: tuple[float, ...] = ()
    parts: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class _Trained:
    """A fit, and how far it is off for jobs that it knows and for jobs that it does not."""

    model: InterferenceFit
    known_spread: Spread
    unseen_spread: Spread

    def predict(self, train: Pairs, test: Pairs) -> dict[str, tuple[Array, Array | None]]:
        """Return the log slowdowns [case] of held-out pairs, and their spreads, by predictor.

        A spread of None: the predictor gives no interval.
        """
        alone = self.model.slowdowns(test.cases())
        known = self.model.slowdowns(train.cases()).mean.astype(float)
        mean = alone.mean.astype(float)
        both = table_of_kinds(train, test, known, mean)
        seen_a, seen_b = counts_of_kinds(train, test)
        new = (_FEW_COUNT / (seen_a + _FEW_COUNT) + _FEW_COUNT / (seen_b + _FEW_COUNT)) / 2
        known_variance = self.known_spread.of(test.own) ** 2
        unseen_variance = self.unseen_spread.of(test.own) ** 2
        spread = np.sqrt((1 - new) * known_variance + new * unseen_variance)
        return {
            TABLE: (table_of_kinds(train, test), None),
            MODEL: (mean, alone.spread.astype(float)),
            BOTH: (both, spread),
        }


def train(pairs: Pairs, seed: int = 0) -> _Trained:
    """Fit the model, its shape chosen for model and table on families held out of these pairs.

    The spread is what the model misses on held-out families, and, for kinds that the table knows,
    what model and table miss on held-out pairs; both depend on the job's seconds a step.
    """
    families = parts_of(Split.FAMILY, pairs)
    usable = [part for part in families if part[0].any() and part[1].any()]
    missed = {width: _missed(pairs, usable, Shape(width=width)) for width in WIDTHS}
    width = min(WIDTHS, key=lambda each: float(np.abs(missed[each].both).mean()))
    shape = Shape(width=width)
    of_known = _missed(pairs, parts_of(Split.PAIRS, pairs, seed), shape)
    unseen_spread = fit_spread(missed[width].own, missed[width].alone)
    known_spread = fit_spread(of_known.own, of_known.both)
    return _Trained(fit(pairs, shape, unseen_spread), known_spread, unseen_spread)


class _Missed(NamedTuple):
    """What predictions of held-out cases miss.

    Attributes:
        own: float32 [case, WIDTH], the jobs' vectors.
        alone: [case], of the model alone.
        both: [case], of model and table.
    """

    own: NDArray[np.float32]
    alone: Array
    both: Array


def _missed(
    pairs: Pairs, parts: list[tuple[NDArray[np.bool_], NDArray[np.bool_]]], shape: Shape
) -> _Missed:
    """Return what the model alone misses on held-out parts, and what model and table miss."""
    own, alone, both = list[NDArray[np.float32]](), list[Array](), list[Array]()
    for learned, judged in parts:
        known, asked = pairs.where(learned), pairs.where(judged)
        model = fit(known, shape)
        mean = model.slowdowns(asked.cases()).mean.astype(float)
        fitted = model.slowdowns(known.cases()).mean.astype(float)
        own.append(asked.own)
        alone.append(asked.slowdown - mean)
        both.append(asked.slowdown - table_of_kinds(known, asked, fitted, mean))
    return _Missed(np.concatenate(own), np.concatenate(alone), np.concatenate(both))


def compare(
    pairs: Pairs, seed: int = 0, progress: Callable[[int], None] = lambda done: None
) -> list[SplitFigures]:
    """Judge every predictor under every split.

    Args:
        pairs: all of them.
        seed: of the random split.
        progress: called with the parts that are done, see part_count.
    """
    rows, done = list[SplitFigures](), 0
    for split in Split:
        found: dict[str, list[tuple[Array, Array | None]]] = {}
        truth, parts = list[Array](), list[tuple[str, int]]()
        for learned, judged in parts_of(split, pairs, seed):
            known, asked = pairs.where(learned), pairs.where(judged)
            truth.append(asked.slowdown)
            if split is Split.GPU:
                parts.append((asked.a[0].gpu_type, len(asked)))
            for name, predict in BASELINES.items():
                found.setdefault(name, []).append((predict(known, asked), None))
            for name, answer in train(known, seed).predict(known, asked).items():
                found.setdefault(name, []).append(answer)
            done += 1
            progress(done)
        rows += [
            replace(_figures(split, name, answers, truth), parts=tuple(parts))
            for name, answers in found.items()
        ]
    return rows


def part_count(pairs: Pairs) -> int:
    """Return how many parts all splits have together."""
    return sum(len(parts_of(split, pairs)) for split in Split)


def _figures(
    split: Split, name: str, answers: list[tuple[Array, Array | None]], truth: list[Array]
) -> SplitFigures:
    mean, measured = np.concatenate([each for each, _ in answers]), np.concatenate(truth)
    held = [
        np.abs(each - right) <= INTERVAL * spread
        for (each, spread), right in zip(answers, truth, strict=True)
        if spread is not None
    ]
    inside = float(np.concatenate(held).mean()) if held else None
    return SplitFigures(
        split=split.value,
        predictor=name,
        mae=float(np.abs(np.exp(-mean) - np.exp(-measured)).mean()),
        rank=rank_correlation(mean, measured),
        inside_frac=inside,
        inside_by_part=tuple(float(each.mean()) for each in held),
        case_count=len(measured),
    )


def as_table(rows: list[SplitFigures]) -> str:
    """Return the figures as a Markdown table."""
    lines = ["| split | predictor | MAE of the speed ratio | rank | in 90 % | cases |"]
    lines.append("|---|---|---|---|---|---|")
    for row in rows:
        inside = "" if row.inside_frac is None else f"{100 * row.inside_frac:.1f} %"
        if row.split == Split.GPU and row.inside_by_part:
            types = zip(row.parts, row.inside_by_part, strict=True)
            inside += f" ({', '.join(f'{name} {100 * each:.1f}' for (name, _), each in types)})"
        lines.append(
            f"| {row.split} | {row.predictor} | {row.mae:.4f} | {row.rank:.3f} | {inside}"
            f" | {row.case_count:,} |"
        )
    return "\n".join(lines)


def not_met(rows: list[SplitFigures]) -> list[str]:
    """Return in words what of the aims is not reached by model and table together."""
    found = list[str]()
    for split in Split:
        by_name = {row.predictor: row for row in rows if row.split == split.value}
        ours = by_name[BOTH]
        for name in BASELINES:
            if ours.mae >= by_name[name].mae:
                found.append(f"{split}: the error is not below that of {name}")
            if ours.rank <= by_name[name].rank:
                found.append(f"{split}: the rank correlation is not above that of {name}")
        if ours.inside_frac is not None and not 0.85 <= ours.inside_frac <= 0.95:
            found.append(f"{split}: {100 * ours.inside_frac:.1f} % are inside the 90 % interval")
        if split is Split.GPU:
            found += [
                f"{split}: {100 * inside:.1f} % of {name} are inside the 90 % interval"
                for (name, count), inside in zip(ours.parts, ours.inside_by_part, strict=True)
                if count >= LEAST_CASES and not 0.85 <= inside <= 0.95
            ]
    return found


def write_interference(
    pairs: Pairs,
    rows: list[SplitFigures],
    folder: Path,
    command: str,
    seed: int = 0,
    tables: Sequence[str] = (),
) -> Path:
    """Train on all pairs, write interference.onnx and its manifest, load them, return the path.

    Args:
        pairs: of all sources.
        rows: the figures of compare().
        folder: of the model; made if it is missing.
        command: that repeats this, for the card.
        seed: of the random split.
        tables: the names of those beside the public ones and our own, for the card.

    Raises:
        PolicyError: the daemon would refuse the model.
        OSError: the folder cannot be written.
    """
    trained = train(pairs, seed)
    content = export_interference(trained.model)
    places = np.linspace(0, len(pairs) - 1, _CANARY_COUNT).astype(np.int64)
    cases = pairs.where(np.isin(np.arange(len(pairs)), places)).cases()
    answer = np.stack(trained.model.slowdowns(cases), axis=1)
    manifest = Manifest(
        kind=INTERFERENCE.kind,
        schema_version=INTERFERENCE.schema_version,
        columns={tensor.name: tensor.columns or () for tensor in INTERFERENCE.inputs},
        sha256=hashlib.sha256(content).hexdigest(),
        size_bytes=len(content),
        canary_inputs={OWN: cases.own, BESIDE: cases.beside, TIER: cases.tier},
        canary_outputs={SLOWDOWN: answer},
        card=_card(trained, pairs, rows, command, seed, tables),
    )
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / MODEL_FILE
    path.write_bytes(content)
    manifest_path(path).write_text(manifest.to_json(), encoding="utf-8")
    load_onnx_interference(path, lambda: 0.0)
    return path


def _card(
    trained: _Trained,
    pairs: Pairs,
    rows: list[SplitFigures],
    command: str,
    seed: int,
    tables: Sequence[str],
) -> Mapping[str, object]:
    return {
        "name": f"interference-w{trained.model.shape.width:g}-seed{seed}",
        "training_data": "Gavel's pairs on P100 and K80 (MIT) and pairs of our own on an H200, two "
        "jobs on one GPU without MPS; for switch, socket and card one measurement of Philly's "
        "servers; for uplinks none" + "".join(f"; {name}" for name in tables),
        "training_command": command,
        "pair_count": len(pairs),
        "families": sorted({family_of(job) for job in pairs.a}),
        "shape": asdict(trained.model.shape),
        "spread": {
            "known_kinds": asdict(trained.known_spread),
            "unseen_kinds": asdict(trained.unseen_spread),
        },
        "held_out": [asdict(row) for row in rows],
        "not_met": not_met(rows),
        "versions": {
            "python": platform.python_version(),
            "numpy": np.__version__,
            "onnx": onnx.__version__,
        },
    }
