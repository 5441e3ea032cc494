"""The content of the report as one JSON document; the page only draws it.

Times are seconds, fractions 0 to 1. The page: page.html with its style and scripts.
"""

import platform
from collections.abc import Sequence
from importlib.metadata import version

import numpy as np

from roost_sim.catalogue.compositions import find_policy
from roost_sim.figures.metrics import TIER_NAMES
from roost_sim.sweeps.comparison import Comparison, Summary
from roost_sim.sweeps.run_curves import HEAT_DIGITS, QUANTILES
from roost_sim.sweeps.sweep import Done, Sweep
from roost_sim.sweeps.sweep_runner import Collected
from roost_sim.worlds.world_spec import WorldSpec

_DIGITS = 5  # significant ones of what is drawn: a pixel of a wide screen is 1 in 4,000


def report_document(
    comparison: Comparison, sweep: Sweep, collected: Collected, command: str
) -> dict[str, object]:
    """Return the content of the page.

    Args:
        comparison: with at least one run.
        sweep: the sweep of the comparison.
        collected: for failed cases and an interruption.
        command: the command line that made it.
    """
    loads = list(dict.fromkeys(run.case.load for run in comparison.runs))
    by_name = {summary.policy: summary for summary in comparison.summaries}
    return {
        "policies": [_policy(summary) for summary in by_name.values()],
        "baseline": comparison.summaries[0].baseline,
        "seeds": sorted({run.case.seed for run in comparison.runs}),
        "runs": len(comparison.runs),
        "loads": [_panel(load, comparison) for load in loads],
        "tier_names": TIER_NAMES,
        "heat_digits": HEAT_DIGITS,
        "setting": _setting(sweep),
        "failed": [f"{failed.case}: {failed.reason}" for failed in collected.failed],
        "is_interrupted": collected.is_interrupted,
        "command": command,
        "versions": {
            "roost": version("roost"),
            "Python": platform.python_version(),
            "NumPy": version("numpy"),
            "machine": f"{platform.system()} {platform.machine()}",
        },
    }


def _policy(summary: Summary) -> dict[str, object]:
    source = find_policy(summary.policy).source
    return {"name": summary.policy, "regime": summary.regime, "source": source}


def _setting(sweep: Sweep) -> dict[str, object]:
    run = sweep.template
    trace, cluster = run.trace, run.cluster
    return {
        "trace": trace.source.rsplit("/", 1)[-1],
        "trace_jobs": len(trace),
        "trace_span_s": trace.span_s,
        "window_jobs": sweep.window_jobs,
        "sample_jobs": sweep.sample_jobs,
        "cluster": cluster.name,
        "cluster_source": cluster.source,
        "nodes": len(cluster.nodes),
        "gpus": cluster.gpu_count,
        "racks": len({(node.pod, node.rack) for node in cluster.nodes}),
        "world": _world(run.world),
        "warm_up_frac": run.span.warm_up_frac,
        "cool_down_frac": run.span.cool_down_frac,
    }


def _world(world: WorldSpec) -> str:
    fidelity = world.fidelity
    parts = [
        f"speed {world.speed.value}",
        "links shared" if fidelity.is_contended else "links not shared",
        "neighbours slow each other" if fidelity.has_neighbours else "no neighbours",
        "links inside nodes count" if fidelity.has_links else "no links inside nodes",
        f"restart cost {fidelity.restart.value}",
        f"durations told to oracles: {fidelity.durations.value}",
    ]
    if world.compute_scale != 1:
        parts.append(f"compute × {world.compute_scale:g}")
    if world.congestion != 1:
        parts.append(f"congestion × {world.congestion:g}")
    if world.exclude_families:
        parts.append(f"without {', '.join(world.exclude_families)}")
    return "; ".join(parts)


def _panel(load: float | None, comparison: Comparison) -> dict[str, object]:
    """One load: the table, and the curves of every policy."""
    lines = []
    for summary in comparison.summaries:
        if summary.load != load:
            continue
        runs = [
            run
            for run in comparison.runs
            if (run.case.policy, run.case.load) == (summary.policy, load)
        ]
        lines.append({**_row(summary), **_curves(runs)})
    return {"load": load, "policies": lines}


def _row(summary: Summary) -> dict[str, object]:
    return {
        "policy": summary.policy,
        "seeds": list(summary.seeds),
        "metrics": {
            name: None
            if estimate is None
            else [
                _short(estimate.mean),
                estimate.ci95 and [_short(estimate.ci95.low), _short(estimate.ci95.high)],
                [_short(estimate.least), _short(estimate.most)],
            ]
            for name, estimate in summary.metrics.items()
        },
        "not_comparable": summary.not_comparable,
        "ratio": (ratio := summary.ratios.get("avg_jct_s"))
        and [
            _short(ratio.mean),
            ratio.ci95 and [_short(ratio.ci95.low), _short(ratio.ci95.high)],
            [_short(ratio.least), _short(ratio.most)],
        ],
    }


def _curves(runs: Sequence[Done]) -> dict[str, object]:
    """Job times and placements of all seeds together; curves over time of the first seed."""
    first = runs[0].curves
    left_out: dict[str, int] = {}
    for run in runs:
        for reason, count in run.curves.left_out:
            left_out[reason] = left_out.get(reason, 0) + count
    return {
        "jct_s": _pooled_quantiles(runs),
        "shown_seed": runs[0].case.seed,
        "end_s": _short(first.end_s),
        "queue": [_short(value) for value in first.queue],
        "heat": first.heat,
        "heat_names": first.heat_names,
        "tiers": [
            sum(counts) for counts in zip(*(run.curves.tier_counts for run in runs), strict=True)
        ],
        "left_out": list(left_out.items()),
    }


def _pooled_quantiles(runs: Sequence[Done]) -> list[float]:
    """Quantiles of all seeds together; every seed has the same weight."""
    values = np.sort(np.concatenate([run.curves.jct_s for run in runs]))
    count = min(QUANTILES, len(values))
    if not count:
        return []
    at = ((np.arange(count) + 0.5) / count * len(values)).astype(int)
    return [_short(value) for value in values[at].tolist()]


def _short(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")
