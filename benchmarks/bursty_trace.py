"""Make a trace of bursts of like jobs for a small cluster, by users whose run times differ.

    python benchmarks/bursty_trace.py pods 103 -o pods-103.csv

Each world is for the cluster of its name in networks/: sizes, users, and time limits of 1.2 to 8
times the run time. Three jobs in ten repeat the user, the name and the size of the job before,
seconds later. A user has a typical run time, and a job's name says by how much a job differs from
it. `mixed` tells neither users nor limits. Used by docs/results/order.md.
"""

from dataclasses import dataclass
from math import ceil, log
from pathlib import Path

import click
import numpy as np
from _trace_file import write_trace

_REPEATED_FRAC, _REPEAT_GAP_S, _GAP_S = 0.3, 10.0, 600.0
_DAY_S, _WORK_HOURS, _BUSY, _CALM = 86_400.0, (9.0, 19.0), 0.4, 1.6  # factors of the gap
_MEDIAN_S, _USER_SIGMA, _JOB_SIGMA = 1_800.0, 1.0, 1.08
_NAME_FACTORS = (0.3, 1.0, 1.0, 4.0)
_SHORTEST_S, _LONGEST_S = 15.0, 4 * _DAY_S
_LIMIT_FACTORS, _LIMIT_STEP_S = (1.2, 8.0), 1_800.0


@dataclass(frozen=True, slots=True)
class World:
    """How many jobs, their sizes with how often each is drawn, and users (0: not told)."""

    job_count: int
    gpu_counts: tuple[int, ...]
    fracs: tuple[float, ...]
    user_count: int
    has_limits: bool = True


WORLDS = {
    "odd3": World(700, (1, 2, 3, 4, 6, 8, 12), (0.4, 0.2, 0.08, 0.14, 0.05, 0.1, 0.03), 1),
    "flat8": World(800, (1, 2, 4, 8, 16, 32), (0.3, 0.15, 0.15, 0.25, 0.1, 0.05), 3_000),
    "pods": World(800, (1, 2, 4, 8, 16, 32), (0.3, 0.15, 0.2, 0.2, 0.1, 0.05), 40),
    "n16": World(
        700, (1, 2, 4, 5, 8, 16, 24, 32), (0.3, 0.12, 0.13, 0.05, 0.2, 0.12, 0.04, 0.04), 25
    ),
    "ones": World(700, (1, 2, 3, 4, 8, 16), (0.5, 0.15, 0.1, 0.12, 0.1, 0.03), 30),
    "mixed": World(700, (1, 2, 4, 8), (0.4, 0.18, 0.24, 0.18), 0, has_limits=False),
}


def rows_of(world: World, seed: int) -> list[tuple[object, ...]]:
    """Return the rows of a trace: submission, run time, GPUs, user, job name, time limit."""
    random, users = np.random.default_rng(seed), world.user_count
    medians_s = random.lognormal(log(_MEDIAN_S), _USER_SIGMA, users) if users else [_MEDIAN_S]
    rows, at_s, user, gpu_count, name = list[tuple[object, ...]](), 0.0, 0, 0, 0
    for _ in range(world.job_count):
        if rows and random.random() < _REPEATED_FRAC:
            at_s += random.exponential(_REPEAT_GAP_S)
        else:
            hour = at_s % _DAY_S / 3_600.0
            factor = _BUSY if _WORK_HOURS[0] < hour < _WORK_HOURS[1] else _CALM
            at_s += random.exponential(_GAP_S) * factor
            gpu_count = int(random.choice(world.gpu_counts, p=world.fracs))
            if users:
                user = int(min(users - 1, random.pareto(1.1) * max(1.0, users / 50)))
            name = int(random.integers(0, len(_NAME_FACTORS)))
        typical_s = medians_s[user] * _NAME_FACTORS[name]
        drawn_s = typical_s * random.lognormal(0, _JOB_SIGMA)
        run_s = float(np.clip(drawn_s, _SHORTEST_S, _LONGEST_S))
        limit_s = ceil(run_s * random.uniform(*_LIMIT_FACTORS) / _LIMIT_STEP_S) * _LIMIT_STEP_S
        user_name, limit = (f"u{user}" if users else ""), (int(limit_s) if world.has_limits else "")
        rows.append((round(at_s, 1), round(run_s, 1), gpu_count, user_name, f"job{name}", limit))
    return rows


@click.command()
@click.argument("world", type=click.Choice(list(WORLDS)))
@click.argument("seed", type=click.IntRange(min=0))
@click.option("-o", "out", type=click.Path(path_type=Path, dir_okay=False), required=True)
def main(world: str, seed: int, out: Path) -> None:
    """Write a trace as CSV."""
    write_trace(out, rows_of(WORLDS[world], seed))


if __name__ == "__main__":
    main()
