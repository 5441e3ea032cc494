"""Link shapes: common link matrices of a node, by name.

Lanes are those of the named machines; a matrix that a site recorded with `nvidia-smi topo -m` is
better than any of these.
"""

from collections.abc import Callable, Iterable

from roost_engine.domain.topology import Level, Link, LinkMatrix

# NVIDIA DGX-1 with Tesla V100, system architecture white paper (WP-08437), figure 4.
_CUBE_LANES = {
    (0, 1): 1, (0, 2): 1, (0, 3): 2, (0, 4): 2, (1, 2): 2, (1, 3): 1, (1, 5): 2, (2, 3): 2,
    (2, 6): 1, (3, 7): 1, (4, 5): 1, (4, 6): 1, (4, 7): 2, (5, 6): 2, (5, 7): 1, (6, 7): 2,
}  # fmt: skip


def _switched(gpu_count: int, lanes: int) -> LinkMatrix:
    return _matrix(gpu_count, lambda a, b: Link(_socket_level(a, b, gpu_count), lanes))


def _cube() -> LinkMatrix:
    return _matrix(8, lambda a, b: Link(_socket_level(a, b, 8), _CUBE_LANES.get((a, b), 0)))


def _pairs(gpu_count: int, lanes: int) -> LinkMatrix:
    """Neighbours 0-1, 2-3, … share a bridge of `lanes` lanes, or only a PCIe switch at 0 lanes."""

    def link(a: int, b: int) -> Link:
        if a // 2 != b // 2:
            return Link(_socket_level(a, b, gpu_count))
        return Link(Level.NUMA_NODE, lanes) if lanes else Link(Level.SINGLE_SWITCH)

    return _matrix(gpu_count, link)


def _socket_level(a: int, b: int, gpu_count: int) -> Level:
    half = (gpu_count + 1) // 2
    return Level.NUMA_NODE if (a < half) == (b < half) else Level.SYSTEM


def _matrix(gpu_count: int, link: Callable[[int, int], Link]) -> LinkMatrix:
    def entry(a: int, b: int) -> Link | None:
        return None if a == b else link(min(a, b), max(a, b))

    return LinkMatrix(tuple(tuple(entry(a, b) for b in range(gpu_count)) for a in range(gpu_count)))


SHAPES: dict[str, LinkMatrix] = {
    "single": _pairs(1, 0),
    "pcie2": _pairs(2, 0),
    "pcie4": _pairs(4, 0),
    "pcie8": _pairs(8, 0),
    "bridges4": _pairs(4, 4),
    "bridges8": _pairs(8, 4),
    "cube8": _cube(),
    "a100x4": _switched(4, 4),
    "a100x8": _switched(8, 12),
    "h100x8": _switched(8, 18),
    "v100x16": _switched(16, 6),
}
"""By name: pcieN two GPUs a PCIe switch, half of them a socket; bridgesN with NVLink bridges
between neighbours; cube8 the DGX-1V; a100x4 four A100 without switch (HGX), a100x8, h100x8 and
v100x16 behind NVSwitch (DGX A100, DGX H100, DGX-2)."""


def shape_names() -> Iterable[str]:
    """Return the names of all shapes, sorted, for messages."""
    return sorted(SHAPES)
