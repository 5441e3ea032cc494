"""Which GPUs of which nodes somebody claims, as masks.

Nearly always one job at most claims a GPU, and a mask a node says it all. Two may for a moment (a
plan, and an outsider that Slurm started first), so that a GPU is free again when the last lets go.
"""

from collections.abc import Sequence
from dataclasses import replace

from roost_engine.cluster.link_table import MAX_GPUS, mask_of
from roost_engine.domain.model import NodeShare


def claimable(share: NodeShare) -> NodeShare:
    """Drop GPUs past MAX_GPUS: nodes that large are never offered, their jobs still count."""
    if not share.gpu_indices or share.gpu_indices[-1] < MAX_GPUS:  # they ascend
        return share
    indices = tuple(index for index in share.gpu_indices if index < MAX_GPUS)
    return replace(share, gpu_indices=indices)


class Claims:
    """Counts holders.

    Attributes:
        masks: by row, the GPUs that anybody claims.
    """

    def __init__(self) -> None:
        self.masks: list[int] = []
        # By row, only of nodes where several claim one: those with more than 1, 2, … holders.
        self._more: dict[int, list[int]] = {}

    def add_node(self) -> None:
        """Begin the next row, of which nobody claims anything."""
        self.masks.append(0)

    def add(self, row: int, mask: int) -> None:
        """Let each GPU of a mask have one holder more."""
        again = self.masks[row] & mask
        self.masks[row] |= mask
        if again:
            layers = self._more.setdefault(row, [])
            for depth, layer in enumerate(layers):
                layers[depth], again = layer | again, layer & again
            if again:
                layers.append(again)

    def remove(self, row: int, mask: int) -> None:
        """Let each GPU of a mask have one holder less; each has one."""
        if row in self._more:
            mask = self._remove_more(row, mask)
        self.masks[row] ^= mask

    def _remove_more(self, row: int, mask: int) -> int:
        """Take from the deepest layers. Returns the GPUs whose last holder this was."""
        layers = self._more[row]
        for depth in reversed(range(len(layers))):
            layer = layers[depth]
            layers[depth], mask = layer & ~mask, mask & ~layer
        while layers and not layers[-1]:
            layers.pop()
        if not layers:
            del self._more[row]
        return mask

    def check(self, holders: Sequence[Sequence[int]]) -> None:
        """Raise AssertionError where the holders of each GPU, by row, are not these."""
        for row, counts in enumerate(holders):
            for depth, layer in enumerate((self.masks[row], *self._more.get(row, ()))):
                there = mask_of(tuple(gpu for gpu, count in enumerate(counts) if count > depth))
                assert layer == there, "GPU holders drifted"
            assert max(counts) <= 1 + len(self._more.get(row, ())), "GPU holders drifted"
        assert all(self._more.values()), "GPU holders drifted"
