"""Writes the tables of docs/results/delay.md from a grid of `roost-sim compare --json`.

    python benchmarks/delay_grid.py --against open --gate delay helios-8.json > grid.md

Each file is one trace at one oversubscription, and says so by its name: TRACE-OVERSUBSCRIPTION. Its
policies differ in the gate only. First table: every gate against one of them, by cell and
seed, as means over all cells and over the congested ones (an oversubscription of 4 or more and a
load of 0.9 or more). Second table: one gate, cell by cell.
"""

import argparse
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from roost_sim.sweeps.intervals import SeedMean, mean_of

CONGESTED_OVERSUBSCRIPTION, CONGESTED_LOAD = 4.0, 0.9
JOB_TIME, COMMUNICATION = "avg_jct_s", "avg_comm_s"


@dataclass(frozen=True, slots=True, order=True)
class Cell:
    """One point of the grid."""

    trace: str
    load: float
    oversubscription: float

    @property
    def is_congested(self) -> bool:
        """Return whether the cell is congested; the rule was fixed before any result was known."""
        loaded = self.load >= CONGESTED_LOAD
        return loaded and self.oversubscription >= CONGESTED_OVERSUBSCRIPTION


@dataclass(frozen=True, slots=True)
class Runs:
    """The figures of all runs: by cell, gate and seed.

    Attributes:
        found: averages over the jobs of one run, seconds.
    """

    found: Mapping[tuple[Cell, str, int], Mapping[str, float]]

    @classmethod
    def of(cls, paths: Iterable[Path]) -> "Runs":
        """Read them."""
        found: dict[tuple[Cell, str, int], Mapping[str, float]] = {}
        for path in paths:
            trace, _, oversubscription = path.stem.rpartition("-")
            for row in json.loads(path.read_text(encoding="utf-8")):
                if not row.get("summary"):
                    cell = Cell(trace, row["load"], float(oversubscription))
                    found[cell, row["policy"].split("+")[2], row["seed"]] = row
        return cls(found)

    @property
    def cells(self) -> list[Cell]:
        """In order."""
        return sorted({cell for cell, _, _ in self.found})

    @property
    def gates(self) -> list[str]:
        """As they were named to the command."""
        return list(dict.fromkeys(gate for _, gate, _ in self.found))

    def changes(self, gate: str, against: str, cell: Cell, metric: str) -> dict[int, float]:
        """Return the relative change of a figure under a gate, by seed that both gates ran."""
        seeds = sorted(seed for at, name, seed in self.found if (at, name) == (cell, gate))
        changed: dict[int, float] = {}
        for seed in seeds:
            other = self.found.get((cell, against, seed))
            if other is not None and other[metric]:
                changed[seed] = self.found[cell, gate, seed][metric] / other[metric] - 1.0
        return changed

    def over(self, cells: Iterable[Cell], gate: str, against: str) -> SeedMean | None:
        """Return the mean change of the average JCT over cells, then over seeds with all cells."""
        by_cell = [self.changes(gate, against, cell, JOB_TIME) for cell in cells]
        seeds = set(by_cell[0]).intersection(*by_cell) if by_cell else set()
        return mean_of([sum(one[seed] for one in by_cell) / len(by_cell) for seed in sorted(seeds)])


def gates_table(runs: Runs, against: str) -> None:
    """Print every gate against one of them."""
    congested = [cell for cell in runs.cells if cell.is_congested]
    print(f"| gate | all {len(runs.cells)} cells | {len(congested)} congested cells | worst cell |")
    print("|---|---|---|---|")
    for gate in runs.gates:
        if gate == against:
            continue
        worst = max(
            sum(changed.values()) / len(changed)
            for cell in runs.cells
            if (changed := runs.changes(gate, against, cell, JOB_TIME))
        )
        overall, crowded = (runs.over(part, gate, against) for part in (runs.cells, congested))
        print(
            f"| `{gate}` | {_with_interval(overall)} | {_with_interval(crowded)} | {worst:+.1%} |"
        )
    print()


def cells_table(runs: Runs, gate: str, against: str, metric: str) -> None:
    """Print one gate, cell by cell: mean of the seeds, and the smallest and largest."""
    ratios = sorted({cell.oversubscription for cell in runs.cells})
    print(f"| trace | load | {' | '.join(f'{ratio:g}:1' for ratio in ratios)} |")
    print(f"|---|---{'|---' * len(ratios)}|")
    for trace, load in sorted({(cell.trace, cell.load) for cell in runs.cells}):
        shown = []
        for ratio in ratios:
            changed = list(runs.changes(gate, against, Cell(trace, load, ratio), metric).values())
            shown.append(
                f"{sum(changed) / len(changed):+.1%} ({min(changed):+.0%} to {max(changed):+.0%})"
                if changed
                else "-"
            )
        print(f"| {trace} | {load:g} | {' | '.join(shown)} |")
    print()


def _with_interval(found: SeedMean | None) -> str:
    if found is None:
        return "-"
    if found.ci95 is None:
        return f"{found.mean:+.1%}"
    return f"{found.mean:+.1%} ({found.ci95.low:+.1%} to {found.ci95.high:+.1%})"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", type=Path, nargs="+", metavar="TRACE-OVERSUBSCRIPTION.json")
    parser.add_argument("--against", default="open", metavar="GATE")
    parser.add_argument("--gate", default="delay", metavar="GATE", help="of the table by cell")
    options = parser.parse_args()
    runs = Runs.of(options.files)
    gates_table(runs, options.against)
    cells_table(runs, options.gate, options.against, JOB_TIME)
    print("Communication:\n")
    cells_table(runs, options.gate, options.against, COMMUNICATION)


if __name__ == "__main__":
    main()
