"""Fits how generated users repeat their jobs, and prints traces/fitted_histories.py.

    python benchmarks/fit_histories.py TRACE [--rounds 200] > FILE

TRACE is Helios' table of June 2020, the only part of it with users. Counted from it are the ends
by run time, and the gaps at which users stop to wait for a job. The other numbers are searched: a
round changes a few of them by chance (with a seed) and keeps the change if generated jobs resemble
the trace more, by the figures of `figures`. Sizes and run times are those of fitted_traces.py.
"""

import argparse
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import NormalDist

import _harness
import numpy as np
from numpy.typing import NDArray

from roost_sim.traces.fitted_traces import HELIOS
from roost_sim.traces.formats import load_trace
from roost_sim.traces.histories import HistoryModel, LogNormal, generate_history
from roost_sim.traces.repetition import prediction_errors
from roost_sim.traces.trace import Status, Trace

SOURCE = "Helios Venus, June 2020"
SEEDS = range(5)
BREAK_S = 3_600.0
LAGS = (1, 2, 5, 20, 50)
QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)
ENDS = (Status.COMPLETED, Status.FAILED, Status.CANCELLED)
HEADER = '''\
"""How generated users repeat their jobs: figures fitted on a public trace. Printed by a program.

Written by benchmarks/fit_histories.py, which says how; do not edit. Source of the trace:
Helios: SenseTime, HeliosData (CC-BY-4.0), Hu et al., SC 2021; the users of June 2020. It has no job
names: what a user submits again under one name is inferred from GPUs and run times.
"""

from roost_sim.traces.histories import HistoryModel, LogNormal
'''
# What a gap between generated jobs and the trace is measured in: small for what predictors use.
UNITS = {"error": 0.04, "correlation": 0.04, "share": 0.03, "top": 0.05, "log": 0.15, "ratio": 0.25}

Knobs = dict[str, float]
START: Knobs = {  # from an earlier search
    "new_user_frac": 0.0173,
    "user_memory": 1_700.0,
    "session_log_mean": 1.16,
    "session_log_sigma": 1.13,
    "switch_frac": 0.244,
    "switch_between_frac": 0.942,
    "new_kind_frac": 0.13,
    "gap_log_mean": 3.66,
    "gap_log_sigma": 3.41,
    "user_share": 0.248,
    "kind_share": 0.0911,
    "repeat_frac": 0.655,
    "repeat_depth": 2.29,
    "repeat_log_mean": -4.72,
    "repeat_log_sigma": 1.1,
}
MOST = {
    "switch_frac": 0.9,
    "switch_between_frac": 0.95,
    "new_kind_frac": 0.9,
    "user_share": 0.6,
    "kind_share": 0.35,
    "repeat_frac": 0.98,
}


def figures(trace: Trace) -> dict[tuple[str, str], float]:
    """Return figures of repetition, by their unit and name."""
    found = {("error", name): value for name, value in prediction_errors(trace).items()}
    log_s = np.log(trace.duration_s)
    by_user = _positions(trace.user_id.tolist())
    by_both = _positions(list(zip(trace.user_id.tolist(), trace.gpu_count.tolist(), strict=True)))
    level = _normal_scores(log_s)
    for lag in LAGS:
        first, second = _pairs(by_both, lag)
        found["correlation", f"lag {lag}"] = float(np.corrcoef(level[first], level[second])[0, 1])
        if lag == 1:
            apart = np.quantile(np.abs(log_s[first] - log_s[second]), QUANTILES)
            for quantile, value in zip(QUANTILES, apart, strict=True):
                found["ratio", f"difference {quantile}"] = math.log(value + 0.02)
    first, second = _pairs(by_user, 1)
    found["correlation", "user"] = float(np.corrcoef(level[first], level[second])[0, 1])
    gaps_s = trace.submit_s[second] - trace.submit_s[first]
    same = trace.gpu_count[first] == trace.gpu_count[second]
    found["share", "same GPUs"] = float(same[gaps_s < BREAK_S].mean())
    found["share", "same GPUs after a break"] = float(same[gaps_s >= BREAK_S].mean())
    found["share", "ended"] = float(np.mean(gaps_s >= trace.duration_s[first]))
    for quantile, value in zip(QUANTILES, np.quantile(gaps_s, QUANTILES), strict=True):
        found["ratio", f"gap {quantile}"] = math.log(value + 5.0)
    found["log", "sessions"] = math.log(len(by_user) + int((gaps_s > BREAK_S).sum()))
    found["log", "users"] = math.log(len(by_user))
    found["log", "users and GPUs"] = math.log(len(by_both))
    of_user = np.sort([len(jobs) for jobs in by_user])[::-1]
    found["log", "median user"] = math.log(float(np.median(of_user)))
    for count in (1, 5, 20):
        found["top", f"{count} users"] = float(of_user[:count].sum() / len(trace))
    of_both = np.sort([len(jobs) for jobs in by_both])[::-1]
    found["top", "10 users and GPUs"] = float(of_both[:10].sum() / len(trace))
    return found


def model_of(knobs: Knobs, fixed: HistoryModel) -> HistoryModel:
    """Return the model that some numbers make."""
    return replace(
        fixed,
        new_user_frac=knobs["new_user_frac"],
        user_memory=round(knobs["user_memory"]),
        session_jobs=LogNormal(knobs["session_log_mean"], knobs["session_log_sigma"]),
        switch_frac=knobs["switch_frac"],
        switch_between_frac=knobs["switch_between_frac"],
        new_kind_frac=knobs["new_kind_frac"],
        gap_s=LogNormal(knobs["gap_log_mean"], knobs["gap_log_sigma"]),
        user_share=knobs["user_share"],
        kind_share=knobs["kind_share"],
        repeat_frac=knobs["repeat_frac"],
        repeat_depth=max(knobs["repeat_depth"], 1.01),
        repeat_sigma=LogNormal(knobs["repeat_log_mean"], knobs["repeat_log_sigma"]),
    )


