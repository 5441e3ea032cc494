"""The comparison of a sweep: by policy and load, means over seeds and ratios to one policy.

Everything is paired: where two policies are compared, only seeds that both finished count.
Policies that completed different jobs have no ratio: one that leaves out large jobs has easier jobs
in its mean. The jobs that both completed would be no fair comparison either, because the cluster of
that policy is less loaded.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from roost_sim.runs.run_document import Figure
from roost_sim.sweeps.intervals import SeedMean, mean_of, ratio_of
from roost_sim.sweeps.run_curves import Curves
from roost_sim.sweeps.sweep import Done

TIMES_BOUND = "times_bound"
_NO_METRIC = frozenset({"policy", "seed", "load", "jobs", "regime", "wall_s"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """One policy at one load.

    Attributes:
        regime: what it knew about run times.
        mechanism: how its waiting jobs were kept in Slurm.
        seeds: the seeds that it finished.
        metrics: by key of the run's JSON object, and TIMES_BOUND: avg_jct_s over its bound. None:
            no seed has the figure, or a run of an older file lacks it.
        ratios: of each metric to that of the baseline. None: the baseline has none, or it is 0, or
            the policies are not comparable.
        not_comparable: which jobs it completed, where they are others than the baseline's.
    """

    policy: str
    load: float | None
    regime: str
    mechanism: str
    seeds: tuple[int, ...]
    baseline: str
    metrics: Mapping[str, SeedMean | None]
    ratios: Mapping[str, SeedMean | None]
    not_comparable: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A sweep, finished or not.

    Attributes:
        runs: by load, then policy in the given order, then seed.
        summaries: by load, then policy; only policies that finished a seed.
    """

    runs: tuple[Done, ...]
    summaries: tuple[Summary, ...]

    @classmethod
    def of(
        cls,
        done: Sequence[Done],
        policies: Sequence[str],
        loads: Sequence[float | None],
        baseline: str,
    ) -> "Comparison":
        """Sort finished runs and summarise them; runs of other policies or loads are left out.

        Args:
            done: finished runs in any order.
            policies: in the order of the result.
            loads: in the order of the result.
            baseline: the policy in the denominator of ratios.
        """
        runs = sorted(
            (run for run in done if run.case.policy in policies and run.case.load in loads),
            key=lambda run: (
                loads.index(run.case.load),
                policies.index(run.case.policy),
                run.case.seed,
            ),
        )
        found: dict[tuple[float | None, str], dict[int, Done]] = {}
        for run in runs:
            found.setdefault((run.case.load, run.case.policy), {})[run.case.seed] = run
        summaries = tuple(
            _summary(by_seed, found.get((load, baseline), {}), baseline)
            for (load, _), by_seed in found.items()
        )
        return cls(runs=tuple(runs), summaries=summaries)

    def documents(self) -> list[Mapping[str, object]]:
        """Return the list that `compare --json` prints. Page: docs/simulator/compare.md."""
        return [
            *(run.document for run in self.runs),
            *(_summary_document(summary) for summary in self.summaries),
        ]


def _summary(runs: Mapping[int, Done], baseline_runs: Mapping[int, Done], baseline: str) -> Summary:
    own = {seed: _figures(run.document) for seed, run in sorted(runs.items())}
    other = {seed: _figures(run.document) for seed, run in baseline_runs.items()}
    names = list(dict.fromkeys(name for figures in own.values() for name in figures))
    run = next(iter(runs.values()))
    not_comparable = _not_comparable(runs, baseline_runs, baseline)
    return Summary(
        policy=run.case.policy,
        load=run.case.load,
        regime=str(run.document["regime"]),
        mechanism=str(run.document["mechanism"]),
        seeds=tuple(own),
        baseline=baseline,
        metrics={name: _mean(name, own) for name in names},
        ratios={name: None if not_comparable else _ratio(name, own, other) for name in names},
        not_comparable=not_comparable,
    )


def _not_comparable(
    runs: Mapping[int, Done], baseline_runs: Mapping[int, Done], baseline: str
) -> str | None:
    """Return in words that a policy completed other jobs than the baseline; None: the same ones."""
    both = sorted(runs.keys() & baseline_runs.keys())
    seeds = [seed for seed in both if not _is_same(runs[seed].curves, baseline_runs[seed].curves)]
    if not seeds:
        return None
    own, other = (_left_out(found[seeds[0]].curves) for found in (runs, baseline_runs))
    where = f"in seed {seeds[0]}" + (f" and {len(seeds) - 1} more" if len(seeds) > 1 else "")
    return f"other jobs than under {baseline}: {own} left out, there {other} ({where})"


def _is_same(one: Curves, other: Curves) -> bool:
    if one.left_out_digest is None or other.left_out_digest is None:
        return one.left_out == other.left_out
    return one.left_out_digest == other.left_out_digest


def _left_out(curves: Curves) -> int:
    return sum(count for _, count in curves.left_out)


def _figures(document: Mapping[str, Figure]) -> dict[str, float | None]:
    figures = {
        name: value
        for name, value in document.items()
        if name not in _NO_METRIC and not isinstance(value, str)
    }
    reached_s, bound_s = figures.get("avg_jct_s"), figures.get("bound_avg_jct_s")
    return figures | {TIMES_BOUND: reached_s / bound_s if reached_s and bound_s else None}


_BySeed = Mapping[int, Mapping[str, float | None]]


def _mean(name: str, own: _BySeed) -> SeedMean | None:
    if any(name not in figures for figures in own.values()):
        return None  # a run of an older results file: the mean would be that of the other seeds
    values = [figures[name] for figures in own.values()]
    return mean_of([value for value in values if value is not None])


def _ratio(name: str, own: _BySeed, other: _BySeed) -> SeedMean | None:
    pairs = [
        (value, base)
        for seed, figures in own.items()
        if (value := figures.get(name)) is not None
        and (base := other.get(seed, {}).get(name)) is not None
    ]
    return ratio_of([value for value, _ in pairs], [base for _, base in pairs])


def _summary_document(summary: Summary) -> dict[str, object]:
    metrics: dict[str, object] = {}
    for name, estimate in summary.metrics.items():
        metrics[name] = estimate and {
            **_mean_document(estimate),
            "ratio": (ratio := summary.ratios[name]) and _mean_document(ratio),
        }
    return {
        "policy": summary.policy,
        "load": summary.load,
        "summary": True,
        "regime": summary.regime,
        "mechanism": summary.mechanism,
        "seeds": list(summary.seeds),
        "baseline": summary.baseline,
        "not_comparable": summary.not_comparable,
        "metrics": metrics,
    }


def _mean_document(estimate: SeedMean) -> dict[str, object]:
    interval = estimate.ci95
    return {
        "mean": estimate.mean,
        "ci95": interval and [interval.low, interval.high],
        "min": estimate.least,
        "max": estimate.most,
    }
