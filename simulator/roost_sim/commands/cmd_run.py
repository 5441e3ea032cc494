"""`roost-sim run`: one policy over one trace."""

import json
from pathlib import Path

import click

from roost_sim.commands.complete import policy_names
from roost_sim.commands.inputs import (
    engine_options,
    load_option,
    measured_span,
    read_workload,
    workload_options,
)
from roost_sim.commands.option_numbers import SEED
from roost_sim.commands.world_options import world_options
from roost_sim.figures.metrics import TIER_NAMES
from roost_sim.policies.compositions import find_policy
from roost_sim.run_document import run_document
from roost_sim.simulation import Report, Run, simulate
from roost_sim.worlds.world_spec import WorldSpec
from roostd.core.engine import EngineConfig


@click.command(epilog="Example: roost-sim run --trace jobs.csv --cluster small --policy sjf --json")
@workload_options
@load_option
@click.option(
    "--policy",
    "policy_name",
    default="roost",
    show_default=True,
    metavar="NAME",
    shell_complete=policy_names,
    help="A name of `roost-sim policies`, or order+placement+gate+preemption.",
)
@click.option(
    "--seed",
    type=SEED,
    default=0,
    show_default=True,
    help="Of the jobs' profiles and of what the policy draws.",
)
@engine_options
@world_options
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def run(
    trace_path: Path,
    cluster_name: str,
    limit: int | None,
    load: float | None,
    strict: bool,
    warm_up_frac: float,
    cool_down_frac: float,
    policy_name: str,
    seed: int,
    start_delay_s: float,
    patience_s: float,
    world: WorldSpec,
    as_json: bool,
) -> None:
    """Replay a trace through the engine of roostd and print what it came to."""
    policy = find_policy(policy_name)
    span = measured_span(warm_up_frac, cool_down_frac)
    trace, cluster = read_workload(trace_path, cluster_name, limit, load, strict)
    report = simulate(
        Run(
            trace=trace,
            cluster=cluster,
            policy=policy,
            world=world,
            seed=seed,
            start_delay_s=start_delay_s,
            span=span,
            engine_config=EngineConfig(patience_s=patience_s),
        )
    )
    if as_json:
        for reason, count in report.metrics.left_out:
            click.echo(f"roost-sim: left out {count} jobs: {reason}", err=True)
        click.echo(json.dumps(run_document(policy.name, seed, report), allow_nan=False))
        return
    for name, value in (*run_document(policy.name, seed, report).items(), *_details(report)):
        shown = f"{value:.6g}" if isinstance(value, float) else "-" if value is None else value
        click.echo(f"{name:>18}  {shown}")


def _details(report: Report) -> list[tuple[str, object]]:
    """What people see beyond the JSON object."""
    figures = report.metrics
    details: list[tuple[str, object]] = [
        ("measured", figures.measured),
        ("link_frac", figures.link_frac),
    ]
    tiers = zip(TIER_NAMES, figures.tier_counts, strict=True)
    details += [(f"placed {name}", count) for name, count in tiers]
    return details + [("left out", f"{count}: {reason}") for reason, count in figures.left_out]
