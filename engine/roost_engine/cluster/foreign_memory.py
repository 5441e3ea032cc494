"""GPUs with foreign memory: processes of no job use much of it, so the GPU is given out last.

Slurm does not know of such memory and allocates the GPU like any other, so the GPU stays free here
too. A pass searches for placements without these GPUs first, and with them where it finds none.
A search among GPUs that other jobs hold chooses others only where that costs nothing: no job waits
longer or is stopped for it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar

from roost_engine.cluster.free_capacity import FreeCapacity
from roost_engine.cluster.link_table import indices_of
from roost_engine.domain.actions import Decision
from roost_engine.domain.lazy import Lazy
from roost_engine.domain.model import NodeName, NodeShare

_GIB = 1 << 30
_ANY_NAME = NodeName("")  # FreeCapacity goes by index
_T = TypeVar("_T")


class ForeignMemory:
    """See the module.

    Args:
        free: what is free on each node.
        index_of: node index, by name.

    Attributes:
        used_bytes: the foreign memory by (node, GPU index); only of the GPUs to give out last.
    """

    def __init__(self, free: FreeCapacity, index_of: Mapping[NodeName, int]) -> None:
        self._free, self._index_of = free, index_of
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
            (node, NodeShare(_ANY_NAME, indices_of(mask)))
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

    def avoiding(self, search: Callable[[], _T]) -> Callable[[], _T]:
        """Return a search that treats these GPUs as held."""

        def search_others() -> _T:
            with self.withheld():
                return search()

        return search_others

    def is_among(self, shares: Iterable[NodeShare]) -> bool:
        """Return whether a GPU of some shares has foreign memory."""
        return bool(self.used_bytes) and bool(self._used_in(shares))

    def named_in(
        self, decision: Lazy[Decision], shares: Iterable[NodeShare], why: str
    ) -> Lazy[Decision]:
        """Return a decision that names the foreign memory of its GPUs, if there is any.

        Args:
            decision: of the placement.
            shares: the GPUs that it chose.
            why: why the job gets them all the same.
        """
        if not (used := self._used_in(shares)):
            return decision
        text = f"processes of no job use {', '.join(used)}, and {why}"
        return Lazy(lambda: _with_neighbour(decision.get(), text))

    def _used_in(self, shares: Iterable[NodeShare]) -> list[str]:
        return [
            f"{used_bytes / _GIB:.3g} GiB of GPU {gpu} of {share.node}"
            for share in shares
            for gpu in share.gpu_indices
            if (used_bytes := self.used_bytes.get((self._index_of.get(share.node, -1), gpu)))
        ]


def _with_neighbour(decision: Decision, text: str) -> Decision:
    """Return a decision whose `neighbour` begins with a text."""
    return replace(decision, neighbour="; ".join(filter(None, (text, decision.neighbour))))
