"""Options of the world, shared by all commands that simulate."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click

from roost_engine.domain.errors import PolicyError
from roost_formats.models.run_times import load_onnx_run_times
from roost_sim.errors import SimError
from roost_sim.information.trace_history import learned_from
from roost_sim.options.numbers import FiniteRange
from roost_sim.sweeps.results_file import fingerprint
from roost_sim.traces.formats import load_trace
from roost_sim.worlds.fidelity import DEFAULT_FIDELITY, FIDELITIES, Fidelity, Regime, Setting
from roost_sim.worlds.prediction_spec import OtherSite, PredictionSpec
from roost_sim.worlds.restart_cost import RestartRule
from roost_sim.worlds.sharing.measured_pairs import read_pairs
from roost_sim.worlds.sharing.sharing_spec import SharingSpec
from roost_sim.worlds.world_spec import Speed, WorldSpec

_Result = TypeVar("_Result")
_MOST_TIMES = 1e6  # a larger factor makes times overflow
_MOST_SIGMA = 10.0
_MOST_STALE_S = 1e9
_BY_REGIME = "  [default: by --regime]"
_KNOWABLE = (Regime.ORACLE, Regime.PREDICTED, Regime.LIMIT)


def _choice(values: Iterable[StrEnum]) -> click.Choice[str]:
    """By value: click offers the names of an enum's members, which are upper case."""
    return click.Choice([value.value for value in values])


_OPTIONS = (
    click.option(
        "--regime",
        type=_choice(Setting),
        help="All switches at once: paper leaves out contention, neighbours, links inside nodes "
        "and most of the cost of a restart; field has all, and durations are predicted. "
        "Left out: field, but policies listed as oracles are oracles.",
    ),
    click.option(
        "--contention/--no-contention",
        default=None,
        help=f"Jobs share links, or not.{_BY_REGIME}",
    ),
    click.option(
        "--neighbours/--no-neighbours",
        default=None,
        help=f"Jobs on a node slow each other, or not.{_BY_REGIME}",
    ),
    click.option(
        "--links/--no-links",
        default=None,
        help="The links between a job's GPUs inside a node count, or all are equally close."
        f"{_BY_REGIME}",
    ),
    click.option(
        "--restart",
        type=_choice(RestartRule),
        help="What a restart costs: as published systems report, 1 s a GPU, or nothing."
        f"{_BY_REGIME}",
    ),
    click.option(
        "--durations",
        type=_choice(_KNOWABLE),
        help=f"What oracles know about run times; other policies are not affected.{_BY_REGIME}",
    ),
    click.option(
        "--speed",
        type=_choice(Speed),
        help="How fast jobs run where they are: by measured profiles, on Dally's network, on "
        "TopDRL's tree, or as the trace says; published: as the paper has it whose cluster it is. "
        " [default: published with --regime paper, else measured]",
    ),
    click.option(
        "--full-speed", is_flag=True, help="Short for --speed trace: placement costs nothing."
    ),
    click.option(
        "--exclude-model",
        "exclude_families",
        multiple=True,
        metavar="NAME",
        help="Give no job this model; can be repeated. `roost-sim profiles` lists them.",
    ),
    click.option(
        "--compute-scale",
        type=FiniteRange(0, _MOST_TIMES, min_open=True),
        default=1.0,
        show_default=True,
        help="Compute takes so many times as long; papers try 1, 3, 10 and 30.",
    ),
    click.option(
        "--congestion",
        type=FiniteRange(1, _MOST_TIMES),
        default=1.0,
        show_default=True,
        help="Links above the nodes are so many times slower; papers try 1, 2 and 4.",
    ),
    click.option(
        "--named-models",
        "named_frac",
        type=FiniteRange(0, 1),
        default=1.0,
        show_default=True,
        help="How many jobs say what model they train; the delay gate asks.",
    ),
    click.option(
        "--speed-reports/--no-speed-reports",
        "reports_speed",
        default=True,
        show_default=True,
        help="Report how fast jobs run, or not, as under Slurm.",
    ),
    click.option(
        "--prediction-noise",
        "prediction_sigma",
        metavar="SIGMA",
        type=FiniteRange(0, _MOST_SIGMA),
        default=0.0,
        show_default=True,
        help="Multiply what the engine predicts of each job's run time by a random factor, "
        "log-normal with this sigma.",
    ),
    click.option(
        "--prediction-from",
        "other_site",
        metavar="FILE",
        type=click.Path(path_type=Path),
        help="Predict run times by the jobs of this trace, and learn nothing more.",
    ),
    click.option(
        "--prediction-stale",
        "stale_s",
        metavar="SECONDS",
        type=FiniteRange(0, _MOST_STALE_S),
        default=0.0,
        show_default=True,
        help="Learn run times so many seconds late; with --prediction-from, its last job ended so "
        "long before.",
    ),
    click.option(
        "--run-time-model",
        metavar="FILE|none",
        default="none",
        show_default=True,
        help="Ask a model of run times too, which roost-train runtimes has made.",
    ),
    click.option(
        "--pairs",
        "pairs_path",
        metavar="FILE",
        type=click.Path(path_type=Path),
        help="Measured pairs of jobs on one GPU, in Gavel's columns: what two jobs that share one "
        "do to each other, under a policy with a rule for it, as roost@measured.",
    ),
    click.option(
        "--pairs-gpu",
        default="p100",
        show_default=True,
        metavar="TYPE",
        help="The GPU type that counts, of those in --pairs.",
    ),
    click.option(
        "--opt-in-frac",
        type=FiniteRange(0, 1),
        default=0.5,
        show_default=True,
        help="How many jobs may share GPUs.",
    ),
    click.option(
        "--known-frac",
        type=FiniteRange(0, 1),
        default=0.5,
        show_default=True,
        help="How many of the families in --pairs the site has measured beside each other.",
    ),
    click.option(
        "--pairs-noise",
        type=FiniteRange(0, 1),
        default=0.05,
        show_default=True,
        help="How wrong it was: the standard deviation of the logarithm of a measured speed.",
    ),
)


