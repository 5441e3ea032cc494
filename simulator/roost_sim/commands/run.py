"""`roost-sim run`: one policy over one trace."""

import json

import click

from roost_sim.catalogue.compositions import find_policy
from roost_sim.figures.metrics import TIER_NAMES
from roost_sim.options.completion import policy_names
from roost_sim.options.inputs import load_option
from roost_sim.options.numbers import SEED
from roost_sim.options.simulation import RunOptions, run_options
from roost_sim.runs.run_document import run_document
from roost_sim.runs.simulation import Report, simulate


@click.command(
    short_help="Replay a trace under one policy.",
    epilog="Example: roost-sim run --trace jobs.csv --cluster small --policy sjf --json",
)
@run_options
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
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def run(
    options: RunOptions, load: float | None, policy_name: str, seed: int, as_json: bool
) -> None:
    """Replay a trace through the engine of roostd and print what it came to."""
    policy = find_policy(policy_name)
    report = simulate(options.read(policy, load, seed))
    if as_json:
        for reason, count in report.metrics.left_out:
            click.echo(f"roost-sim: left out {count} jobs: {reason}", err=True)
        click.echo(json.dumps(run_document(policy.name, seed, report), allow_nan=False))
        return
    for name, value in (*run_document(policy.name, seed, report).items(), *_details(report)):
        shown = f"{value:.6g}" if isinstance(value, float) else "-" if value is None else value
        click.echo(f"{name:>19}  {shown}")


def _details(report: Report) -> list[tuple[str, object]]:
    """The figures that only the text output has."""
    figures = report.metrics
    details: list[tuple[str, object]] = [
        ("measured", figures.measured),
        ("link_frac", figures.link_frac),
    ]
    tiers = zip(TIER_NAMES, figures.tier_counts, strict=True)
    details += [(f"placed {name}", count) for name, count in tiers]
    return details + [("left out", f"{count}: {reason}") for reason, count in figures.left_out]
