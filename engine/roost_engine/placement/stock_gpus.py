"""Stock Slurm's choice of GPUs on a node for --gres=gpu:N, as measured.

Measured on Debian's 22.05.8, 24.11.5 and 26.05.5 with Links= and Cores= in gres.conf, the last two
alike; tests/engine/placement/test_stock_gpus.py has the table. Slurm looks at NVLink
lanes only, and only where GPUs also have Cores= or Type=; without them it takes the lowest indices.
Requests per job (--gpus=N) take another path through Slurm and are not modelled.
"""

from collections.abc import Callable, Sequence

from roost_engine.domain.topology import Level, LinkMatrix

_SELF_LINK = -1  # Slurm's value on the diagonal of Links=


def choose_since_24_05(
    links: LinkMatrix,
    free: Sequence[int],
    gpu_count: int,
    sockets: Sequence[Sequence[int]] | None = None,
) -> tuple[int, ...]:
    """Return the GPUs that Slurm 24.05 and all later releases take.

    A request that fits on a socket gets the socket with the most free GPUs. A larger request
    takes all GPUs of the later sockets and the others from the first; measured for two sockets.

    Args:
        links: link matrix of the node.
        free: indices of the free GPUs.
        gpu_count: how many GPUs the job requests.
        sockets: GPU indices by socket, as Cores= gives them; None: derived from `links`.

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
    """Return the GPUs that Slurm 22.05 takes; see choose_since_24_05."""
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
    freest = max(by_socket, key=len)
    if len(freest) >= gpu_count:
        return tuple(sorted(pick(lanes, freest, gpu_count)))
    chosen: list[int] = []
    for position, socket in enumerate(by_socket):
        later = sum(len(other) for other in by_socket[position + 1 :])
        wanted = min(max(gpu_count - len(chosen) - later, 0), len(socket))
        chosen += pick(lanes, socket, wanted)
    return tuple(sorted(chosen))


def sockets_of(links: LinkMatrix) -> tuple[tuple[int, ...], ...]:
    """Return the GPUs of each CPU socket: no link between two of them crosses sockets."""
    left, sockets = list(range(links.gpu_count)), list[tuple[int, ...]]()
    while left:
        row = links.links[left[0]]
        near = tuple(gpu for gpu in left if (link := row[gpu]) is None or link.level < Level.SYSTEM)
        sockets.append(near)
        left = [gpu for gpu in left if gpu not in near]
    return tuple(sockets)


def _lanes(links: LinkMatrix) -> list[list[int]]:
    return [
        [_SELF_LINK if link is None else link.nvlink_count for link in row] for row in links.links
    ]


def _linked_to_first(lanes: list[list[int]], free: list[int], count: int) -> list[int]:
    """Return the lowest free GPU and those with the most lanes to it; ties go to the lowest."""
    if not count:
        return []
    first, *others = free
    return [first, *sorted(others, key=lambda gpu: -lanes[first][gpu])[: count - 1]]


def _fewest_lanes_next(lanes: list[list[int]], free: list[int], count: int) -> list[int]:
    """Return the lowest free GPU, then one by one those with the fewest lanes to the chosen ones.

    After each choice Slurm sorts the free GPUs, chosen ones included, by their lanes to all chosen
    GPUs. It means to put the most linked GPUs first and puts them last. It then continues with the
    second GPU of the list, not with the first. The sort is stable.
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
