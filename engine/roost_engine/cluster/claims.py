"""Which GPUs of each node are held by jobs, as masks.

Nearly always at most one job holds a GPU, and one mask for each node says it all. Two jobs may hold
it for a moment (a planned job, and one that Slurm started first): the GPU is free again when the
last of them releases it.
"""

from collections.abc import Sequence
from dataclasses import replace

from roost_engine.cluster.link_table import MAX_GPUS, mask_of
from roost_engine.domain.model import NodeShare


def claimable(share: NodeShare) -> NodeShare:
    """Drop GPUs past MAX_GPUS: nodes that large are never offered, but jobs run on them."""
    if not share.gpu_indices or share.gpu_indices[-1] < MAX_GPUS:  # they ascend
        return share
    indices = tuple(index for index in share.gpu_indices if index < MAX_GPUS)
    return replace(share, gpu_indices=indices)


class Claims:
    """Counts the holders of each GPU.

    Attributes:
        masks: by node, the GPUs that have a holder.
        layers: by node, only where a GPU has several holders: the GPUs with more than 1, 2, …
            holders. GPU 0 with one holder and GPU 1 with three: mask 0b11, layers [0b10, 0b10].
    """

    def __init__(self) -> None:
        self.masks: list[int] = []
        self.layers: dict[int, list[int]] = {}

    def add_node(self) -> None:
        """Append a node of which no GPU has a holder."""
        self.masks.append(0)

    def add(self, node: int, mask: int) -> None:
        """Give each GPU of a mask one more holder."""
        again = self.masks[node] & mask
        self.masks[node] |= mask
        if again:
            layers = self.layers.setdefault(node, [])
            for depth, layer in enumerate(layers):
                layers[depth], again = layer | again, layer & again
            if again:
                layers.append(again)

    def remove(self, node: int, mask: int) -> None:
        """Take one holder from each GPU of a mask; each has one."""
        if node in self.layers:
            mask = self._remove_from_layers(node, mask)
        self.masks[node] ^= mask

    def _remove_from_layers(self, node: int, mask: int) -> int:
        """Take one holder from each GPU, in the deepest layer that has it.

        Returns:
            The GPUs that are in no layer: their last holder goes.
        """
        layers = self.layers[node]
        for depth in reversed(range(len(layers))):
            layer = layers[depth]
            layers[depth], mask = layer & ~mask, mask & ~layer
        while layers and not layers[-1]:
            layers.pop()
        if not layers:
            del self.layers[node]
        return mask

    def check(self, holders: Sequence[Sequence[int]]) -> None:
        """Raise AssertionError where the number of holders of each GPU, by node, differs."""
        for node, counts in enumerate(holders):
            for depth, layer in enumerate((self.masks[node], *self.layers.get(node, ()))):
                there = mask_of(tuple(gpu for gpu, count in enumerate(counts) if count > depth))
                assert layer == there, "GPU holders drifted"
            assert max(counts) <= 1 + len(self.layers.get(node, ())), "GPU holders drifted"
        assert all(self.layers.values()), "GPU holders drifted"
