"""`roost-sim profiles`: prints, plots and validates the speed profiles of jobs."""

import json
import zlib
from dataclasses import asdict
from pathlib import Path

import click

from roost_sim.clusters.cluster_file import load_cluster
from roost_sim.commands.link_tables import print_links
from roost_sim.errors import ProfileError
from roost_sim.options.completion import clusters
from roost_sim.worlds.model_sizes import size_of
from roost_sim.worlds.speed.dally_models import DALLY_MODELS
from roost_sim.worlds.speed.fitted_profiles import PROFILES
from roost_sim.worlds.speed.profile_fit import FitError, Measured, errors, read_pollux
from roost_sim.worlds.speed.speed_csv import speed_csv
from roost_sim.worlds.speed.tier_efficiency import JobProfile, TierEfficiency
from roost_sim.worlds.speed.union_tree import TREE_MODELS
from roost_sim.worlds.world_spec import Speed

_TABLE = "pollux_aws_t4_steptime.csv.gz"
_HELD_OUT, _LARGER = "held out", "larger than any fitted, up to 64 GPUs"
_PROFILES: dict[str, tuple[JobProfile, ...]] = {
    Speed.MEASURED.value: PROFILES,
    Speed.DALLY.value: DALLY_MODELS,
    Speed.TOPDRL.value: TREE_MODELS,
}


@click.command(
    short_help="Print how fast models run, by placement.",
    epilog="Example: roost-sim profiles --cluster venus --gpus 8 --plot profiles.svg",
)
@click.option(
    "--cluster",
    "cluster_name",
    default="venus",
    show_default=True,
    metavar="FILE|PRESET",
    shell_complete=clusters,
    help="Where the efficiencies hold.",
)
@click.option(
    "--gpus",
    "gpu_count",
    type=click.IntRange(1),
    default=8,
    show_default=True,
    help="Of the jobs that are shown.",
)
@click.option(
    "--speed",
    type=click.Choice(list(_PROFILES)),
    default=Speed.MEASURED.value,
    show_default=True,
    help="Profiles fitted on public tables, or the models of Dally's or TopDRL's simulator.",
)
@click.option(
    "--plot",
    "plot_path",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Draw efficiency by GPUs and tier; .svg or .png.",
)
@click.option(
    "--speed-table",
    "table_path",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the table of speeds that roostd reads (gate.speeds), for jobs of 2 to 64 GPUs.",
)
@click.option(
    "--validate", is_flag=True, help="Print the error on measured placements that no fit has seen."
)
@click.option(
    "--links",
    "has_links",
    is_flag=True,
    help="Print the all-reduce bandwidth of sets of GPUs inside the cluster's nodes, and its check "
    "against published measurements; ~ marks sizes of which not all sets were computed.",
)
@click.option(
    "--data",
    "data_path",
    envvar="ROOST_DATA_DIR",
    show_envvar=True,
    metavar="FOLDER",
    type=click.Path(path_type=Path),
    help=f"Folder of the public tables, for --validate: it or its throughput/ has {_TABLE}.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON array; with --links one object.")
def profiles(
    cluster_name: str,
    gpu_count: int,
    speed: str,
    plot_path: Path | None,
    table_path: Path | None,
    validate: bool,
    has_links: bool,
    data_path: Path | None,
    as_json: bool,
) -> None:
    """Print how fast models run on one node, in one rack and across racks.

    Efficiency is compute over compute and exposed communication of a step, of a job alone.
    """
    if validate:
        _print_errors(_tables(data_path), as_json=as_json)
        return
    cluster = load_cluster(cluster_name)
    if has_links:
        print_links(cluster, as_json=as_json)
        return
    if gpu_count > cluster.gpu_count:
        raise click.UsageError(f"--gpus {gpu_count}: {cluster.name} has {cluster.gpu_count}")
    tiers = TierEfficiency.of(cluster)
    rows = [_row(profile, gpu_count, tiers) for profile in _PROFILES[speed]]
    if table_path is not None:
        table_path.write_text(speed_csv(_PROFILES[speed], tiers))
    if plot_path is not None:
        _plot(plot_path, _PROFILES[speed], tiers, cluster.gpu_count)
    if as_json:
        click.echo(json.dumps(rows, allow_nan=False))
        return
    click.echo(
        f"{gpu_count} GPUs on {cluster.name}; GPU time per step that is compute:\n"
        f"{'profile':24} {'step s':>8} {'node':>6} {'rack':>6} {'racks':>6} {'MB':>6} {'skew':>5}"
    )
    for row in rows:
        click.echo(_line(row))
    for source in dict.fromkeys(str(row["source"]) for row in rows):
        click.echo(f"source: {source}")


