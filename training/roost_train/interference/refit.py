"""Refits an interference model to a site's own reports, and judges it by the last week.

What a site can tell is what neighbours off the GPU cost: the weights of `pressure`, one for each
level and quantity. They are fitted to the reports of before the last week, pulled towards those of
the model in service, and never below 0. A job counts once however often it reports, and the jobs of
one user count as the square root of their number, so that no user decides alone.

    observed = model(case; pressure) + constant of the tier

The constants take up what jobs on several nodes lose to the network; there is none for one node.
They are left out of the file, because they do not tell one node from another. Each model is judged
with constants of its own of the last week, so a wrong network costs neither.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

from roost_engine.domain.tier import Tier
from roost_engine.prediction.interference.interference_model import (
    BESIDE,
    LEVELS,
    OWN,
    SLOWDOWN,
    TIER,
    Cases,
)
from roost_engine.prediction.interference.interference_vector import COLUMN, WIDTH
from roost_formats.models.interference import load_onnx_interference
from roost_formats.models.interference_net import InterferenceNet, net_of
from roost_formats.models.manifest import Manifest, manifest_path
from roost_formats.models.onnx_file import read_onnx
from roost_formats.models.signature import INTERFERENCE
from roost_train.errors import ModelError, TooFewJobs
from roost_train.interference.fit import nonnegative_least_squares
from roost_train.interference.journal import Reports
from roost_train.interference.training import MODEL_FILE

Array = NDArray[np.float64]
Weights = Mapping[str, NDArray[np.float32]]

WEEK_S = 7 * 86_400.0
LEAST_JOBS = 20
_RIDGES = (0.3, 1.0, 3.0)  # in jobs that speak for the old weights
_OFF_GPU = LEVELS[1:]
_QUANTITIES = ("nic", "pcie")
_DRAWS = 2_000
_INTERVAL = 1.645
_CANARY_COUNT = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class RefitFigures:
    """How well the old and the new model predict the last week.

    Attributes:
        old, new: names of the models.
        learned_jobs, judged_jobs: jobs with neighbours before and in the last week.
        old_mae, new_mae: mean absolute error of the speed ratio, each job counts once.
        gain, least_gain: old less new error, paired by job: the mean, and what it exceeds with a
            probability of 95 %.
        old_inside_frac, new_inside_frac: of the judged jobs, inside the 90 % interval.
        pressure: by level and quantity, the new model's weights.
    """

    old: str
    new: str
    learned_jobs: int
    judged_jobs: int
    old_mae: float
    new_mae: float
    gain: float
    least_gain: float
    old_inside_frac: float
    new_inside_frac: float
    pressure: Mapping[str, float]

    @property
    def is_better(self) -> bool:
        """Whether the new model may replace the old one."""
        return self.least_gain > 0


@dataclass(frozen=True, slots=True, eq=False)
class Refit:
    """A model that was refitted, not yet written.

    Attributes:
        figures: of the last week.
        content: of the ONNX file.
        manifest: that belongs to it.
    """

    figures: RefitFigures
    content: bytes
    manifest: Manifest


def refit(old: Path, reports: Reports, command: str) -> Refit:
    """Refit a model to all reports but those of the last week, and judge both by these.

    Args:
        old: the model in service, as roost-train interference writes it.
        reports: of the site.
        command: for the card.

    Raises:
        ModelError: the model is of another form.
        TooFewJobs: before or in the last week are fewer than LEAST_JOBS jobs with neighbours.
        OSError: the model cannot be read.
    """
    last = reports.epoch_s > reports.epoch_s.max(initial=0.0) - WEEK_S
    learned, judged = reports.where(~last), reports.where(last)
    for part, which in ((learned, "before the last week"), (judged, "in the last week")):
        count = len(np.unique(part.job))
        if count < LEAST_JOBS:
            raise TooFewJobs("the journal", count, LEAST_JOBS, f"{which} with speed and neighbours")
    content = old.read_bytes()
    graph = read_onnx(content, INTERFERENCE)
    if net_of(graph) is None:
        raise ModelError(f"{old}: the model is not one of roost-train interference")
    before = dict(graph.weights)
    after = _fitted(before, learned)
    written = _with_weights(content, after)
    digest = hashlib.sha256(written).hexdigest()
    names = (f"onnx:{hashlib.sha256(content).hexdigest()[:12]}", f"onnx:{digest[:12]}")
    figures = _judge(names, before, after, learned, judged)
    was = Manifest.from_json(manifest_path(old).read_text(encoding="utf-8"), INTERFERENCE)
    cases = _canary(was, judged)
    answer = np.stack(InterferenceNet(after).slowdowns(cases), axis=1)
    manifest = replace(
        was,
        sha256=digest,
        size_bytes=len(written),
        canary_inputs={OWN: cases.own, BESIDE: cases.beside, TIER: cases.tier},
        canary_outputs={SLOWDOWN: answer},
        card={**was.card, "refit": {"command": command, **asdict(figures)}},
    )
    return Refit(figures, written, manifest)


def write_refit(found: Refit, folder: Path) -> Path:
    """Write the model's two files, load them, and return the path.

    Raises:
        PolicyError: the daemon would refuse the model.
        OSError: the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / MODEL_FILE
    new = path.with_name(f"new-{MODEL_FILE}")
    new.write_bytes(found.content)
    manifest_path(new).write_text(found.manifest.to_json(), encoding="utf-8")
    load_onnx_interference(new, lambda: 0.0)
    new.replace(path)
    manifest_path(new).replace(manifest_path(path))
    return path


