"""Writes the table of docs/results/pins.md from what `roost-sim compare --json` printed.

    python benchmarks/mechanism_table.py helios-lease-0.json helios-standing-60.json ... > table.md

Each file is one trace under one mechanism, and says so by its name: TRACE-MECHANISM-SECONDS, the
seconds being those of `--pin-after-s`. Ratios are to leases, paired over seeds, with the 95 %
bootstrap interval. One table for each trace and load.
"""

import argparse
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from roost_sim.sweeps.intervals import SeedMean, mean_of, ratio_of

HEAD = (
    "| policy | mechanism | average JCT, h | ÷ leases | p99 wait of ≥ 8 GPUs, h | ÷ leases "
    "| idle, wanted | ÷ leases | pins per job | standing |"
)
LEASE = "lease"


@dataclass(frozen=True, slots=True, order=True)
class Cell:
    """The runs of one policy in one table.

    Attributes:
        pin_after_s: -1 where no job is pinned.
    """

    trace: str
    load: float
    policy: str
    mechanism: str
    pin_after_s: float


Runs = Mapping[Cell, Mapping[int, Mapping[str, float]]]


def read_runs(paths: Iterable[Path]) -> Runs:
    """Return the figures of every run, by cell and seed."""
    found: dict[Cell, dict[int, Mapping[str, float]]] = {}
    for path in paths:
        trace, _, after = path.stem.rpartition("-")
        trace = trace.removesuffix("-one-pin").removesuffix("-standing").removesuffix("-lease")
        for run in json.loads(path.read_text(encoding="utf-8")):
            if not run.get("summary"):
                mechanism = run["mechanism"]
                after_s = -1.0 if mechanism == LEASE else float(after)
                cell = Cell(trace, run["load"], run["policy"], mechanism, after_s)
                found.setdefault(cell, {})[run["seed"]] = run
    return found


def row(runs: Runs, cell: Cell) -> str:
    """One line of a table."""
    own = runs[cell]
    base = runs.get(Cell(cell.trace, cell.load, cell.policy, LEASE, -1.0), {})
    seeds = sorted(own.keys() & base.keys())

    def mean(name: str) -> SeedMean:
        found = mean_of([own[seed][name] for seed in sorted(own)])
        assert found is not None
        return found

    def ratio(name: str) -> str:
        if cell.mechanism == LEASE:
            return "1"
        found = ratio_of([own[s][name] for s in seeds], [base[s][name] for s in seeds])
        return "-" if found is None else _with_interval(found)

    after = "" if cell.mechanism == LEASE else f", {cell.pin_after_s:g} s"
    cells = (
        f"`{cell.policy}`",
        f"{cell.mechanism}{after}",
        f"{mean('avg_jct_s').mean / 3600:.2f}",
        ratio("avg_jct_s"),
        f"{mean('large_p99_queue_s').mean / 3600:.1f}",
        ratio("large_p99_queue_s"),
        f"{mean('occupancy_loss').mean:.3f}",
        ratio("occupancy_loss"),
        f"{mean('pins_per_job').mean:.2f}",
        f"{mean('standing_pins').mean:.0f}",
    )
    return f"| {' | '.join(cells)} |"


def _with_interval(found: SeedMean) -> str:
    interval = found.ci95
    if interval is None:
        return f"{found.mean:.2f}"
    return f"{found.mean:.2f} ({interval.low:.2f} to {interval.high:.2f})"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", type=Path, nargs="+", metavar="TRACE-MECHANISM-SECONDS.json")
    runs = read_runs(parser.parse_args().files)
    for trace, load in sorted({(cell.trace, cell.load) for cell in runs}):
        print(f"### {trace.capitalize()}, load {load:g}\n\n{HEAD}\n{'|---' * 10}|")
        for cell in sorted(cell for cell in runs if (cell.trace, cell.load) == (trace, load)):
            print(row(runs, cell))
        print()


if __name__ == "__main__":
    main()
