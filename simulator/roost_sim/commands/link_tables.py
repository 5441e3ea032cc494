"""The tables of `roost-sim profiles --links`: bandwidths of sets, constants, and their check."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass

import click

from roost_engine.domain.topology import LEVEL_SYMBOLS, Level
from roost_sim.clusters.cluster_spec import ClusterSpec, NodeKind
from roost_sim.worlds.links.link_bandwidth import LinkBandwidth
from roost_sim.worlds.links.link_check import TOLERANCE_FRAC, checks
from roost_sim.worlds.links.link_constants import GENERATIONS, Generation
from roost_sim.worlds.links.set_search import ALL_SETS, PROMISING_SETS

_GB = 1e9


def print_links(cluster: ClusterSpec, *, as_json: bool) -> None:
    """Print the best and worst set of each size of each node kind, the constants, and the check."""
    kinds = {id(node.kind): node.kind for node in cluster.nodes}.values()
    sets = [found for kind in kinds for found in _sets(kind)]
    if as_json:
        rows = {
            "sets": [asdict(found) for found in sets],
            "generations": [_generation_row(each) for each in GENERATIONS],
            "checks": [
                asdict(check) | {"error_frac": check.error_frac, "is_met": check.is_met}
                for check in checks()
            ],
        }
        click.echo(json.dumps(rows, allow_nan=False))
        return
    _print_sets(cluster.name, sets)
    _print_generations()
    _print_checks()


@dataclass(frozen=True, slots=True)
class _Sets:
    """The best and the worst set of one size of one node kind.

    `is_exact`: False: of the many sets only promising ones were computed.
    """

    kind: str
    generation: str
    gpus: int
    best_bytes_per_s: float
    worst_bytes_per_s: float
    worst_set: tuple[int, ...]
    worst_stretch: float
    is_exact: bool


def _sets(kind: NodeKind) -> Iterator[_Sets]:
    bandwidth = LinkBandwidth.of(kind.links, kind.gpu_model)
    for count in range(2, kind.gpu_count + 1):
        best, worst = bandwidth.fastest(count), bandwidth.slowest(count)
        yield _Sets(
            kind=kind.name,
            generation=bandwidth.generation.name,
            gpus=count,
            best_bytes_per_s=best.value,
            worst_bytes_per_s=worst.value,
            worst_set=worst.gpus,
            worst_stretch=bandwidth.stretch(worst.gpus),
            is_exact=best.is_exact and worst.is_exact,
        )


def _pcie(generation: Generation) -> dict[str, float]:
    """Bandwidths by the symbols of `nvidia-smi topo -m`."""
    return {
        LEVEL_SYMBOLS[level]: generation.pcie_bytes_per_s[level]
        for level in Level
        if level is not Level.INTERNAL
    }


def _generation_row(generation: Generation) -> dict[str, object]:
    return {
        "generation": generation.name,
        "lane_bytes_per_s": generation.lane_bytes_per_s,
        "most_lanes": generation.most_lanes,
        "pcie_bytes_per_s": _pcie(generation),
        "source": generation.source,
    }


def _print_sets(cluster: str, sets: list[_Sets]) -> None:
    click.echo(
        f"{cluster}: all-reduce inside a node, GB/s a GPU\n"
        f"{'node kind':16} {'links':12} {'GPUs':>4} {'best':>6} {'worst':>6} {'ratio':>6}"
        "  worst set"
    )
    for found in sets:
        click.echo(
            f"{found.kind:16} {found.generation:12} {found.gpus:4} "
            f"{found.best_bytes_per_s / _GB:6.1f} {found.worst_bytes_per_s / _GB:6.1f} "
            f"{found.worst_stretch:6.2f}{' ' if found.is_exact else '~'} "
            f"{','.join(map(str, found.worst_set))}"
        )
    if not all(found.is_exact for found in sets):
        click.echo(
            f"~ of the more than {ALL_SETS} sets of this size, the {PROMISING_SETS} most promising"
            " were computed: another may be better than the best or worse than the worst"
        )


def _print_generations() -> None:
    symbols = list(_pcie(GENERATIONS[0]))
    click.echo(
        f"\nOne link, GB/s in one direction\n{'links':12} {'lane':>5} "
        + " ".join(f"{symbol:>5}" for symbol in symbols)
        + "  source"
    )
    for generation in GENERATIONS:
        widths = " ".join(f"{width / _GB:5.1f}" for width in _pcie(generation).values())
        lane = generation.lane_bytes_per_s / _GB
        click.echo(f"{generation.name:12} {lane:5.1f} {widths}  {generation.source}")


def _print_checks() -> None:
    found = checks()
    met = sum(check.is_met for check in found)
    click.echo(
        f"\nPublished measurements: {met} of {len(found)} within {TOLERANCE_FRAC:.0%}\n"
        f"{'what':46} {'measured':>8} {'model':>7} {'error':>6}  source"
    )
    for check in found:
        unit = 1.0 if check.what.startswith("ratio") else _GB
        click.echo(
            f"{check.what:46} {check.measured_bytes_per_s / unit:8.1f} "
            f"{check.predicted_bytes_per_s / unit:7.1f} {check.error_frac:+6.0%}"
            f"{' ' if check.is_met else '*'} {check.source}"
        )
    click.echo("* not met")