def search(
    trace: Trace, start: HistoryModel, rounds: int, rng: np.random.Generator
) -> HistoryModel:
    """Return the model whose jobs resemble the trace most, of `rounds` tried."""
    wanted = figures(trace)
    best, best_gap = START, _gap(wanted, model_of(START, start), len(trace))
    for _ in range(rounds):
        tried = dict(best)
        for name in rng.choice(list(tried), size=rng.integers(1, 4), replace=False).tolist():
            is_log = name.endswith("log_mean")
            tried[name] += 0.3 * rng.normal() if is_log else tried[name] * 0.2 * rng.normal()
            tried[name] = min(tried[name], MOST.get(name, math.inf))
            if not is_log:
                tried[name] = max(tried[name], 0.01)
        gap = _gap(wanted, model_of(tried, start), len(trace))
        if gap < best_gap:
            best, best_gap = tried, gap
    return model_of({name: _round(value) for name, value in best.items()}, start)


def _gap(wanted: Mapping[tuple[str, str], float], model: HistoryModel, count: int) -> float:
    """Return how far the mean figures of generated traces are from those wanted."""
    made = [generate_history(HELIOS, model, count, seed) for seed in SEEDS]
    found = [figures(trace) for trace in made]
    total = 0.0
    for key, value in wanted.items():
        mean = float(np.mean([each[key] for each in found]))
        total += ((mean - value) / UNITS[key[0]]) ** 2
    days = float(np.mean([trace.span_s for trace in made])) / 86_400
    total += (math.log(days * HELIOS.jobs_per_day / count) / UNITS["log"]) ** 2
    return total


def counted(trace: Trace) -> HistoryModel:
    """Return a model with what is counted in the trace; the rest of its numbers are searched."""
    tenth = (
        np.argsort(np.argsort(trace.duration_s, kind="stable"), kind="stable") * 10 // len(trace)
    )
    ends = []
    for number in range(10):
        shares = [_round(float(np.mean(trace.status[tenth == number] == end))) for end in ENDS]
        ends.append((shares[0], shares[1], shares[2]))
    return model_of(
        START,
        HistoryModel(
            source=SOURCE,
            new_user_frac=0.0,
            user_memory=1,
            session_jobs=LogNormal(0.0, 1.0),
            switch_frac=0.0,
            switch_between_frac=0.0,
            new_kind_frac=0.0,
            known_name_frac=0.3,  # the trace cannot tell: it has no names
            patience_s=_patience(trace),
            gap_s=LogNormal(0.0, 1.0),
            user_share=0.0,
            kind_share=0.0,
            repeat_frac=0.0,
            repeat_depth=1.0,
            repeat_sigma=LogNormal(0.0, 1.0),
            ends=tuple(ends),
        ),
    )


def _patience(trace: Trace) -> LogNormal:
    """Fit up to which run time users wait: a log-normal through two shares of patient ones."""
    first, second = _pairs(_positions(trace.user_id.tolist()), 1)
    gaps_s, ran_s = trace.submit_s[second] - trace.submit_s[first], trace.duration_s[first]
    points = []
    for low_s, high_s in ((60.0, 1_000.0), (1_000.0, 3_600.0)):
        inside = (gaps_s < BREAK_S) & (ran_s >= low_s) & (ran_s < high_s)
        waits = float(np.mean(gaps_s[inside] >= ran_s[inside]))
        points.append((float(np.log(ran_s[inside]).mean()), NormalDist().inv_cdf(1.0 - waits)))
    (log_a, score_a), (log_b, score_b) = points
    sigma = (log_b - log_a) / (score_b - score_a)
    return LogNormal(_round(log_a - sigma * score_a), _round(sigma))


def _positions(keys: Sequence[object]) -> list[NDArray[np.int64]]:
    found = defaultdict[object, list[int]](list)
    for position, key in enumerate(keys):
        found[key].append(position)
    return [np.array(positions) for positions in found.values()]


def _pairs(
    groups: Sequence[NDArray[np.int64]], lag: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    long = [group for group in groups if len(group) > lag]
    return np.concatenate([g[:-lag] for g in long]), np.concatenate([g[lag:] for g in long])


def _normal_scores(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the quantile of each value as one of a standard normal; equal values as they come."""
    rank = np.argsort(np.argsort(values, kind="stable"), kind="stable")
    scores = np.array([NormalDist().inv_cdf((n + 0.5) / len(values)) for n in range(len(values))])
    return scores[rank]


def _round(value: float) -> float:
    return float(f"{value:.3g}")


def _text(name: str, model: HistoryModel) -> str:
    lines = [f"{name} = HistoryModel(", f'    source="{model.source}",']
    for field in model.__slots__:
        value = getattr(model, field)
        if field == "ends":
            lines += ["    ends=(", *(f"        {row}," for row in value), "    ),"]
        elif isinstance(value, LogNormal):
            lines.append(f"    {field}=LogNormal({value.log_mean}, {value.log_sigma}),")
        elif field != "source":
            lines.append(f"    {field}={value},")
    return "\n".join([*lines, ")"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace", type=Path, help="with users")
    parser.add_argument("--rounds", type=_harness.whole_or_0, default=200, help="of the search")
    arguments = parser.parse_args()
    trace = load_trace(arguments.trace).trace
    fitted = search(trace, counted(trace), arguments.rounds, np.random.default_rng(0))
    print(HEADER)
    print(_text("HELIOS_USERS", fitted))
    print('\nHISTORIES = {"helios": HELIOS_USERS}')


if __name__ == "__main__":
    main()
