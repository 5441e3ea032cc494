"""`roost-sim compare`: policies × seeds × loads on all cores, with intervals and a report."""

import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import Console

from roost_sim.catalogue.compositions import find_policy
from roost_sim.exit_codes import EXIT_INTERRUPTED, EXIT_NO
from roost_sim.options.completion import policy_lists
from roost_sim.options.lists import number_list, seed_list, word_list
from roost_sim.options.simulation import RunOptions, run_options
from roost_sim.sweeps.comparison import Comparison
from roost_sim.sweeps.comparison_table import left_out_lines, print_tables
from roost_sim.sweeps.process_engine import ProcessEngine, core_count
from roost_sim.sweeps.ray_engine import RayEngine
from roost_sim.sweeps.report.document import report_document
from roost_sim.sweeps.report.page import write_report
from roost_sim.sweeps.sweep import Case, InProcess, Sweep, SweepEngine, cases_of
from roost_sim.sweeps.sweep_runner import Collected, collect, shown_progress

_FILE_COLUMNS = 260  # of a table that goes to a file or another program
_ARGUMENTS = "roost_sim.arguments"


class _RemembersArguments(click.Command):
    """Keeps the arguments, which the report shows."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[_ARGUMENTS] = tuple(args)
        return super().parse_args(ctx, args)


@click.command(
    cls=_RemembersArguments,
    short_help="Replay a trace under several policies and seeds.",
    epilog="Example: roost-sim compare --trace jobs.csv --cluster small --policies fifo,sjf "
    "--seeds 0-9 --load 0.7,0.9 --report out.html",
)
@run_options
@click.option(
    "--load",
    "loads",
    type=number_list,
    multiple=True,
    metavar="0.7,0.9",
    help="Stretch the arrivals to each of these loads.  [default: as in the trace]",
)
@click.option(
    "--policies",
    type=word_list,
    required=True,
    metavar="A,B,...",
    shell_complete=policy_lists,
    help="Names of `roost-sim policies`, or order+placement+gate+preemption.",
)
@click.option(
    "--seeds",
    type=seed_list,
    default="0",
    show_default=True,
    metavar="0,1,2|0-9",
    help="Each policy runs once with each seed.",
)
@click.option(
    "--window-jobs",
    type=click.IntRange(1),
    help="Each seed simulates so many consecutive jobs from a place that it draws.  "
    "[default: all jobs]",
)
@click.option(
    "--sample-jobs",
    type=click.IntRange(1),
    help="Each seed simulates so many jobs that it draws from all over the trace.  "
    "[default: all jobs]",
)
@click.option("--baseline", help="Ratios are to this policy.  [default: the first]")
@click.option(
    "--engine",
    "engine_name",
    type=click.Choice(["process", "ray"]),
    default="process",
    show_default=True,
    help="Where the runs take place: processes here, or a Ray cluster.",
)
@click.option("--ray-address", help='Of a Ray cluster, or "auto".  [default: a local one]')
@click.option(
    "--processes", type=click.IntRange(1), help="Processes to use.  [default: one a core]"
)
@click.option(
    "--resume",
    "results_path",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Keep finished runs in this file, and run only what it lacks.",
)
@click.option(
    "--report",
    "report_path",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write an HTML page that needs nothing else.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON list.")
@click.pass_context
def compare(
    ctx: click.Context,
    options: RunOptions,
    loads: Sequence[Sequence[float]],
    policies: Sequence[str],
    seeds: Sequence[int],
    window_jobs: int | None,
    sample_jobs: int | None,
    baseline: str | None,
    engine_name: str,
    ray_address: str | None,
    processes: int | None,
    results_path: Path | None,
    report_path: Path | None,
    as_json: bool,
) -> None:
    """Replay a trace under several policies, each with several seeds, and say how sure it is.

    Ctrl-C stops the runs and shows what has finished; with --resume the next call continues from
    there.
    """
    all_loads = _all_of(loads)
    sweep = Sweep(
        template=options.read(find_policy(policies[0])),
        window_jobs=window_jobs,
        sample_jobs=sample_jobs,
    )
    baseline = baseline or policies[0]
    _check(sweep, policies, baseline, all_loads, seeds[0])
    if report_path is not None and not report_path.parent.is_dir():
        raise click.UsageError(f"--report {report_path}: no such folder")
    engine = _engine(engine_name, ray_address, processes or core_count())
    with shown_progress() as progress:
        collected = collect(
            engine, sweep, cases_of(policies, seeds, all_loads), results_path, progress
        )
    comparison = Comparison.of(collected.done, policies, all_loads, baseline)
    _show(comparison, collected, as_json)
    # Last: if the report cannot be written, the figures have been printed.
    if report_path is not None and comparison.runs:
        command = shlex.join(("roost-sim", "compare", *ctx.meta[_ARGUMENTS]))
        write_report(report_path, report_document(comparison, sweep, collected, command))
    if collected.is_interrupted:
        ctx.exit(EXIT_INTERRUPTED)
    if collected.failed:
        ctx.exit(EXIT_NO)


def _all_of(loads: Sequence[Sequence[float]]) -> list[float | None]:
    """Each load once, in the given order; None: as in the trace."""
    return [*dict.fromkeys(load for some in loads for load in some)] or [None]


def _show(comparison: Comparison, collected: Collected, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(comparison.documents(), allow_nan=False))
    else:
        console = Console(width=None if sys.stdout.isatty() else _FILE_COLUMNS)
        print_tables(comparison, console)
    for line in left_out_lines(comparison):
        click.echo(f"roost-sim: {line}", err=True)
    for failed in collected.failed:
        click.echo(f"roost-sim: {failed.case}: {failed.reason}", err=True)


def _check(
    sweep: Sweep, policies: Sequence[str], baseline: str, loads: Sequence[float | None], seed: int
) -> None:
    """Refuse input that would fail in every run.

    Raises:
        SimError: a policy has no such name, the trace has too few jobs or no load, or no
            model is left.
        click.UsageError: the baseline does not run.
    """
    for policy in policies:
        find_policy(policy)
    if baseline not in policies:
        raise click.UsageError(f"--baseline {baseline} is none of {', '.join(policies)}")
    for load in loads:
        jobs = sweep.jobs_of(Case(policies[0], seed, load))
        sweep.template.world.build(sweep.template.cluster, jobs.limit(1), seed)


def _engine(name: str, ray_address: str | None, process_count: int) -> SweepEngine:
    if name == "ray":
        return RayEngine(ray_address, process_count)
    if ray_address is not None:
        raise click.UsageError("--ray-address goes with --engine ray")
    return InProcess() if process_count == 1 else ProcessEngine(process_count)
