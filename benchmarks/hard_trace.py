"""Make a trace of jobs whose run times nothing tells: neither user nor name nor number of GPUs.

    python benchmarks/hard_trace.py absurd 3 -o absurd-3.csv

Each world is a mix of sizes for one of the clusters in networks/; run times are log-normal, of ten
seconds to two days, and differ least in `assorted`. `equal` has one time limit for all jobs, and
`absurd` has zero, none, decades, "unlimited" and exact ones; `oneuser` has a user for each job,
`arrays` has 60 jobs at a time, and `blink` has jobs of 10 s. Used by docs/results/order.md.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import log
from pathlib import Path

import click
import numpy as np
from _trace_file import write_trace

_SHORTEST_S, _LONGEST_S, _JOB_COUNT, _GAP_S = 10.0, 172_800.0, 900, 60.0
_ARRAY_FRAC, _ZIPF, _NAME_COUNT, _OF_ONE_ARRAY_SIGMA = 0.8, 1.5, 4, 0.3

Limit = Callable[[np.random.Generator, float], object]


def _absurd(random: np.random.Generator, run_s: float) -> object:
    return (0, "", 10**9, "unlimited", round(run_s))[int(random.integers(0, 5))]


@dataclass(frozen=True, slots=True)
class World:
    """Sizes and how often each is drawn, run times, users (0: one for each job), and limits."""

    gpu_counts: tuple[int, ...] = (1, 2, 4, 8, 16)
    weights: tuple[float, ...] = (40, 10, 20, 20, 10)
    median_s: float = 900.0
    sigma: float = 1.9
    user_count: int = 20
    array_size: int = 1
    run_s: float | None = None
    limit: Limit | None = None


WORLDS = {
    "tiny": World((1, 2, 4), (6, 3, 1), sigma=1.8, user_count=8),
    "lopsided": World(weights=(30, 15, 30, 15, 10), sigma=1.8),
    "assorted": World((1, 2, 4, 8), (35, 15, 20, 15), sigma=1.1, median_s=2_400.0),
    "whole": World((8,), (1,), sigma=2.0),
    "singles": World((1,), (1,), sigma=2.0),
    "slow81": World((1, 4, 8, 16, 32), (30, 15, 25, 20, 10), sigma=1.8),
    "equal": World(limit=lambda random, run_s: 172_800),
    "absurd": World(limit=_absurd),
    "oneuser": World(user_count=0),
    "arrays": World(median_s=600.0, sigma=1.7, user_count=12, array_size=60),
    "blink": World(median_s=10.0, sigma=0.1, user_count=12, run_s=10.0),
}


def rows_of(name: str, seed: int) -> list[tuple[object, ...]]:
    """Return the rows of a trace: submission, run time, GPUs, user, job name, time limit."""
    world, random = WORLDS[name], np.random.default_rng([seed, sum(map(ord, name))])
    fracs = np.array(world.weights) / sum(world.weights)
    rows, at_s = list[tuple[object, ...]](), 0.0
    while len(rows) < _JOB_COUNT:
        at_s += random.exponential(_GAP_S * world.array_size)
        is_array = world.array_size > 1 and random.random() < _ARRAY_FRAC
        gpu_count = int(random.choice(world.gpu_counts, p=fracs))
        user = min(random.zipf(_ZIPF), world.user_count) if world.user_count else len(rows)
        job_name = f"exp{int(random.integers(0, _NAME_COUNT))}"
        base_s = random.lognormal(log(world.median_s), world.sigma)
        for task in range(world.array_size if is_array else 1):
            run_s = world.run_s
            if run_s is None:
                drawn_s = base_s * random.lognormal(0, _OF_ONE_ARRAY_SIGMA)
                run_s = float(np.clip(drawn_s, _SHORTEST_S, _LONGEST_S))
            limit = "" if world.limit is None else world.limit(random, run_s)
            user_name, task_name = f"user{int(user)}", f"{job_name}-{task}"
            rows.append((round(at_s), round(run_s), gpu_count, user_name, task_name, limit))
    return rows[:_JOB_COUNT]


@click.command()
@click.argument("world", type=click.Choice(list(WORLDS)))
@click.argument("seed", type=click.IntRange(min=0))
@click.option("-o", "out", type=click.Path(path_type=Path, dir_okay=False), required=True)
def main(world: str, seed: int, out: Path) -> None:
    """Write a trace as CSV."""
    write_trace(out, rows_of(world, seed))


if __name__ == "__main__":
    main()
