"""What is free on each node: GPUs, CPUs and memory.

What Slurm says overrides what was planned: two jobs may hold one GPU for a moment (a planned job,
and one that Slurm started first), so holders are counted, and a GPU is free when it has none.
"""

from collections.abc import Sequence

import numpy as np

from roost_engine.cluster.claims import Claims
from roost_engine.cluster.index_set_counts import ClusterSetCounts
from roost_engine.cluster.link_table import mask_of
from roost_engine.cluster.node_groups import NodeGroups
from roost_engine.cluster.node_sets import NO_NODES, Levels, NodeSet, doubled
from roost_engine.domain.model import NodeShare


class FreeCapacity:
    """The free GPUs, CPUs and bytes of each node, and which nodes gained some.

    Attributes:
        gpu_masks: int64 [node], the GPUs that are healthy and held by no job; longer than there
            are nodes.
        gpus, cpus, memory_bytes: how much of each is free, by node; CPUs and bytes are negative
            where jobs hold more than there is.
        gpu_count: free GPUs of all nodes, whether Slurm would use the node or not.
        groups: the nodes of each kind with the same GPUs free.
        sets_in_common: on how many nodes each index set is free.
        freed: the nodes that may have gained capacity; emptied by the reader.
        trial_count: how often shares were claimed or freed for a trial, which is no change of the
            cluster; what keeps features of the masks reads them again.
    """

    def __init__(self) -> None:
        self.gpu_masks = np.zeros(64, dtype=np.int64)
        self.gpus, self.cpus, self.memory_bytes = Levels(), Levels(), Levels()
        self.gpu_count = 0
        self.groups = NodeGroups()
        self.sets_in_common = ClusterSetCounts(self.groups.occupied)
        self.freed: NodeSet = NO_NODES
        self.trial_count = 0
        self._claims = Claims()
        self._healthy: list[int] = []  # by node, mask of the GPUs that are there and healthy

    def add_node(self) -> None:
        """Append a node: of kind 0, with nothing on it."""
        if len(self._healthy) == len(self.gpu_masks):
            self.gpu_masks = doubled(self.gpu_masks)
        for part in (self.gpus, self.cpus, self.memory_bytes, self.groups, self._claims):
            part.add_node()
        self._healthy.append(0)

    def set_gpus(self, node: int, kind: int, healthy: int) -> None:
        """Set the kind of a node and the mask of its healthy GPUs."""
        self._healthy[node] = healthy
        group, free = self.groups.of_node[node], healthy & ~self._claims.masks[node]
        if free != group.free or kind != group.kind:
            self._regroup(node, kind, group.free, free)

    @property
    def is_contested(self) -> bool:
        """Whether several jobs hold one GPU, so that it is not free when one of them ends."""
        return bool(self._claims.layers)

    def claim(self, node: int, share: NodeShare) -> None:
        """Let a job hold a share of a node."""
        masks, mask = self._claims.masks, mask_of(share.gpu_indices)
        if masks[node] & mask:
            self._claims.add(node, mask)
        else:  # nearly always: the same without a call
            masks[node] |= mask
        if share.cpu_count:
            self.cpus.change(node, -share.cpu_count)
        if share.memory_bytes:
            self.memory_bytes.change(node, -share.memory_bytes)
        group, free = self.groups.of_node[node], self._healthy[node] & ~masks[node]
        if free != group.free:
            self._regroup(node, group.kind, group.free, free)

    def unclaim(self, node: int, share: NodeShare) -> None:
        """Let a job no longer hold a share of a node."""
        claims, mask = self._claims, mask_of(share.gpu_indices)
        if claims.layers:
            claims.remove(node, mask)
        else:
            claims.masks[node] ^= mask
        if share.cpu_count:
            self.cpus.change(node, share.cpu_count)
        if share.memory_bytes:
            self.memory_bytes.change(node, share.memory_bytes)
        group, free = self.groups.of_node[node], self._healthy[node] & ~claims.masks[node]
        if free != group.free:
            self._regroup(node, group.kind, group.free, free)
        self.freed |= 1 << node

    def _regroup(self, node: int, kind: int, before: int, free: int) -> None:
        """Move a node to the group of its kind and free GPUs, now `free` and not `before`."""
        self.groups.move(node, kind, free)
        self.sets_in_common.change(before, free)
        self.gpu_masks[node] = free
        gained_count = free.bit_count() - before.bit_count()
        if gained_count:
            self.gpu_count += gained_count
            self.gpus.change(node, gained_count)

    def check(
        self,
        kinds: Sequence[int],
        healthy: Sequence[int],
        holders: Sequence[Sequence[int]],
        cpus: list[int],
        memory_bytes: list[int],
    ) -> None:
        """Raise AssertionError where what is stored is not what these say, each by node.

        Args:
            kinds: of the nodes.
            healthy: masks of the GPUs that are there and healthy.
            holders: how many jobs hold each GPU.
            cpus: how many are free.
            memory_bytes: how many are free.
        """
        self._claims.check(holders)
        there = [group.kind for group in self.groups.of_node]
        assert there == list(kinds), "kinds of nodes drifted"
        masks = [
            whole & ~mask_of(tuple([gpu for gpu, count in enumerate(counts) if count]))
            for whole, counts in zip(healthy, holders, strict=True)
        ]
        assert self.gpu_masks[: len(masks)].tolist() == masks, "free masks drifted"
        self.groups.check(kinds, masks)
        self.sets_in_common.check()
        counts = [mask.bit_count() for mask in masks]
        assert sum(counts) == self.gpu_count, "count of free GPUs drifted"
        self.gpus.check(counts, "free GPUs")
        self.cpus.check(cpus, "free CPUs")
        self.memory_bytes.check(memory_bytes, "free memory")
