"""gres.conf and the Gres= of nodes: each GPU gets its own type, so that a request can name it."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeVar

from roost_slurm.hooks.hook_seats import SEAT_FOLDER
from roost_slurm.site.inventory import NodeGpus
from roost_slurm.text import hostlist
from roost_slurm.text.tres import SEAT_TOKEN

_SEAT_MAJOR = 241  # "local or experimental use" in Linux' list of device numbers: no driver

K = TypeVar("K", bound=Hashable)


def gres_conf(
    nodes: Sequence[NodeGpus],
    *,
    device_prefix: str,
    seats: bool,
    counted: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Render gres.conf; nodes whose GPUs have the same device files share their lines.

    Args:
        nodes: the nodes.
        device_prefix: what stands before a GPU's minor number.
        seats: whether each GPU gets a second entry.
        counted: the model of each node that gets a count-only gres of that name.
    """
    # Detection would rename the types and refuse the seats.
    lines = ["AutoDetect=off"]
    for layout, names in group(nodes, lambda node: node.minor_numbers):
        for i, minor in enumerate(layout):
            lines.append(f"NodeName={names} Name=gpu Type=g{i} File={device_prefix}{minor}")
        if seats:
            for i, minor in enumerate(layout):
                files = f"{device_prefix}{minor},{SEAT_FOLDER}/seat{i}"
                lines.append(f"NodeName={names} Name=gpu Type=s{i} MultipleFiles={files}")
            lines.append(f"NodeName={names} Name={SEAT_TOKEN} Count={len(layout)}")
    for (model, count), names in group(nodes, lambda node: _tokens_of(node, counted, seats)):
        if model:
            lines.append(f"NodeName={names} Name={model} Count={count} Flags=CountOnly")
    return "\n".join(lines) + "\n"


def node_gres(node: NodeGpus, *, seats: bool, counted: Mapping[str, str]) -> str:
    """Return a node's Gres= for slurm.conf; see gres_conf."""
    indices = range(len(node.gpus))
    entries = [f"gpu:g{i}:1" for i in indices]
    if seats:
        entries += [f"gpu:s{i}:1" for i in indices]
        entries.append(f"{SEAT_TOKEN}:{len(indices)}")
    model, count = _tokens_of(node, counted, seats)
    if model:
        entries.append(f"{model}:{count}")
    return ",".join(entries)


def _tokens_of(node: NodeGpus, counted: Mapping[str, str], seats: bool) -> tuple[str, int]:
    # A job on a second seat takes a token of its model too.
    return counted.get(node.node, ""), len(node.gpus) * (2 if seats else 1)


def seat_devices(nodes: Sequence[NodeGpus]) -> str:
    """Render a tmpfiles.d file with one harmless device a seat, which no other job may open."""
    most = max(len(node.gpus) for node in nodes)
    lines = [f"d {SEAT_FOLDER} 0755 root root -"]
    lines += [f"c {SEAT_FOLDER}/seat{i} 0666 root root - {_SEAT_MAJOR}:{i}" for i in range(most)]
    return "\n".join(lines) + "\n"


def group(nodes: Iterable[NodeGpus], key: Callable[[NodeGpus], K]) -> list[tuple[K, str]]:
    """Collect the nodes that have GPUs by a key, in the order of their first node's name.

    Returns:
        For each key its value and the nodes as a host list.
    """
    members: defaultdict[K, list[str]] = defaultdict(list)
    for node in nodes:
        if node.gpus:
            members[key(node)].append(node.node)
    return [(value, hostlist.compress(names)) for value, names in members.items()]
