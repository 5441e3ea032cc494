"""Fits the trace generator on public traces and prints traces/fitted_traces.py.

    python benchmarks/fit_traces.py --data ../shared/data/jobs > FILE

What it takes from a trace: the share of each size, log-normal mixtures of the durations of each
size class (expectation maximisation, started at quantiles, so there is no seed), the rhythm of
day and week, how much days differ, and how many jobs repeat their predecessor within a minute.
"""

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from roost_sim.traces.formats import load_trace
from roost_sim.traces.generator import Component, SizeClass, TraceModel
from roost_sim.traces.trace import Trace

TRACES = {
    "HELIOS": ("helios_venus_2020_mar_jul.csv.gz", "Helios Venus, March to July 2020"),
    "PHILLY": ("philly_2017_sep_oct.csv.gz", "Philly, September and October 2017"),
}
CLASS_BOUNDS = (1, 2, 4, 8, 9, 32)
COMPONENTS = 4
LEAST_JOBS = 20
LEAD_FRAC = 0.005  # the first days of both traces hold only the longest jobs, clipped in
BURST_S = 60.0
DAY_S = 86_400.0
HEADER = '''\
"""What the trace generator draws from: figures fitted on public traces. Printed by a program.

Written by benchmarks/fit_traces.py, which says how; do not edit. Sources of the traces:
Helios: SenseTime, HeliosData (CC-BY-4.0), Hu et al., SC 2021; durations there end at 48 h.
Philly: Microsoft, philly-traces (CC-BY-4.0), Jeon et al., ATC 2019; as cut by adaptdl.
"""

from roost_sim.traces.generator import Component, SizeClass, TraceModel
'''


def fit(trace: Trace, source: str) -> TraceModel:
    """Fit a model on a trace that knows its wall clock."""
    assert trace.epoch_of_zero_s is not None
    settled = trace.where(np.arange(len(trace)) >= int(len(trace) * LEAD_FRAC))
    day, hour = _calendar(settled)
    weekday_weights, day_log_sigma, per_day = _days(day)
    burst_frac, burst_gap_s = _bursts(settled)
    hours = np.bincount(hour, minlength=24) * 24 / len(hour)
    return TraceModel(
        source=source,
        sizes=_sizes(trace.gpu_count),
        classes=tuple(_classes(trace)),
        longest_s=float(trace.duration_s.max()),
        jobs_per_day=_round(per_day),
        day_log_sigma=_round(day_log_sigma),
        hour_weights=tuple(map(_round, hours)),
        weekday_weights=tuple(map(_round, weekday_weights)),
        burst_frac=_round(burst_frac),
        burst_gap_s=_round(burst_gap_s),
    )


def mixture(log_s: NDArray[np.float64], count: int, rounds: int = 200) -> tuple[Component, ...]:
    """Fit log-normals by expectation maximisation; deterministic."""
    edges = np.quantile(log_s, (np.arange(count) + 0.5) / count)
    means, sigmas = edges, np.full(count, max(float(log_s.std()) / count, 0.1))
    weights = np.full(count, 1.0 / count)
    values, times = np.unique(log_s, return_counts=True)
    for _ in range(rounds):
        scaled = (values[:, None] - means) / sigmas
        density = weights * np.exp(-0.5 * scaled**2) / sigmas + 1e-300
        share = density / density.sum(axis=1, keepdims=True) * times[:, None]
        total = share.sum(axis=0) + 1e-9
        means = (share * values[:, None]).sum(axis=0) / total
        sigmas = np.sqrt((share * (values[:, None] - means) ** 2).sum(axis=0) / total)
        sigmas, weights = np.maximum(sigmas, 0.02), total / total.sum()
    order = np.argsort(means)
    return tuple(Component(_round(weights[i]), _round(means[i]), _round(sigmas[i])) for i in order)


def _classes(trace: Trace) -> list[SizeClass]:
    classes = list[SizeClass]()
    for low, high in zip(CLASS_BOUNDS, (*CLASS_BOUNDS[1:], np.inf), strict=True):
        log_s = np.log(trace.duration_s[(trace.gpu_count >= low) & (trace.gpu_count < high)])
        if len(log_s) >= LEAST_JOBS:
            classes.append(SizeClass(low, mixture(log_s, COMPONENTS)))
    return classes


def _sizes(gpu_count: NDArray[np.int32]) -> tuple[tuple[int, float], ...]:
    sizes, counts = np.unique(gpu_count, return_counts=True)
    is_common = counts >= LEAST_JOBS
    shares = counts[is_common] / counts[is_common].sum()
    return tuple(
        (int(size), float(f"{share:.5g}"))
        for size, share in zip(sizes[is_common], shares, strict=True)
    )


def _calendar(trace: Trace) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    assert trace.epoch_of_zero_s is not None
    at_s = trace.submit_s + trace.epoch_of_zero_s
    return (at_s // DAY_S).astype(np.int64), (at_s % DAY_S // 3600).astype(np.int64)


def _days(day: NDArray[np.int64]) -> tuple[NDArray[np.float64], float, float]:
    first, last = day.min() + 1, day.max() - 1  # whole days only
    counts = np.array([np.sum(day == number) for number in range(first, last + 1)])
    weekday = (np.arange(first, last + 1) + 3) % 7  # 1 January 1970 was a Thursday
    mean_of = np.array([counts[weekday == number].mean() for number in range(7)])
    expected = mean_of[weekday]
    spread = np.log(np.maximum(counts, 1) / np.maximum(expected, 1))
    return mean_of / mean_of.mean(), float(np.std(spread)), float(counts.mean())


def _bursts(trace: Trace) -> tuple[float, float]:
    """Jobs that repeat the size before them within a minute, beyond what chance would give."""
    gaps_s, same = np.diff(trace.submit_s), np.diff(trace.gpu_count) == 0
    _, counts = np.unique(trace.gpu_count, return_counts=True)
    by_chance = float(np.sum((counts / len(trace)) ** 2))
    near = gaps_s < BURST_S
    excess = (np.mean(same[near]) - by_chance) / (1 - by_chance) * np.mean(near)
    return float(max(excess, 0.0)), float(np.mean(gaps_s[near & same]))


def _round(value: float) -> float:
    return float(f"{value:.4g}")


def _text(name: str, model: TraceModel) -> str:
    lines = [f"{name} = TraceModel(", f'    source="{model.source}",', "    sizes=("]
    lines += [f"        ({size}, {share})," for size, share in model.sizes]
    lines += ["    ),", "    classes=("]
    for size_class in model.classes:
        lines += ["        SizeClass(", f"            {size_class.from_gpus},", "            ("]
        lines += [
            f"                Component({part.weight}, {part.log_mean}, {part.log_sigma}),"
            for part in size_class.durations
        ]
        lines += ["            ),", "        ),"]
    lines.append("    ),")
    for field in ("longest_s", "jobs_per_day", "day_log_sigma"):
        lines.append(f"    {field}={getattr(model, field)},")
    for field in ("hour_weights", "weekday_weights"):
        lines += [f"    {field}=(", *(f"        {v}," for v in getattr(model, field)), "    ),"]
    for field in ("burst_frac", "burst_gap_s"):
        lines.append(f"    {field}={getattr(model, field)},")
    return "\n".join([*lines, ")"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of the traces")
    data: Path = parser.parse_args().data
    print(HEADER)
    for name, (file, source) in TRACES.items():
        print(_text(name, fit(load_trace(data / file, strict=True).trace, source)))
    print('\nMODELS = {"helios": HELIOS, "philly": PHILLY}')


if __name__ == "__main__":
    main()
