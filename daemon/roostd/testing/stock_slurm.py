"""Which GPUs of a node plain Slurm takes for --gres=gpu:N, as measured; to compare with.

Measured on Debian's 22.05.8, 24.11.5 and 26.05.5 with Links= and Cores= in gres.conf, the last two
alike (docs/links.md has the table). Slurm looks at NVLink lanes only, and only where GPUs also
have Cores= or Type=; without them it takes the lowest indices. Requests per job (--gpus=N) go
another way through Slurm and are not modelled.
"""

from collections.abc import Sequence
from enum import Enum

from roostd.core.topology import Level, LinkMatrix

_SELF_LINK = -1  # what Slurm writes on the diagonal of Links=


class StockOrder(Enum):
    """Two ways in which Slurm has put the free GPUs of a node in order."""

    LINKED_TO_FIRST = "22.05"
    SINCE_24_05 = "24.05"


def stock_choice(
    links: LinkMatrix,
    free: Sequence[int],
    gpu_count: int,
    order: StockOrder = StockOrder.SINCE_24_05,
    sockets: Sequence[Sequence[int]] | None = None,
) -> tuple[int, ...]:
    """The GPUs that plain Slurm would take.

    A request that fits a socket gets one socket, that with the most free GPUs. A larger one
    empties the later sockets and takes the rest from the first; this was measured for two.

    Args:
        links: of the node.
        free: indices of the free GPUs.
        gpu_count: how many are asked for.
        order: of the release.
        sockets: GPU indices by socket, as Cores= tells them; None reads them from `links`.

    Returns:
        Ascending indices.

    Raises:
        ValueError: fewer GPUs are free than asked for.
    """
    if not 0 <= gpu_count <= len(set(free)):
        raise ValueError(f"{gpu_count} GPUs asked for, {len(set(free))} free")
    lanes = _lanes(links)
    pick = _since_24_05 if order is StockOrder.SINCE_24_05 else _linked_to_first
    by_socket = [sorted(set(free).intersection(socket)) for socket in sockets or sockets_of(links)]
    roomiest = max(by_socket, key=len)
    if len(roomiest) >= gpu_count:
        return tuple(sorted(pick(lanes, roomiest, gpu_count)))
    chosen = list[int]()
    for position, socket in enumerate(by_socket):
        later = sum(len(other) for other in by_socket[position + 1 :])
        wanted = min(max(gpu_count - len(chosen) - later, 0), len(socket))
        chosen += pick(lanes, socket, wanted)
    return tuple(sorted(chosen))


def sockets_of(links: LinkMatrix) -> tuple[tuple[int, ...], ...]:
    """GPUs by CPU socket: those whose traffic to each other stays on one side of it."""
    rest, sockets = list(range(links.gpu_count)), list[tuple[int, ...]]()
    while rest:
        row = links.links[rest[0]]
        here = tuple(gpu for gpu in rest if (link := row[gpu]) is None or link.level < Level.SYSTEM)
        sockets.append(here)
        rest = [gpu for gpu in rest if gpu not in here]
    return tuple(sockets)


def _lanes(links: LinkMatrix) -> list[list[int]]:
    return [
        [_SELF_LINK if link is None else link.nvlink_count for link in row] for row in links.links
    ]


def _linked_to_first(lanes: list[list[int]], free: list[int], count: int) -> list[int]:
    """The lowest free GPU, then those with most lanes to that one, then the lowest."""
    if not count:
        return []
    first, *others = free
    return [first, *sorted(others, key=lambda gpu: -lanes[first][gpu])[: count - 1]]


def _since_24_05(lanes: list[list[int]], free: list[int], count: int) -> list[int]:
    """The lowest free GPU, then again and again one of those with the fewest lanes to the chosen.

    After each choice Slurm sorts the free GPUs, the chosen ones among them, by their lanes to all
    that are chosen. It means to put the most linked first and puts them last. It then goes on with
    the second of the list, not with the first. Equals keep the order of the sort before.
    """
    chosen, lanes_to_chosen = list[int](), dict.fromkeys(free, 0)
    queue, position = list(free), 0
    while len(chosen) < count:
        gpu = queue[position]
        position += 1
        if gpu in chosen:
            continue
        chosen.append(gpu)
        for other in free:
            lanes_to_chosen[other] += lanes[gpu][other]
        queue.sort(key=lambda other: lanes_to_chosen[other])
        position = 1
    return chosen
