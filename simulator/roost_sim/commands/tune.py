"""`roost-sim tune`: tunes the delay gate for one site by its own trace."""

from collections.abc import Sequence
from pathlib import Path

import click

from roost_engine.gate.delay import DelayConfig
from roost_sim.catalogue.compositions import find_policy
from roost_sim.exit_codes import EXIT_NO
from roost_sim.options.inputs import load_option
from roost_sim.options.lists import seed_list
from roost_sim.options.simulation import RunOptions, run_options
from roost_sim.sweeps.intervals import SeedMean
from roost_sim.sweeps.process_engine import ProcessEngine, core_count
from roost_sim.sweeps.sweep import InProcess, Sweep, SweepEngine
from roost_sim.sweeps.sweep_runner import shown_progress
from roost_sim.sweeps.tuning import GRID, Tuned, Tuner


@click.command(
    short_help="Search the delay gate's numbers on a trace.",
    epilog="Example: roost-sim tune --trace jobs.csv --cluster small --seeds 0-4",
)
@run_options
@load_option
@click.option(
    "--policy",
    "policy_name",
    default="fifo",
    show_default=True,
    help="Tune the gate of this policy; its order, placement and preemption stay.",
)
@click.option(
    "--seeds",
    type=seed_list,
    default="0-4",
    show_default=True,
    metavar="0,1,2|0-9",
    help="Each try runs once with each seed, which decides what jobs train.",
)
@click.option(
    "--processes", type=click.IntRange(1), help="Processes to use.  [default: one a core]"
)
@click.option(
    "--out",
    "out_path",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the configuration here.  [default: print it]",
)
@click.pass_context
def tune(
    ctx: click.Context,
    options: RunOptions,
    load: float | None,
    policy_name: str,
    seeds: Sequence[int],
    processes: int | None,
    out_path: Path | None,
) -> None:
    """Search the delay gate's numbers on the first half of a trace, and try them on the second.

    Prints the gate section of roostd.yaml. The exit code is 1 where the tuned gate is no better
    than none on the second half: such a site is better off with `kind: open`.
    """
    policy = find_policy(policy_name)
    if out_path is not None and not out_path.parent.is_dir():  # refused before an hour of search
        raise click.UsageError(f"--out {out_path}: no such folder")
    template = options.read(policy)
    defaults = _defaults()
    with shown_progress() as meter:
        tuner = Tuner(
            sweep=Sweep(template=template),
            policy=policy,
            seeds=seeds,
            load=load,
            engine=_engine(processes or core_count()),
            on_finished=meter.advance,
        )
        meter.begin(tuner.run_count(defaults), 0)
        tuned = tuner.tune(defaults)
    text = fragment(tuned, len(seeds))
    if out_path is None:
        click.echo(text, nl=False)
    else:
        try:
            out_path.write_text(text)
        except OSError:
            click.echo(text, nl=False)  # the search may have taken an hour
            raise
        click.echo(f"roost-sim: {_gain(tuned.tuned)} on the second half: {out_path}", err=True)
    if tuned.tuned.mean >= 1.0:
        ctx.exit(EXIT_NO)


def fragment(tuned: Tuned, seed_count: int) -> str:
    """Return the gate section of roostd.yaml, with the tuned and default figures as comments."""
    lines = [
        f"# roost-sim tune, {seed_count} seeds; average job completion time against no gate:",
        f"#   {_gain(tuned.searched)} on the first half, which these were chosen on",
        f"#   {_gain(tuned.tuned)} on the second half, which they had not seen",
        f"#   {_gain(tuned.default)} on the second half with the defaults",
        "gate:",
        "  kind: delay",
        *(f"  {key}: {value:.10g}" for key, value in tuned.numbers.items()),
    ]
    return "\n".join(lines) + "\n"


def _gain(ratio: SeedMean) -> str:
    percent = f"{100 * (ratio.mean - 1):+.1f} %"
    if ratio.ci95 is None:
        return percent
    low, high = 100 * (ratio.ci95.low - 1), 100 * (ratio.ci95.high - 1)
    return f"{percent} ({low:+.1f} to {high:+.1f})"


def _defaults() -> dict[str, float]:
    config = DelayConfig()
    return {
        key: float(getattr(config if hasattr(config, key) else config.timers, key)) for key in GRID
    }


def _engine(process_count: int) -> SweepEngine:
    return InProcess() if process_count == 1 else ProcessEngine(process_count)
