"""Which GPUs of a node plain Slurm takes for --gres=gpu:N, as measured; to compare with.

Measured on Debian's 22.05.8, 24.11.5 and 26.05.5 with Links= and Cores= in gres.conf, the last two
alike; tests/daemon/test_stock_slurm.py has the table. Slurm looks at NVLink lanes only, and only
where GPUs also have Cores= or Type=; without them it takes the lowest indices. Requests per job
(--gpus=N) go another way through Slurm and are not modelled.
"""

from collections.abc import Callable, Sequence

from roost_engine.domain.topology import Level, LinkMatrix

_SELF_LINK = -1  # what Slurm writes on the diagonal of Links=


def choose_since_24_05(
    links: LinkMatrix,
    free: Sequence[int],
    gpu_count: int,
    sockets: Sequence[Sequence[int]] | None = None,
) -> tuple[int, ...]:
    """The GPUs that Slurm 24.05 and all later releases take.

    A request that fits a socket gets one socket, that with the most free GPUs. A larger one
    empties the later sockets and takes the rest from the first; this was measured for two.

    Args:
        links: of the node.
        free: indices of the free GPUs.
        gpu_count: how many are asked for.
        sockets: GPU indices by socket, as Cores= tells them; None reads them from `links`.

    Returns:
        Ascending indices.

    Raises:
        ValueError: fewer GPUs are free than asked for.
    """
    return _choose(_fewest_lanes_next, links, free, gpu_count, sockets)


def choose_22_05(
    links: LinkMatrix,
    free: Sequence[int],
    gpu_count: int,
    sockets: Sequence[Sequence[int]] | None = None,
) -> tuple[int, ...]:
    """The GPUs that Slurm 22.05 takes; see choose_since_24_05."""
    return _choose(_linked_to_first, links, free, gpu_count, sockets)


def _choose(
    pick: Callable[[list[list[int]], list[int], int], list[int]],
    links: LinkMatrix,
    free: Sequence[int],
    gpu_count: int,
    sockets: Sequence[Sequence[int]] | None,
) -> tuple[int, ...]:
    if not 0 <= gpu_count <= len(set(free)):
        raise ValueError(f"{gpu_count} GPUs asked for, {len(set(free))} free")
    lanes = _lanes(links)
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


def _fewest_lanes_next(lanes: list[list[int]], free: list[int], count: int) -> list[int]:
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
