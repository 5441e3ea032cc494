"""A whole `nvidia-smi topo -m` text: GPUs, and the NICs and affinities beside them.

roost_engine.domain.topology reads the links between GPUs; this adds what a fake node needs besides.
"""

import re
from dataclasses import dataclass
from importlib import resources

from roost_engine.domain.topology import SYMBOL_LEVELS, Level, LinkMatrix, parse_topo_matrix
from roost_probe.testing.errors import DescriptionError

_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_RANGES = re.compile(r"\d+(-\d+)?(,\d+(-\d+)?)*$")


@dataclass(frozen=True, slots=True)
class TopoText:
    """One matrix, read."""

    links: LinkMatrix
    nic_names: tuple[str, ...]
    nic_levels: tuple[tuple[Level, ...], ...]  # [nic, gpu]
    nic_nic_levels: tuple[tuple[Level, ...], ...]  # [nic, nic]; INTERNAL on the diagonal
    cpu_affinities: tuple[str | None, ...]  # [gpu], Linux list format
    numa_nodes: tuple[tuple[int, ...], ...]  # [gpu], empty: not stated


def sample_names() -> tuple[str, ...]:
    """Return the names of the matrices that ship with the package."""
    folder = resources.files("roost_probe.testing") / "topologies"
    return tuple(
        sorted(f.name.removesuffix(".txt") for f in folder.iterdir() if f.name.endswith(".txt"))
    )


def sample_text(name: str) -> str:
    """Return the text of a sample matrix.

    Raises:
        DescriptionError: there is none of that name.
    """
    if name not in sample_names():
        raise DescriptionError(
            f"no topology {name!r}; give a file, or one of {', '.join(sample_names())}"
        )
    return (resources.files("roost_probe.testing") / "topologies" / f"{name}.txt").read_text()


def read_topo_text(text: str, source: str = "topology") -> TopoText:
    """Read a matrix with everything in it.

    Raises:
        roost_engine.domain.errors.TopologyError: it is no matrix; names the line.
        DescriptionError: a NIC has no row, or an unknown symbol.
    """
    links = parse_topo_matrix(text, source)
    lines = [tokens for line in text.splitlines() if (tokens := _ANSI.sub("", line).split())]
    heads = lines[0][: _heading_end(lines[0])]
    rows = {tokens[0]: tokens[1:] for tokens in lines[1:] if tokens[0] in heads}
    nics = tuple(name for name in heads if not re.fullmatch(r"GPU\d+", name))
    gpus = tuple(name for name in heads if name not in nics)

    def levels(nic: str, others: tuple[str, ...]) -> tuple[Level, ...]:
        if len(rows.get(nic, ())) < len(heads):
            raise DescriptionError(f"{source}: {nic} has a column but no whole row")
        symbols = [rows[nic][heads.index(other)] for other in others]
        unknown = [s for s in symbols if s != "X" and s not in SYMBOL_LEVELS]
        if unknown:
            raise DescriptionError(f"{source}: {nic} has an unknown link {unknown[0]!r}")
        return tuple(SYMBOL_LEVELS.get(s, Level.INTERNAL) for s in symbols)

    rest = [rows[gpu][len(heads) :] for gpu in gpus]
    has_cpus = "CPU" in lines[0]
    return TopoText(
        links=links,
        nic_names=nics,
        nic_levels=tuple(levels(nic, gpus) for nic in nics),
        nic_nic_levels=tuple(levels(nic, nics) for nic in nics),
        cpu_affinities=tuple(_list(r[:1])[0] if has_cpus else None for r in rest),
        numa_nodes=tuple(expand(_list(r[1:2])[0]) for r in rest),
    )


def _heading_end(header: list[str]) -> int:
    return next((i for i, token in enumerate(header) if token in ("CPU", "NUMA")), len(header))


def _list(tokens: list[str]) -> list[str | None]:
    return [tokens[0] if tokens and _RANGES.match(tokens[0]) else None]


def expand(ranges: str | None) -> tuple[int, ...]:
    """Return the numbers of a Linux list: "0-2,8" is 0, 1, 2, 8."""
    if ranges is None:
        return ()
    numbers = list[int]()
    for part in ranges.split(","):
        first, _, last = part.partition("-")
        numbers += range(int(first), int(last or first) + 1)
    return tuple(numbers)