def as_text(figures: RefitFigures) -> str:
    """Return the figures for an operator."""
    lines = [
        f"jobs with neighbours: {figures.learned_jobs:,} before the last week,"
        f" {figures.judged_jobs:,} in it",
        f"error of the speed in the last week: {figures.old} {figures.old_mae:.4f},"
        f" {figures.new} {figures.new_mae:.4f}",
        f"less error by {figures.gain:+.4f} a job, more than {figures.least_gain:+.4f} with 95 %",
        f"inside the 90 % interval: {100 * figures.old_inside_frac:.0f} % and"
        f" {100 * figures.new_inside_frac:.0f} %",
    ]
    lines += [f"cost of {name}: {cost:.3f}" for name, cost in figures.pressure.items()]
    return "\n".join(lines)


def _columns() -> dict[str, int]:
    """Return the fitted weights by name: positions in BESIDE_COLUMNS."""
    return {
        f"{level} {quantity}": LEVELS.index(level) * WIDTH + COLUMN[f"{quantity}_mean"]
        for level in _OFF_GPU
        for quantity in _QUANTITIES
    }


def _fitted(weights: Weights, reports: Reports) -> dict[str, NDArray[np.float32]]:
    """Return new weights; how far they may leave the old ones is chosen by the newest quarter."""
    order = np.argsort(reports.epoch_s, kind="stable")
    is_new = np.zeros(len(reports), dtype=np.bool_)
    is_new[order[3 * len(reports) // 4 :]] = True
    early, late = reports.where(~is_new), reports.where(is_new)
    missed = {
        ridge: _errors(_with_pressure(weights, early, ridge), late)[1].mean() for ridge in _RIDGES
    }
    found = _with_pressure(weights, reports, min(_RIDGES, key=lambda each: missed[each]))
    left, _ = _residuals(found, reports)
    for tier in np.unique(reports.tier).tolist():
        here = _by_job(np.abs(left)[reports.tier == tier], reports.job[reports.tier == tier])
        if len(here) >= LEAST_JOBS:
            floor = found["tier_spread"][tier, 0]
            found["tier_spread"][tier, 0] = max(floor, np.quantile(here, 0.9) / _INTERVAL)
    return found


def _with_pressure(
    weights: Weights, reports: Reports, ridge: float
) -> dict[str, NDArray[np.float32]]:
    """Return the weights with those of pressure fitted; `ridge` jobs speak for the old ones."""
    at = list(_columns().values())
    old = weights["pressure"][at, 0].astype(float)
    duty = np.maximum(reports.cases.own @ weights["duty"], 0.0).astype(float)
    tiers = np.eye(len(Tier))[reports.tier][:, Tier.RACK :]
    columns = np.hstack([duty * reports.cases.beside[:, at], tiers])
    on_gpu = _predicted({**weights, "pressure": 0.0 * weights["pressure"]}, reports.cases)
    weight = np.sqrt(_weight(reports))[:, None]
    pull = np.sqrt(ridge) * 0.1  # of a case as typical sites have: a product of loads of about 0.1
    pulls = np.hstack([pull * np.eye(len(at)), np.zeros((len(at), tiers.shape[1]))])
    left = nonnegative_least_squares(
        np.vstack([weight * columns, pulls]),
        np.concatenate([weight[:, 0] * (reports.slowdown - on_gpu), pull * old]),
        1e-3,
    )
    pressure = weights["pressure"].copy()
    pressure[at, 0] = left[: len(at)]
    return {**weights, "pressure": pressure, "tier_spread": weights["tier_spread"].copy()}


def _weight(reports: Reports) -> Array:
    """Return what each report counts: see the module."""
    _, of, count = np.unique(reports.job, return_inverse=True, return_counts=True)
    jobs_of = {
        user: len(np.unique(reports.job[reports.user == user]))
        for user in np.unique(reports.user).tolist()
    }
    jobs = np.array([jobs_of[user] for user in reports.user.tolist()])
    found: Array = 1.0 / count[of] / np.sqrt(jobs)
    return found


def _predicted(weights: Weights, cases: Cases) -> Array:
    return InterferenceNet(weights).slowdowns(cases).mean.astype(float)


def _residuals(weights: Weights, reports: Reports) -> tuple[Array, Array]:
    """Return observed less predicted log slowdowns, and the predicted ones, with constants."""
    mean, share = _predicted(weights, reports.cases), _weight(reports)
    for tier in (Tier.RACK, Tier.CLUSTER):
        here = reports.tier == tier
        if here.any():
            left = (reports.slowdown - mean)[here]
            mean[here] += max(float(np.average(left, weights=share[here])), 0.0)
    return reports.slowdown - mean, mean


def _errors(weights: Weights, reports: Reports) -> tuple[Array, Array]:
    """Return by job the mean residual, and the mean absolute error of the speed ratio."""
    left, mean = _residuals(weights, reports)
    off = np.abs(np.exp(-mean) - np.exp(-reports.slowdown))
    return _by_job(left, reports.job), _by_job(off, reports.job)


def _by_job(values: Array, jobs: NDArray[np.int64]) -> Array:
    _, of, count = np.unique(jobs, return_inverse=True, return_counts=True)
    found: Array = np.bincount(of, weights=values) / count
    return found


def _judge(
    names: tuple[str, str], before: Weights, after: Weights, learned: Reports, judged: Reports
) -> RefitFigures:
    (old_left, old_off), (new_left, new_off) = (
        _errors(weights, judged) for weights in (before, after)
    )
    gain, rng = old_off - new_off, np.random.default_rng(0)
    draws = gain[rng.integers(0, len(gain), (_DRAWS, len(gain)))].mean(axis=1)
    inside = [
        float((np.abs(left) <= _INTERVAL * _spread(weights, judged)).mean())
        for weights, left in ((before, old_left), (after, new_left))
    ]
    return RefitFigures(
        old=names[0],
        new=names[1],
        learned_jobs=len(np.unique(learned.job)),
        judged_jobs=len(gain),
        old_mae=float(old_off.mean()),
        new_mae=float(new_off.mean()),
        gain=float(gain.mean()),
        least_gain=float(np.quantile(draws, 0.05)),
        old_inside_frac=inside[0],
        new_inside_frac=inside[1],
        pressure={name: float(after["pressure"][at, 0]) for name, at in _columns().items()},
    )


def _spread(weights: Weights, reports: Reports) -> Array:
    spread = InterferenceNet(weights).slowdowns(reports.cases).spread
    return _by_job(spread.astype(float), reports.job)


def _with_weights(content: bytes, weights: Weights) -> bytes:
    """Return a model's file with other numbers in the same graph."""
    model = onnx.load_from_string(content)
    for one in model.graph.initializer:
        one.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(weights[one.name]), one.name))
    onnx.checker.check_model(model, full_check=True)
    found: bytes = model.SerializeToString(deterministic=True)
    return found


def _canary(was: Manifest, judged: Reports) -> Cases:
    """Return the old model's batch with some of the judged cases, which read what was fitted."""
    kept = Cases(*(was.canary_inputs[name] for name in (OWN, BESIDE, TIER)))
    return Cases(
        *(
            np.concatenate([old[:_CANARY_COUNT], new[:_CANARY_COUNT]])
            for old, new in zip(kept, judged.cases, strict=True)
        )
    )
