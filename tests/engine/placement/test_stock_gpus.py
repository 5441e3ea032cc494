"""Plain Slurm's choice against what Debian's 22.05.8, 24.11.5 and 26.05.5 were measured to take."""

from collections.abc import Callable, Sequence

import pytest

from roost_engine.domain.topology import Level, Link, LinkMatrix
from roost_engine.placement.stock_gpus import choose_22_05, choose_since_24_05, sockets_of

CUBE_LANES = (
    (0, 1, 1, 2, 2, 0, 0, 0),
    (1, 0, 2, 1, 0, 2, 0, 0),
    (1, 2, 0, 2, 0, 0, 1, 0),
    (2, 1, 2, 0, 0, 0, 0, 1),
    (2, 0, 0, 0, 0, 1, 1, 2),
    (0, 2, 0, 0, 1, 0, 2, 1),
    (0, 0, 1, 0, 1, 2, 0, 2),
    (0, 0, 0, 1, 2, 1, 2, 0),
)
BRIDGE_LANES = tuple(tuple(12 if a // 2 == b // 2 else 0 for b in range(8)) for a in range(8))
ONE_SOCKET, TWO_SOCKETS = (range(8),), (range(4), range(4, 8))
ALL, WITHOUT_0 = range(8), range(1, 8)
Choose = Callable[[LinkMatrix, Sequence[int], int], tuple[int, ...]]
RELEASES = (choose_22_05, choose_since_24_05)


def matrix(lanes: tuple[tuple[int, ...], ...]) -> LinkMatrix:
    return LinkMatrix(
        tuple(
            tuple(
                None
                if a == b
                else Link(Level.NUMA_NODE if a // 4 == b // 4 else Level.SYSTEM, lanes[a][b])
                for b in range(8)
            )
            for a in range(8)
        )
    )


BRIDGES, CUBE = matrix(BRIDGE_LANES), matrix(CUBE_LANES)


@pytest.mark.parametrize(
    ("links", "sockets", "free", "count", "old", "new"),
    [
        (BRIDGES, ONE_SOCKET, ALL, 2, "01", "02"),
        (BRIDGES, ONE_SOCKET, ALL, 3, "012", "024"),
        (BRIDGES, ONE_SOCKET, ALL, 4, "0123", "0246"),
        (BRIDGES, ONE_SOCKET, ALL, 6, "012345", "024567"),
        (BRIDGES, ONE_SOCKET, WITHOUT_0, 2, "12", "12"),
        (BRIDGES, ONE_SOCKET, WITHOUT_0, 4, "1234", "1246"),
        (BRIDGES, TWO_SOCKETS, ALL, 2, "01", "02"),
        (BRIDGES, TWO_SOCKETS, ALL, 4, "0123", "0123"),
        (BRIDGES, TWO_SOCKETS, ALL, 6, "014567", "024567"),
        (BRIDGES, TWO_SOCKETS, WITHOUT_0, 2, "45", "46"),
        (CUBE, ONE_SOCKET, ALL, 2, "03", "05"),
        (CUBE, ONE_SOCKET, ALL, 4, "0134", "0257"),
        (CUBE, ONE_SOCKET, WITHOUT_0, 2, "12", "14"),
        (CUBE, ONE_SOCKET, WITHOUT_0, 4, "1235", "1346"),
        (CUBE, TWO_SOCKETS, ALL, 2, "03", "01"),
    ],
)
def test_takes_what_was_measured(
    links: LinkMatrix, sockets: tuple[range, ...], free: range, count: int, old: str, new: str
) -> None:
    for choose, expected in zip(RELEASES, (old, new), strict=True):
        assert "".join(map(str, choose(links, free, count, sockets))) == expected


@pytest.mark.parametrize("choose", RELEASES)
@pytest.mark.parametrize("lane_count", [0, 18])
def test_takes_the_lowest_where_all_are_linked_alike(choose: Choose, lane_count: int) -> None:
    links = LinkMatrix.uniform(8, Link(Level.NUMA_NODE, lane_count))
    assert choose(links, (1, 3, 4, 6, 7), 3) == (1, 3, 4)


def test_reads_sockets_from_the_matrix() -> None:
    assert sockets_of(BRIDGES) == ((0, 1, 2, 3), (4, 5, 6, 7))
    assert choose_since_24_05(BRIDGES, WITHOUT_0, 2) == (4, 6)


@pytest.mark.parametrize("choose", RELEASES)
def test_takes_nothing_when_nothing_is_asked_for(choose: Choose) -> None:
    assert choose(CUBE, ALL, 0) == ()


@pytest.mark.parametrize("choose", RELEASES)
def test_takes_distinct_free_gpus(choose: Choose) -> None:
    for mask in range(1, 256):
        free = [gpu for gpu in range(8) if mask >> gpu & 1]
        for count in range(1, len(free) + 1):
            chosen = choose(CUBE, free, count)
            assert len(chosen) == len(set(chosen)) == count
            assert set(chosen) <= set(free)


def test_refuses_more_than_is_free() -> None:
    with pytest.raises(ValueError, match="3 GPUs asked for, 2 free"):
        choose_since_24_05(CUBE, (0, 1), 3)