def world_options(command: Callable[..., _Result]) -> Callable[..., _Result]:
    """Add the options of the world, and pass them to the command as one `world`."""

    @wraps(command)
    def with_world(
        *args: object,
        regime: str | None,
        contention: bool | None,
        neighbours: bool | None,
        links: bool | None,
        restart: str | None,
        durations: str | None,
        speed: str | None,
        full_speed: bool,
        exclude_families: tuple[str, ...],
        compute_scale: float,
        congestion: float,
        named_frac: float,
        reports_speed: bool,
        prediction_sigma: float,
        other_site: Path | None,
        stale_s: float,
        run_time_model: str,
        pairs_path: Path | None,
        pairs_gpu: str,
        opt_in_frac: float,
        known_frac: float,
        pairs_noise: float,
        **others: object,
    ) -> _Result:
        if full_speed and speed is not None:
            raise click.UsageError("--full-speed and --speed exclude each other")
        world = WorldSpec(
            speed=Speed.TRACE if full_speed else _speed(regime, speed),
            fidelity=_fidelity(regime, contention, neighbours, links, restart, durations),
            exclude_families=exclude_families,
            compute_scale=compute_scale,
            congestion=congestion,
            named_frac=named_frac,
            reports_speed=reports_speed,
            predictions=PredictionSpec(
                sigma=prediction_sigma,
                stale_s=stale_s,
                other_site=None if other_site is None else _site_of(other_site),
                **_model_of(run_time_model),
            ),
            sharing=_sharing(
                pairs_path,
                pairs_gpu,
                opt_in_frac=opt_in_frac,
                known_frac=known_frac,
                noise=pairs_noise,
            ),
        )
        return command(*args, world=world, **others)

    found: Callable[..., _Result] = with_world
    for option in reversed(_OPTIONS):
        found = option(found)
    return found


def _sharing(path: Path | None, gpu_type: str, **numbers: float) -> SharingSpec | None:
    """Read the truth about pairs; None: there is none, and no job shares.

    Raises:
        PairsError: the file cannot be used.
    """
    if path is None:
        return None
    pairs = read_pairs(path, gpu_type)
    return SharingSpec(pairs=pairs, digest=pairs.digest, **numbers)


def _site_of(path: Path) -> OtherSite:
    """Read what the jobs of another trace teach.

    Raises:
        TraceError: it cannot be read.
    """
    trace = load_trace(path).trace
    return OtherSite(trace=fingerprint(trace), history=learned_from(trace))


def _model_of(text: str) -> dict[str, Any]:
    """Return the fields of PredictionSpec about a model.

    Raises:
        SimError: the model cannot be loaded.
    """
    if text == "none":
        return {}
    path = Path(text)
    try:
        return {"model": path, "model_name": load_onnx_run_times(path, lambda: 0.0).name}
    except PolicyError as error:
        raise SimError(f"--run-time-model {path}: {error}") from error


def _speed(regime: str | None, speed: str | None) -> Speed:
    if speed is not None:
        return Speed(speed)
    return Speed.PUBLISHED if regime == Setting.PAPER else Speed.MEASURED


def _fidelity(
    regime: str | None,
    contention: bool | None,
    neighbours: bool | None,
    links: bool | None,
    restart: str | None,
    durations: str | None,
) -> Fidelity:
    base = DEFAULT_FIDELITY if regime is None else FIDELITIES[Setting(regime)]
    return replace(
        base,
        is_contended=base.is_contended if contention is None else contention,
        has_neighbours=base.has_neighbours if neighbours is None else neighbours,
        has_links=base.has_links if links is None else links,
        restart=base.restart if restart is None else RestartRule(restart),
        durations=base.durations if durations is None else Regime(durations),
    )
