"""`roost-sim trace`: generates traces and describes them."""

import json
from collections import Counter
from functools import partial
from pathlib import Path

import click
import numpy as np

from roost_sim.clusters.cluster_file import load_cluster
from roost_sim.options.inputs import report_rows
from roost_sim.options.numbers import SEED, FiniteRange
from roost_sim.traces.csv_file import write_csv
from roost_sim.traces.fitted_histories import HISTORIES
from roost_sim.traces.fitted_traces import MODELS
from roost_sim.traces.formats import load_trace
from roost_sim.traces.generator import generate as generate_trace
from roost_sim.traces.histories import generate_history
from roost_sim.traces.trace import Status, Trace
from roost_sim.traces.user_limits import with_user_limits
from roost_sim.worlds.speed.dally_models import DALLY_MIX

_DAY_S = 86_400
_LIKE = {**MODELS, "dally": DALLY_MIX}


@click.group()
def trace() -> None:
    """Generate traces of jobs, and describe them."""


@trace.command(epilog="Example: roost-sim trace generate --like helios --jobs 100000 -o jobs.csv")
@click.option(
    "--like",
    type=click.Choice(list(_LIKE)),
    required=True,
    help="Whose jobs: Helios Venus and Philly as fitted, Dally's as published.",
)
@click.option("--jobs", "job_count", type=click.IntRange(1), required=True, help="How many.")
@click.option("--seed", type=SEED, default=0, show_default=True, help="Of what is drawn.")
@click.option(
    "--jobs-per-day",
    type=FiniteRange(0, min_open=True),
    help="Mean rate of arrivals, instead of the trace's own; runs can also set a --load.",
)
@click.option("--batch", is_flag=True, help="All jobs arrive at once.")
@click.option(
    "--max-gpus",
    type=click.IntRange(1),
    help="Leave out larger jobs.",
)
@click.option(
    "--independent",
    is_flag=True,
    help="Draw each job by itself: no users, no names, no repetition. Others than Helios are so.",
)
@click.option(
    "--time-limits",
    is_flag=True,
    help="Also draw the limits that users might give: round, one for all jobs of a name and size.",
)
@click.option(
    "-o",
    "--output",
    required=True,
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="CSV; gzip where the name ends in .gz.",
)
def generate(
    like: str,
    job_count: int,
    seed: int,
    jobs_per_day: float | None,
    batch: bool,
    max_gpus: int | None,
    independent: bool,
    time_limits: bool,
    output: Path,
) -> None:
    """Draw jobs that look like a public trace. The same arguments write the same file.

    Jobs like Helios' have users and names, and their users repeat them as in June 2020.
    """
    if batch and jobs_per_day is not None:
        raise click.UsageError("--batch and --jobs-per-day exclude each other")
    model = _LIKE[like]
    if max_gpus is not None and max_gpus < model.sizes[0][0]:
        raise click.UsageError(f"no job like {like} has {max_gpus} GPUs or less")
    history = None if independent else HISTORIES.get(like)
    draw = generate_trace if history is None else partial(generate_history, history=history)
    made = draw(
        model,
        job_count=job_count,
        seed=seed,
        jobs_per_day=jobs_per_day,
        max_gpu_count=max_gpus,
        is_batch=batch,
    )
    if time_limits:
        if history is None:
            raise click.UsageError("--time-limits needs jobs with users: --like helios")
        made = with_user_limits(made, seed)
    write_csv(made, output)
    click.echo(f"roost-sim: {len(made)} jobs in {output}", err=True)


@trace.command(
    short_help="Tell what is in a trace.",
    epilog="Example: roost-sim trace info jobs.csv --cluster venus",
)
@click.argument("trace_path", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--cluster", "cluster_name", metavar="FILE|PRESET", help="Tell the load on it.")
@click.option("--strict", is_flag=True, help="Stop at the first bad row.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def info(trace_path: Path, cluster_name: str | None, strict: bool, as_json: bool) -> None:
    """Tell what is in a trace: jobs, span, sizes, durations, load on a cluster."""
    loaded = load_trace(trace_path, strict=strict)
    report_rows(loaded)
    figures = _figures(loaded.trace)
    if cluster_name is not None:
        cluster = load_cluster(cluster_name)
        fits = loaded.trace.fitting(cluster.gpu_count)
        figures["cluster_gpus"] = cluster.gpu_count
        figures["too_large"] = len(loaded.trace) - len(fits)
        figures["load"] = fits.load(cluster.gpu_count) if fits.span_s > 0 else None
    if as_json:
        click.echo(json.dumps(figures, allow_nan=False))
        return
    for name, value in figures.items():
        shown = _shown(value)
        click.echo(f"{name:>18}  {shown}")


def _figures(found: Trace) -> dict[str, object]:
    durations_s = found.duration_s
    sizes = Counter(found.gpu_count.tolist())
    ends = Counter(found.status.tolist())
    figures: dict[str, object] = {
        "source": found.source,
        "jobs": len(found),
        "days": found.span_s / _DAY_S,
        "gpu_hours": found.work_gpu_s / 3_600,
        "mean_duration_s": float(durations_s.mean()) if len(found) else None,
        "median_duration_s": float(np.median(durations_s)) if len(found) else None,
        "longest_s": float(durations_s.max()) if len(found) else None,
        "jobs_by_gpus": {str(size): sizes[size] for size in sorted(sizes)},
        "jobs_by_end": {Status(end).name.lower(): ends[end] for end in sorted(ends)},
        "users": len(found.user_names),
        "job_names": len(found.job_name.names),
        "accounts": list(found.account.names),
        "partitions": list(found.partition.names),
        "qos": list(found.qos.names),
        "with_time_limit": int(np.isfinite(found.time_limit_s).sum()),
        "of_arrays": int(found.is_array.sum()),
        "models": list(found.model_names),
    }
    return figures


def _shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, dict):
        return ", ".join(f"{name}: {count}" for name, count in value.items())
    if isinstance(value, list):
        return ", ".join(value) or "-"
    return "-" if value is None else str(value)
