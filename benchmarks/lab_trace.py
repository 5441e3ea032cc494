"""Make a trace of a laboratory's jobs, of sizes and lengths that no published trace has.

    python benchmarks/lab_trace.py llm 6000 7 -o llm.csv

`lab`: a third of the jobs on one GPU, a quarter on 8, up to 64. `llm`: most jobs on 8 GPUs and
more. `small`: up to 16 GPUs, more than half of the jobs on one. Run times are log-normal, one job
a minute arrives in the afternoon and half as many at night; a third of the jobs repeat the size of
the job before. Used by docs/results/networks.md.
"""

import csv
from dataclasses import dataclass
from math import exp, log
from pathlib import Path

import click
import numpy as np

_HOUR_S, _DAY_H, _SHORTEST_S, _LONGEST_S = 3_600.0, 24, 10.0, 172_800.0
_REPEAT_FRAC = 0.35


@dataclass(frozen=True, slots=True)
class Mix:
    """Sizes, how often each is drawn, and the median and sigma of its run times."""

    gpu_counts: tuple[int, ...]
    fracs: tuple[float, ...]
    median_s: tuple[float, ...]
    sigma: tuple[float, ...]


MIXES = {
    "lab": Mix(
        (1, 2, 4, 8, 16, 32, 64),
        (0.42, 0.08, 0.12, 0.25, 0.08, 0.035, 0.015),
        (400, 500, 600, 700, 900, 900, 900),
        (2.0, 2.0, 2.0, 2.1, 2.0, 1.9, 1.8),
    ),
    "llm": Mix(
        (1, 4, 8, 16, 24, 32, 64),
        (0.30, 0.10, 0.30, 0.14, 0.05, 0.08, 0.03),
        (240, 500, 500, 800, 800, 900, 1200),
        (1.8, 1.9, 1.9, 1.9, 1.8, 1.8, 1.6),
    ),
    "small": Mix(
        (1, 2, 4, 8, 16),
        (0.55, 0.15, 0.15, 0.12, 0.03),
        (700, 800, 900, 1000, 1000),
        (2.0, 2.0, 2.0, 2.0, 2.0),
    ),
}


@click.command()
@click.argument("mix", type=click.Choice(list(MIXES)))
@click.argument("job_count", type=click.IntRange(min=1))
@click.argument("seed", type=int)
@click.option("-o", "out", type=click.Path(path_type=Path, dir_okay=False), required=True)
def main(mix: str, job_count: int, seed: int, out: Path) -> None:
    """Write JOB_COUNT jobs of MIX, drawn by SEED."""
    chosen, rng = MIXES[mix], np.random.default_rng(seed)
    at_s, kind = 0.0, -1
    with out.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["submit_s", "duration_s", "num_gpus"])
        for _ in range(job_count):
            hour = (at_s / _HOUR_S) % _DAY_H
            per_s = (0.5 + 0.5 * exp(-(((hour - 15) / 5) ** 2))) / 60
            at_s += rng.exponential(1 / per_s)
            if kind < 0 or rng.random() >= _REPEAT_FRAC:
                kind = int(rng.choice(len(chosen.gpu_counts), p=chosen.fracs))
            run_s = rng.lognormal(log(chosen.median_s[kind]), chosen.sigma[kind])
            run_s = min(max(run_s, _SHORTEST_S), _LONGEST_S)
            writer.writerow([round(at_s, 1), round(run_s, 1), chosen.gpu_counts[kind]])


if __name__ == "__main__":
    main()
