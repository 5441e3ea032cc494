"""`roost-sim bound`: a lower bound of the average job completion time."""

import json
from pathlib import Path

import click

from roost_sim.figures.bound import Demand, average_jct_bound_s
from roost_sim.options.inputs import load_option, measured_span, read_workload, workload_options


@click.command(
    short_help="Bound the average completion time from below.",
    epilog="Example: roost-sim bound --trace jobs.csv --cluster small --json",
)
@workload_options
@load_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def bound(
    trace_path: Path,
    cluster_name: str,
    limit: int | None,
    load: float | None,
    strict: bool,
    warm_up_frac: float,
    cool_down_frac: float,
    as_json: bool,
) -> None:
    """Bound the average job completion time of a trace on a cluster from below.

    It holds for every scheduler, also for one that knows the future and preempts at no cost. Jobs
    that ask for more GPUs than there are do not count.
    """
    span = measured_span(warm_up_frac, cool_down_frac)
    trace, cluster = read_workload(trace_path, cluster_name, limit, load, strict)
    begin, end = span.range_of(trace.submit_s)
    inside = Demand(
        trace.submit_s[begin:end],
        trace.duration_s[begin:end],
        trace.gpu_count[begin:end],
    )
    fitting = inside.where(inside.gpu_count <= cluster.gpu_count)
    figures = {
        "jobs": len(fitting),
        "gpus": cluster.gpu_count,
        "bound_avg_jct_s": average_jct_bound_s(fitting, cluster.gpu_count),
    }
    if as_json:
        click.echo(json.dumps(figures, allow_nan=False))
        return
    for name, value in figures.items():
        click.echo(f"{name:>18}  {'-' if value is None else f'{value:.6g}'}")
