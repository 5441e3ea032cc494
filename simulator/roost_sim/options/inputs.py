"""Inputs of the commands: options for trace, cluster and load, and reading them."""

from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypeVar

import click

from roost_sim.clusters.cluster_file import load_cluster
from roost_sim.clusters.cluster_spec import ClusterSpec
from roost_sim.figures.metrics import Span
from roost_sim.options.completion import clusters
from roost_sim.options.numbers import FiniteRange
from roost_sim.traces.formats import load_trace
from roost_sim.traces.rows import LoadedTrace
from roost_sim.traces.trace import Trace

_Params = ParamSpec("_Params")
_Result = TypeVar("_Result")
_Frac = FiniteRange(0, 1, max_open=True)


def load_option(command: Callable[_Params, _Result]) -> Callable[_Params, _Result]:
    """Add the option for one load; commands that take several have their own."""
    return click.option(
        "--load",
        type=FiniteRange(0, min_open=True),
        help="Stretch the arrivals to this load: GPU-seconds asked for over those there.  "
        "[default: as in the trace]",
    )(command)


def workload_options(command: Callable[_Params, _Result]) -> Callable[_Params, _Result]:
    """Add the options for the trace, the cluster and the measured jobs."""
    for option in (
        click.option(
            "--cool-down-frac",
            type=_Frac,
            default=0.1,
            show_default=True,
            help="Leave this fraction of the arrivals, the last ones, out of job times.",
        ),
        click.option(
            "--warm-up-frac",
            type=_Frac,
            default=0.1,
            show_default=True,
            help="Leave this fraction of the arrivals, the first ones, out of job times.",
        ),
        click.option("--strict", is_flag=True, help="Stop at the first bad row of the trace."),
        click.option(
            "--limit",
            type=click.IntRange(1),
            help="Take the first so many jobs.  [default: all]",
        ),
        click.option(
            "--cluster",
            "cluster_name",
            required=True,
            metavar="FILE|PRESET",
            shell_complete=clusters,
            help="The cluster: YAML, or the name of a preset.",
        ),
        click.option(
            "--trace",
            "trace_path",
            required=True,
            metavar="FILE",
            type=click.Path(path_type=Path),
            help="The jobs: CSV, sacct -P, Philly's JSON or a journal of roostd; plain or .gz.",
        ),
    ):
        command = option(command)
    return command


def read_workload(
    trace_path: Path, cluster_name: str, limit: int | None, load: float | None, strict: bool
) -> tuple[Trace, ClusterSpec]:
    """Read a trace and a cluster, and report on stderr what was left out of the trace.

    Raises:
        SimError: a file is wrong, or a load is set and all jobs arrive at once.
    """
    cluster = load_cluster(cluster_name)
    loaded = load_trace(trace_path, strict=strict)
    report_rows(loaded)
    trace = loaded.trace if limit is None else loaded.trace.limit(limit)
    trace = _on_nodes_there_are(trace, cluster)
    return trace if load is None else trace.at_load(load, cluster.gpu_count), cluster


def _on_nodes_there_are(trace: Trace, cluster: ClusterSpec) -> Trace:
    free = trace.without_impossible_nodes([node.kind.gpu_count for node in cluster.nodes])
    changed = int((free.node_count != trace.node_count).sum())
    if changed:
        reason = "ran on more nodes, or with more GPUs on one, than the cluster has"
        click.echo(f"roost-sim: {changed} jobs {reason}: they may run on others", err=True)
    return free


def measured_span(warm_up_frac: float, cool_down_frac: float) -> Span:
    """Return the span of two options.

    Raises:
        click.UsageError: no job would be measured.
    """
    try:
        return Span(warm_up_frac=warm_up_frac, cool_down_frac=cool_down_frac)
    except ValueError as error:
        raise click.UsageError(str(error)) from error


def report_rows(loaded: LoadedTrace) -> None:
    """Report on stderr which rows were left out of a trace."""
    report = loaded.report
    for reason, count in sorted(report.skipped.items()):
        click.echo(f"roost-sim: left out {count} rows: {reason}", err=True)
    for reason, count in sorted(report.ignored.items()):
        click.echo(f"roost-sim: ignored {count} values, their jobs are read: {reason}", err=True)
    if report.bad_count:
        click.echo(f"roost-sim: {report.bad_count} bad rows, among them:", err=True)
        for row in report.examples:
            click.echo(f"roost-sim: {row}", err=True)
