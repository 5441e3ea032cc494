"""The links between the GPUs of one node, and a parser of `nvidia-smi topo -m` output.

This module needs the standard library only, since the fake driver and the node tools use it too.

Source of the level names: `nvidia-smi topo -m` legend and nvmlGpuTopologyLevel_t.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import combinations

from roost_engine.domain.errors import TopologyError


class Level(IntEnum):
    """Distance between two PCIe devices; higher is farther."""

    INTERNAL = 1  # both on one board
    SINGLE_SWITCH = 2  # PIX
    MULTIPLE_SWITCHES = 3  # PXB
    HOST_BRIDGE = 4  # PHB
    NUMA_NODE = 5  # NODE
    SYSTEM = 6  # SYS


SYMBOL_LEVELS = {
    "PIX": Level.SINGLE_SWITCH,
    "PXB": Level.MULTIPLE_SWITCHES,
    "PHB": Level.HOST_BRIDGE,
    "NODE": Level.NUMA_NODE,
    "SYS": Level.SYSTEM,
    "SOC": Level.SYSTEM,  # the name of SYS before driver 384
}
LEVEL_SYMBOLS = {level: symbol for symbol, level in SYMBOL_LEVELS.items() if symbol != "SOC"} | {
    Level.INTERNAL: "PIX"
}

# Points of one pair. The order follows the hardware; the values are those of NVIDIA's
# go-gpuallocator, which the field uses by convention (its README; see docs/links.md).
LEVEL_SCORES = {
    Level.SYSTEM: 10,
    Level.NUMA_NODE: 20,
    Level.HOST_BRIDGE: 30,
    Level.MULTIPLE_SWITCHES: 40,
    Level.SINGLE_SWITCH: 50,
    Level.INTERNAL: 60,
}
NVLINK_LANE_SCORE = 100


@dataclass(frozen=True, slots=True)
class Link:
    """The connection between one pair of GPUs."""

    level: Level
    nvlink_count: int = 0

    @property
    def score(self) -> int:
        """Return the points of this pair: 100 per NVLink lane; without NVLink 10 to 60 by level."""
        return self.nvlink_count * NVLINK_LANE_SCORE or LEVEL_SCORES[self.level]

    @property
    def symbol(self) -> str:
        """Return the symbol that `nvidia-smi topo -m` prints: NV12, PIX, SYS."""
        return f"NV{self.nvlink_count}" if self.nvlink_count else LEVEL_SYMBOLS[self.level]


@dataclass(frozen=True, slots=True)
class LinkMatrix:
    """The links of one node: links[a][b] for a != b, None on the diagonal. Symmetric."""

    links: tuple[tuple[Link | None, ...], ...]

    def __post_init__(self) -> None:
        count = len(self.links)
        for a, row in enumerate(self.links):
            if len(row) != count:
                raise ValueError(f"row {a} has {len(row)} entries, want {count}")
            for b, link in enumerate(row):
                if (link is None) != (a == b):
                    raise ValueError(f"entry {a},{b}: the diagonal, and only it, is None")
                if link != self.links[b][a]:
                    raise ValueError(f"entry {a},{b} differs from {b},{a}")

    @property
    def gpu_count(self) -> int:
        """Return the number of GPUs of the node."""
        return len(self.links)

    def score(self, gpu_indices: Sequence[int]) -> int:
        """Return the link score of a set of GPUs: the sum over its pairs; 0 for one GPU."""
        chosen = sorted(set(gpu_indices))
        return sum(
            link.score
            for position, a in enumerate(chosen)
            for b in chosen[position + 1 :]
            if (link := self.links[a][b]) is not None
        )

    @classmethod
    def uniform(cls, gpu_count: int, link: Link) -> "LinkMatrix":
        """Return the matrix of a node in which every pair has the same link, as behind NVSwitch."""
        return cls(
            tuple(
                tuple(None if a == b else link for b in range(gpu_count)) for a in range(gpu_count)
            )
        )


_NVLINK = re.compile(r"NV([1-9]\d?)$")
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_GPU = re.compile(r"GPU\d+$")
_FIRST_HEADING = ("CPU", "NUMA")  # "CPU Affinity", "NUMA Affinity": the first non-device column


def parse_topo_matrix(text: str, source: str = "topology") -> LinkMatrix:
    """Read the output of `nvidia-smi topo -m`. NICs, affinities and the legend are ignored.

    The text does not show the PCIe level of pairs that have NVLink. Such a pair gets the level
    NUMA_NODE where both GPUs have the same CPU affinity, else the level SYSTEM.

    Args:
        text: the command's output, with tabs or spaces, with or without terminal colours.
        source: name of the text in errors, for instance a file name.

    Raises:
        TopologyError: the text has no matrix; a row is missing, too short or given twice; a
            symbol is unknown; or the matrix is not symmetric. The error names the line, counted
            from 1.
    """
    lines = [_ANSI.sub("", line).split() for line in text.splitlines()]
    head = next((i for i, tokens in enumerate(lines) if tokens), None)
    if head is None:
        raise TopologyError(source, 1, "empty; want the output of `nvidia-smi topo -m`")
    columns = _device_columns(lines[head])
    gpus = [name for name in columns if _GPU.match(name)]
    if not gpus:
        raise TopologyError(source, head + 1, "no GPU columns; want a header such as `GPU0 GPU1`")
    rows = _device_rows(lines, head, columns, source)
    missing = [name for name in gpus if name not in rows]
    if missing:
        raise TopologyError(source, len(lines), f"no row for {missing[0]}")
    return _build(gpus, columns, rows, source)


@dataclass(frozen=True, slots=True)
class _Row:
    line: int
    symbols: list[str]
    affinity: str | None


def _device_columns(header: list[str]) -> list[str]:
    stop = next((i for i, token in enumerate(header) if token in _FIRST_HEADING), len(header))
    return header[:stop]


def _device_rows(
    lines: list[list[str]], head: int, columns: list[str], source: str
) -> dict[str, _Row]:
    rows: dict[str, _Row] = {}
    for number, tokens in enumerate(lines[head + 1 :], start=head + 2):
        if not tokens or tokens[0] not in columns:
            if tokens and _GPU.match(tokens[0]):
                raise TopologyError(source, number, f"{tokens[0]} has a row but no column")
            if len(rows) < len(columns) and tokens and tokens[0] not in ("Legend:", "NIC"):
                raise TopologyError(source, number, f"{tokens[0]!r} is no device of the header")
            continue
        name, symbols = tokens[0], tokens[1 : len(columns) + 1]
        if name in rows:
            raise TopologyError(source, number, f"{name} has a second row")
        if len(symbols) < len(columns):
            raise TopologyError(
                source, number, f"{name} has {len(symbols)} entries, want {len(columns)}"
            )
        rest = tokens[len(columns) + 1 :]
        rows[name] = _Row(number, symbols, rest[0] if rest else None)
    return rows


def _build(gpus: list[str], columns: list[str], rows: dict[str, _Row], source: str) -> LinkMatrix:
    position = {name: columns.index(name) for name in gpus}
    matrix: list[tuple[Link | None, ...]] = []
    for a in gpus:
        row, links = rows[a], list[Link | None]()
        for b in gpus:
            symbol = row.symbols[position[b]]
            if (symbol == "X") != (a == b):
                raise TopologyError(source, row.line, f"{a} to {b} reads {symbol!r}")
            same_socket = row.affinity is not None and row.affinity == rows[b].affinity
            links.append(None if a == b else _link(symbol, same_socket, source, row.line))
        matrix.append(tuple(links))
    _check_symmetry(gpus, position, rows, source)
    return LinkMatrix(tuple(matrix))


def _check_symmetry(
    gpus: list[str], position: dict[str, int], rows: dict[str, _Row], source: str
) -> None:
    for a, b in combinations(gpus, 2):
        there, back = rows[a].symbols[position[b]], rows[b].symbols[position[a]]
        if there != back:
            raise TopologyError(
                source,
                rows[b].line,
                f"{b} to {a} reads {back!r} but {a} to {b} {there!r} in line {rows[a].line}",
            )


def _link(symbol: str, same_socket: bool, source: str, line: int) -> Link:
    if symbol in SYMBOL_LEVELS:
        return Link(SYMBOL_LEVELS[symbol])
    lanes = _NVLINK.match(symbol)
    if lanes is None:
        known = ", ".join(["X", "NV1..NV99", *SYMBOL_LEVELS])
        raise TopologyError(source, line, f"unknown link {symbol!r}; known are {known}")
    return Link(Level.NUMA_NODE if same_socket else Level.SYSTEM, int(lanes.group(1)))