def _row(profile: JobProfile, gpu_count: int, tiers: TierEfficiency) -> dict[str, object]:
    node, rack, across = tiers.efficiencies(profile, gpu_count)
    size = size_of(profile.family)
    return {
        "name": profile.name,
        "family": profile.family,
        "source": profile.source,
        "compute_s": profile.compute_s,
        "gpus": gpu_count,
        "efficiency_node": node,
        "efficiency_rack": rack,
        "efficiency_across_racks": across,
        "gradient_bytes": None if size is None else size.gradient_bytes,
        "skew_frac": None if size is None else size.skew_frac,
        "size_source": None if size is None else size.source,
    }


def _line(row: dict[str, object]) -> str:
    mb, skew = row["gradient_bytes"], row["skew_frac"]
    return (
        f"{row['name']:24} {row['compute_s']:8.4g} {row['efficiency_node']:6.3f} "
        f"{row['efficiency_rack']:6.3f} {row['efficiency_across_racks']:6.3f} "
        f"{'-' if not isinstance(mb, int) else format(mb / 1e6, '.0f'):>6} "
        f"{'-' if not isinstance(skew, float) else format(skew, '.2f'):>5}"
    )


def _plot(
    path: Path, profiles_: tuple[JobProfile, ...], tiers: TierEfficiency, most_gpus: int
) -> None:
    if path.suffix not in (".svg", ".png"):
        raise click.UsageError(f"--plot {path}: want a name that ends in .svg or .png")
    try:
        # Imported only here: matplotlib takes longer to import than everything else.
        from roost_sim.worlds.speed.profile_plot import plot_efficiencies
    except ImportError as error:
        raise ProfileError("--plot needs matplotlib: pip install 'roost[sim]'") from error
    plot_efficiencies(path, profiles_, tiers, most_gpus)


def _tables(data_path: Path | None) -> dict[str, list[Measured]]:
    """Measured placements that were held out of every fit, by kind.

    Raises:
        ProfileError: the table is not there.
    """
    cure = "download the table named in docs/simulator/speed.md, then give its folder by --data"
    if data_path is None:
        raise ProfileError(f"--validate needs the public table {_TABLE}: {cure}")
    places = (data_path / _TABLE, data_path / "throughput" / _TABLE)
    found = next((path for path in places if path.is_file()), None)
    if found is None:
        raise ProfileError(f"{data_path}: no {_TABLE} there: {cure}")
    try:
        return {
            _HELD_OUT: [row for row in read_pollux(found) if row.is_held_out],
            _LARGER: read_pollux(found, "scalability"),
        }
    except (KeyError, ValueError, TypeError, OSError, EOFError, zlib.error) as error:
        raise ProfileError(f"{found}: is not that table ({error}): {cure}") from error


def _print_errors(tables: dict[str, list[Measured]], *, as_json: bool) -> None:
    found = {name: errors(PROFILES, rows) for name, rows in tables.items()}
    if as_json:
        rows = [asdict(error) | {"rows": name} for name, group in found.items() for error in group]
        click.echo(json.dumps(rows))
        return
    click.echo("Relative error of predicted step times, on placements that no fit has seen.")
    for name, group in found.items():
        click.echo(f"\n{name}:\n{'family':12} {'rows':>6} {'mean':>7} {'median':>7} {'p90':>7}")
        for error in group:
            click.echo(_error_line(error))


def _error_line(error: FitError) -> str:
    return (
        f"{error.family:12} {error.row_count:6} {error.mean_frac:7.1%}"
        f" {error.median_frac:7.1%} {error.p90_frac:7.1%}"
    )
