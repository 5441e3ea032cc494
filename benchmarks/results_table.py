"""Writes the tables of docs/results from what `roost-sim compare --json` printed.

    python benchmarks/results_table.py compared.json [more.json ...] > table.md

One table a load, policies by their average job completion time; where several files have the
same policy, the file with most seeds counts. With `--by-load` one table of the job times over those
of the first policy, a column a load, policies by the last of them. With `--ratios-to POLICY` one
table of hours and of ratios to a policy of the same seeds; ± is the half-width of a 95 % interval
by Student's t over seeds.
"""

import argparse
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from roost_sim.sweeps.intervals import mean_of

Summary: TypeAlias = Mapping[str, Any]

HEAD = (
    "| policy | knows | seeds | average JCT, h | ÷ first | × bound | p95, h | p99, h | queue, h "
    "| makespan, h | occupancy | comm. share | stops |"
)


def summaries_of(paths: Iterable[Path]) -> list[Summary]:
    """Return the summary of each policy and load, from the file with most seeds."""
    best: dict[tuple[float | None, str], Summary] = {}
    for path in paths:
        for found in json.loads(path.read_text(encoding="utf-8")):
            if not found.get("summary"):
                continue
            key = found["load"], found["policy"]
            if key not in best or len(found["seeds"]) > len(best[key]["seeds"]):
                best[key] = found
    return list(best.values())


def row(found: Summary) -> str:
    """One line of a table."""
    metrics = found["metrics"]

    def mean(name: str, per: float = 1.0, digits: int = 2) -> str:
        metric = metrics.get(name)
        return (
            "-"
            if metric is None or metric["mean"] is None
            else f"{metric['mean'] / per:.{digits}f}"
        )

    jct = metrics["avg_jct_s"]
    half = "" if jct["ci95"] is None else f" ± {(jct['ci95'][1] - jct['ci95'][0]) / 7200:.2f}"
    ratio = jct.get("ratio")
    shown = "-" if ratio is None else f"{ratio['mean']:.2f}"
    if ratio is not None and ratio["ci95"] is not None and ratio["ci95"][0] != ratio["ci95"][1]:
        shown += " ({:.2f} to {:.2f})".format(*ratio["ci95"])
    cells = (
        f"`{found['policy']}`",
        found["regime"],
        str(len(found["seeds"])),
        f"{mean('avg_jct_s', 3600)}{half}",
        shown,
        mean("times_bound"),
        *(mean(name, 3600) for name in ("p95_jct_s", "p99_jct_s", "avg_queue_s", "makespan_s")),
        *(mean(name) for name in ("occupancy", "comm_share")),
        mean("preemptions", digits=0),
    )
    return f"| {' | '.join(cells)} |"


def by_load(found: Iterable[Summary]) -> str:
    """One table for all loads: job times over those of the first policy of the comparison."""
    cells: dict[str, dict[float, str]] = {}
    ratios: dict[tuple[str, float], float] = {}
    seeds: dict[str, tuple[str, int]] = {}
    for each in found:
        policy, load = each["policy"], each["load"] or 0.0
        jct = each["metrics"]["avg_jct_s"]
        if each.get("not_comparable"):  # it completed other jobs
            cells.setdefault(policy, {})[load] = "-"
            seeds[policy] = each["regime"], len(each["seeds"])
            continue
        ratio = jct.get("ratio") or {"mean": 1.0, "ci95": None}
        cell = f"{ratio['mean']:.2f}"
        if ratio["ci95"] is not None and ratio["ci95"][0] != ratio["ci95"][1]:
            cell += " ({:.2f} to {:.2f})".format(*ratio["ci95"])
        cells.setdefault(policy, {})[load] = cell
        ratios[policy, load] = ratio["mean"]
        seeds[policy] = each["regime"], len(each["seeds"])
    loads = sorted({load for row_cells in cells.values() for load in row_cells})
    head = ["policy", "knows", "seeds", *(f"load {load:g}" for load in loads)]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for policy in sorted(cells, key=lambda name: ratios.get((name, loads[-1]), float("inf"))):
        regime, count = seeds[policy]
        shown = [cells[policy].get(load, "-") for load in loads]
        lines.append(f"| {' | '.join([f'`{policy}`', regime, str(count), *shown])} |")
    return "\n".join(lines)


