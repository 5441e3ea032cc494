"""GPUs with foreign memory: processes of no job use much of it, so the GPU is given out last.

Slurm does not know of such memory and allocates the GPU like any other, so the GPU stays free here
too. A pass searches for placements without these GPUs first, and with them where it finds none.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from roost_engine.cluster.free_capacity import FreeCapacity
from roost_engine.cluster.link_table import indices_of
from roost_engine.domain.model import NodeName, NodeShare

_GIB = 1 << 30


class ForeignMemory:
    """See the module.

    Args:
        free: what is free on each node.
        names: by node.

    Attributes:
        used_bytes: the foreign memory by (node, GPU index); only of the GPUs to give out last.
    """

    def __init__(self, free: FreeCapacity, names: Sequence[NodeName]) -> None:
        self._free, self._names = free, names
        self.used_bytes: dict[tuple[int, int], int] = {}

    def apply(self, node: int, gpu_index: int, used_bytes: int) -> None:
        """Give a GPU out last or, with 0 bytes, like any other one."""
        if used_bytes > 0:
            self.used_bytes[node, gpu_index] = used_bytes
        else:
            self.used_bytes.pop((node, gpu_index), None)

    def forget(self, node: int) -> None:
        """Forget the GPUs of a node: it is gone, or has other GPUs than before."""
        self.used_bytes = {gpu: size for gpu, size in self.used_bytes.items() if gpu[0] != node}

    @contextmanager
    def withheld(self) -> Iterator[int]:
        """Treat these GPUs as held while the context lasts.

        Yields:
            The number of nodes on which at least one of them is free.
        """
        free, freed = self._free, self._free.freed  # nothing is freed: these nodes gain nothing
        masks: dict[int, int] = {}
        for node, gpu in self.used_bytes:
            masks[node] = masks.get(node, 0) | 1 << gpu
        taken = [
            (node, NodeShare(self._names[node], indices_of(mask)))
            for node, wanted in masks.items()
            if (mask := wanted & int(free.gpu_masks[node]))
        ]
        for node, share in taken:
            free.claim(node, share)
        free.trial_count += 1
        try:
            yield len(taken)
        finally:
            for node, share in taken:
                free.unclaim(node, share)
            free.freed = freed
            free.trial_count += 1

    def describe(self, index_of: dict[NodeName, int], shares: Iterable[NodeShare]) -> str:
        """Return which GPUs of some shares have foreign memory, for a human; "" if none has."""
        found = [
            f"{used_bytes / _GIB:.3g} GiB of GPU {gpu} of {share.node}"
            for share in shares
            for gpu in share.gpu_indices
            if (used_bytes := self.used_bytes.get((index_of.get(share.node, -1), gpu)))
        ]
        if not found:
            return ""
        return f"processes of no job use {', '.join(found)}, and no other place was free"