def ratios_to(baseline: str, paths: Iterable[Path]) -> str:
    """One table for all loads: hours, ratios to a policy of the same seeds, stops, communication.

    Policies are in the order of their hours at the lowest load that they were run at.
    """
    runs: dict[tuple[float, str], dict[int, Summary]] = {}
    for path in paths:
        for found in json.loads(path.read_text(encoding="utf-8")):
            if not found.get("summary"):
                key = found["load"] or 0.0, found["policy"]
                runs.setdefault(key, {})[found["seed"]] = found
    loads = sorted({load for load, _ in runs})
    columns = ("hours", f"÷ `{baseline}`", "p99 ÷", "stops", "comm. share")
    head = ["policy", "seeds", *(f"{load:g}: {' | '.join(columns)}" for load in loads)]
    lines = [f"| {' | '.join(head)} |", "|---" * (2 + len(columns) * len(loads)) + "|"]
    by_hours = sorted(runs, key=lambda key: (key[0], runs_mean(runs[key], "avg_jct_s")))
    for policy in dict.fromkeys(policy for _, policy in by_hours):
        counts = [len(runs[load, policy]) for load in loads if (load, policy) in runs]
        fewest, most = min(counts), max(counts)
        cells = [f"`{policy}`", f"{most}" if fewest == most else f"{fewest} to {most}"]
        for load in loads:
            mine = runs.get((load, policy))
            other = runs.get((load, baseline), {})
            cells += ["-"] * len(columns) if mine is None else ratio_cells(mine, other)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def ratio_cells(mine: Mapping[int, Summary], other: Mapping[int, Summary]) -> list[str]:
    """The cells of a policy's runs at one load, by seed, beside another policy's."""
    both = sorted(mine.keys() & other.keys())
    if any(mine[seed].get("completed") != other[seed].get("completed") for seed in both):
        both = []  # a ratio of means of different jobs says nothing
    return [
        mean_and_half([mine[seed]["avg_jct_s"] / 3600 for seed in sorted(mine)]),
        *(
            mean_and_half([mine[seed][name] / other[seed][name] for seed in both])
            for name in ("avg_jct_s", "p99_jct_s")
        ),
        f"{runs_mean(mine, 'preemptions'):.0f}",
        f"{runs_mean(mine, 'comm_share'):.3f}",
    ]


def runs_mean(runs: Mapping[int, Summary], name: str) -> float:
    """The mean of a figure over seeds."""
    return float(sum(run[name] for run in runs.values()) / len(runs))


def mean_and_half(values: list[float]) -> str:
    """A mean and the half-width of its interval; a dash without values."""
    found = mean_of(values)
    if found is None:
        return "-"
    if found.ci95 is None:
        return f"{found.mean:.2f}"
    return f"{found.mean:.2f} ± {(found.ci95.high - found.ci95.low) / 2:.2f}"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE")
    parser.add_argument("--by-load", action="store_true", help="one table, a column a load")
    parser.add_argument(
        "--ratios-to", metavar="POLICY", help="one table, with ratios to this policy"
    )
    options = parser.parse_args()
    if options.ratios_to:
        print(ratios_to(options.ratios_to, options.files))
        return
    found = summaries_of(options.files)
    if options.by_load:
        print(by_load(found))
        return
    for load in sorted({summary["load"] for summary in found}, key=lambda load: load or 0.0):
        print(f"### Load {load:g}\n" if load is not None else "### Load as in the trace\n")
        print(f"{HEAD}\n{'|---' * HEAD.count(' | ')}|---|")
        here = (summary for summary in found if summary["load"] == load)
        for summary in sorted(here, key=lambda each: each["metrics"]["avg_jct_s"]["mean"]):
            print(row(summary))
        print()


if __name__ == "__main__":
    main()
