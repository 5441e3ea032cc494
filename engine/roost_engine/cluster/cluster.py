"""The nodes of the cluster, and which job holds what on them.

A node has an index: indices are given in the order in which nodes are first reported, and never
change. Sets and arrays of nodes are sets and arrays by index.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from roost_engine.cluster.allocations import Allocations
from roost_engine.cluster.foreign_memory import ForeignMemory
from roost_engine.cluster.free_capacity import FreeCapacity
from roost_engine.cluster.group_ranking import GroupRanking
from roost_engine.cluster.labels import NodeLabels
from roost_engine.cluster.link_table import MAX_GPUS, LinkTable, mask_of, unknown_links
from roost_engine.cluster.loads import NodeLoads
from roost_engine.cluster.node_sets import NO_NODES, NodeSet, doubled, node_set, node_set_where
from roost_engine.cluster.racks import Racks
from roost_engine.domain.events import LOAD_COLUMNS
from roost_engine.domain.model import GpuUuid, JobId, NodeName, NodeShare, NodeSpec
from roost_engine.domain.topology import LinkMatrix

_GPU_COUNTS = range(1, MAX_GPUS + 1)
_USABLE = "nodes that Slurm would use"


class Cluster(Allocations):
    """All nodes, their GPUs, links and load, and the shares that jobs hold.

    Attributes, beside those of Allocations; arrays are longer than there are nodes, read them
    through `[: len(self)]` slices:
        names: by node.
        specs: by node; None once Slurm no longer knows the node.
        uuids: by node, of its GPUs; empty until a probe reports them.
        faults: what is wrong with a GPU, by (node, GPU index).
        gpu_count, cpu_count, memory_bytes: int64 [node], what the node has; no GPUs where it has
            more than MAX_GPUS.
        usable: bool [node], Slurm would start a job there.
        asleep: the nodes that have to boot first.
        kind: int64 [node], a position in `tables`.
        racks: the rack of each node.
        rack_of, rack_nodes: parts of it: by node, the id of its rack; by rack id, its nodes.
        tables: link tables, by kind of node.
        loads: how busy the GPUs are.
        foreign: the GPUs to give out last, as processes of no job use their memory.
        gpu_free, cpu_free, memory_free, groups, sets_in_common: parts of it, see FreeCapacity.
        memo: what other modules derived from the nodes' specs; emptied when a spec changes.
        spec_count: how often a spec changed.
        freed_count: how often take_freed_nodes() found that nodes had gained capacity.
    """

    __slots__ = (
        "__weakref__",
        "_gained",
        "_kinds",
        "_labels",
        "_rankings",
        "asleep",
        "cpu_count",
        "cpu_free",
        "faults",
        "foreign",
        "freed_count",
        "gpu_count",
        "gpu_free",
        "groups",
        "kind",
        "loads",
        "memo",
        "memory_bytes",
        "memory_free",
        "names",
        "rack_nodes",
        "rack_of",
        "racks",
        "sets_in_common",
        "spec_count",
        "specs",
        "tables",
        "usable",
        "uuids",
    )

    def __init__(self) -> None:
        super().__init__(FreeCapacity())
        self.names: list[NodeName] = []
        self.specs: list[NodeSpec | None] = []
        self.uuids: list[tuple[GpuUuid, ...]] = []
        self.faults: dict[tuple[int, int], str] = {}
        self.gpu_count = np.zeros(64, dtype=np.int64)
        self.cpu_count = np.zeros(64, dtype=np.int64)
        self.memory_bytes = np.zeros(64, dtype=np.int64)
        self.usable = np.zeros(64, dtype=np.bool_)
        self.asleep: NodeSet = NO_NODES
        self.kind = np.zeros(64, dtype=np.int64)
        self.tables: list[LinkTable] = []
        self._kinds: dict[LinkMatrix, int] = {}
        self.racks = Racks()
        self.rack_of, self.rack_nodes = self.racks.of_node, self.racks.nodes
        self._labels = NodeLabels()
        self.loads = NodeLoads()
        self.foreign = ForeignMemory(self.free, self.index_of)
        self.gpu_free, self.cpu_free = self.free.gpus, self.free.cpus
        self.memory_free = self.free.memory_bytes
        self.groups, self.sets_in_common = self.free.groups, self.free.sets_in_common
        self._rankings: dict[int, GroupRanking] = {}  # by number of GPUs
        self._gained: NodeSet = NO_NODES
        self.freed_count = self.spec_count = 0
        self.memo: dict[Hashable, object] = {}

    def __len__(self) -> int:
        return len(self.names)

    @property
    def free_mask(self) -> NDArray[np.int64]:
        """The healthy GPUs that no job holds: int64 [node]."""
        return self.free.gpu_masks

    @property
    def free_gpu_count(self) -> int:
        """How many GPUs are free, also on nodes that Slurm would not use."""
        return self.free.gpu_count

    # -- nodes -----------------------------------------------------------------------------

    def apply_node(self, spec: NodeSpec) -> bool:
        """Apply what Slurm says of a node. Returns whether more than its state changed."""
        node = self.index_of.get(spec.name)
        if node is None:
            node = self._add_node(spec.name)
        old = self.specs[node]
        if old == spec:
            return False
        if old is None or old.gpu_count != spec.gpu_count:
            self.uuids[node] = ()
            self.loads.forget(node)
            self.foreign.forget(node)
            gpu_count = spec.gpu_count if spec.gpu_count <= MAX_GPUS else 0
            self._set_links(node, unknown_links(spec.gpu_count), gpu_count)
        self.cpu_free[node] += spec.cpu_count - (old.cpu_count if old else 0)
        self.memory_free[node] += spec.memory_bytes - (old.memory_bytes if old else 0)
        self.cpu_count[node], self.memory_bytes[node] = spec.cpu_count, spec.memory_bytes
        self.usable[node] = spec.usable and self.gpu_count[node] > 0
        self.asleep = self.asleep & ~(1 << node) | spec.asleep << node
        self.racks.change(node, spec.rack)
        self._labels.change(node, old, spec)
        self.specs[node] = spec
        self.memo, self.spec_count = {}, self.spec_count + 1
        self.free.freed |= 1 << node
        self.change_count += 1
        return old is None or replace(old, usable=spec.usable, asleep=spec.asleep) != spec

    def remove_node(self, name: NodeName) -> None:
        """Offer nothing on a node that Slurm no longer knows; no other node gets its index."""
        node = self.index_of.get(name)
        if node is not None and (spec := self.specs[node]) is not None:
            self.memo, self.spec_count = {}, self.spec_count + 1
            self._labels.change(node, spec, None)
            self.cpu_free[node] -= spec.cpu_count
            self.memory_free[node] -= spec.memory_bytes
            self.cpu_count[node] = self.memory_bytes[node] = 0
            self.usable[node] = False
            self.asleep &= ~(1 << node)
            self.foreign.forget(node)
            self.specs[node] = None
            self.change_count += 1

    def apply_topology(
        self, name: NodeName, links: LinkMatrix, gpu_uuids: tuple[GpuUuid, ...]
    ) -> bool:
        """Apply a probe's link matrix.

        Returns:
            False, and nothing is changed, when Slurm's GPU count differs: Slurm is the truth.
        """
        node = self.index_of.get(name)
        if node is None or self.specs[node] is None or self.gpu_count[node] != links.gpu_count:
            return False
        self._set_links(node, links, links.gpu_count)
        self.uuids[node] = gpu_uuids
        self.change_count += 1
        return True

    def apply_loads(self, names: Sequence[NodeName], load: NDArray[np.float32]) -> int:
        """Apply what probes report of some nodes: float32 [node, gpu, 4], each node named once.

        Returns:
            For how many of them; the others are unknown or have another number of GPUs. 0 where
            the array is not of that shape.
        """
        is_whole = load.shape[2:] == (len(LOAD_COLUMNS),) and len(load) == len(names)
        gpu_count = load.shape[1] if is_whole else 0
        known = {place: self.index_of.get(name) for place, name in enumerate(names)}
        found = {
            place: node
            for place, node in known.items()
            if node is not None and 0 < gpu_count == self.gpu_count[node]
        }
        if found:
            self.loads.apply(list(found.values()), load[list(found)])
            self.change_count += len(found)
        return len(found)

    def apply_job_load(self, job_id: JobId, load: Mapping[str, float]) -> bool:
        """Apply what probes report of a job's GPUs; returns whether the job holds any."""
        shares = self.shares(job_id)
        if not shares:
            return False
        nodes = [self.index_of[share.node] for share in shares if share.node in self.index_of]
        self.loads.apply_job(job_id, shares, nodes, load, self.held_jobs())
        self.change_count += 1
        return True

    def set_fault(self, name: NodeName, gpu_index: int, fault: str) -> bool:
        """Mark a GPU as broken or, with an empty fault, healthy. Returns whether that is news."""
        node = self.index_of.get(name)
        if node is None or not 0 <= gpu_index < self.gpu_count[node]:
            return False
        before = self.faults.get((node, gpu_index), "")
        if fault:
            self.faults[node, gpu_index] = fault
        else:
            self.faults.pop((node, gpu_index), None)
            self.free.freed |= 1 << node
        self.free.set_gpus(node, int(self.kind[node]), self._healthy_gpus(node))
        self.change_count += 1
        return before != fault

    def set_foreign_memory(self, name: NodeName, gpu_index: int, used_bytes: int) -> None:
        """Note what processes of no job use of a GPU's memory; 0: the GPU is not avoided."""
        node = self.index_of.get(name)
        if node is not None and 0 <= gpu_index < self.gpu_count[node]:
            self.foreign.apply(node, gpu_index, used_bytes)
            self.free.freed |= 1 << node  # a job that waits for busy GPUs may have better ones
            self.change_count += 1

    def table(self, node: int) -> LinkTable:
        """Return the link table of a node."""
        return self.tables[int(self.kind[node])]

    def by_kind(self, nodes: NDArray[np.int64]) -> Iterator[tuple[LinkTable, NDArray[np.int64]]]:
        """Yield each kind's link table, and the positions in an array of nodes that have it."""
        kinds = self.kind[nodes]
        for kind in np.flatnonzero(np.bincount(kinds)).tolist():
            yield self.tables[kind], np.flatnonzero(kinds == kind)

    def free_as(self, node: int) -> tuple[int, int]:
        """Return the kind of a node and the mask of its free GPUs."""
        group = self.groups.of_node[node]
        return group.kind, group.free

    def ranking(self, gpu_count: int) -> GroupRanking:
        """Return the ranking of the groups for a number of GPUs."""
        found = self._rankings.get(gpu_count)
        if found is None:
            found = GroupRanking(gpu_count, self.tables, self.groups)
            self._rankings[gpu_count] = found
        return found

    def nodes_named(self, names: Iterable[NodeName]) -> NodeSet:
        """Return the nodes with these names; unknown names are left out."""
        return node_set(self.index_of[name] for name in names if name in self.index_of)

    def members(self, what: str, name: str) -> NDArray[np.bool_]:
        """Return which nodes have a "partition" or "feature" of that name: bool [node]."""
        return self._labels.nodes_with(what, name)

    # -- what is free ----------------------------------------------------------------------

    def has_free(self, shares: Iterable[NodeShare]) -> bool:
        """Return whether all of these could be held now, on nodes that may be used."""
        for share in shares:
            node = self.index_of.get(share.node)
            if node is None or not self.usable[node]:
                return False
            wanted = mask_of(share.gpu_indices)
            if wanted & ~int(self.free_mask[node]) or self.cpu_free[node] < share.cpu_count:
                return False
            if self.memory_free[node] < share.memory_bytes:
                return False
        return True

    def take_freed_nodes(self) -> NodeSet:
        """Return the nodes that may have gained capacity since the last call."""
        nodes, self.free.freed = self.free.freed, NO_NODES
        self._gained |= nodes
        self.freed_count += nodes != NO_NODES
        return nodes

    @property
    def has_gained_nodes(self) -> bool:
        """Whether take_gained_nodes() would return any."""
        return self._gained != NO_NODES

    def take_gained_nodes(self) -> NodeSet:
        """Return the nodes that take_freed_nodes() has returned since the last call of this."""
        nodes, self._gained = self._gained, NO_NODES
        return nodes

    @property
    def usable_set(self) -> NodeSet:
        """The nodes that Slurm would use."""
        usable = self.memo.get(_USABLE)
        if not isinstance(usable, int):
            usable = self.memo[_USABLE] = node_set_where(self.usable[: len(self)])
        return usable

    def free_count(self) -> int:
        """Return how many healthy GPUs are free on nodes that Slurm would use."""
        usable = self.usable_set
        if usable == (1 << len(self)) - 1:
            return self.free.gpu_count
        # A node with 3 free GPUs counts once each for at least 1, 2 and 3.
        return sum((self.gpu_free.at_least[gpus] & usable).bit_count() for gpus in _GPU_COUNTS)

    # -- facts about one node --------------------------------------------------------------

    def _add_node(self, name: NodeName) -> int:
        node = len(self.names)
        if node == len(self.kind):
            self._grow()
        self.names.append(name)
        self.specs.append(None)
        self.uuids.append(())
        self.racks.add_node()
        self.free.add_node()
        self._labels.add_node()
        self.loads.add_node()
        self.index_of[name] = node
        return node

    def _grow(self) -> None:
        self.gpu_count = doubled(self.gpu_count)
        self.cpu_count = doubled(self.cpu_count)
        self.memory_bytes = doubled(self.memory_bytes)
        self.usable = doubled(self.usable)
        self.kind = doubled(self.kind)

    def _set_links(self, node: int, links: LinkMatrix, gpu_count: int) -> None:
        kind = self._kinds.get(links)
        if kind is None:
            kind = self._kinds[links] = len(self.tables)
            self.tables.append(LinkTable.of(links))
        before, self.kind[node], self.gpu_count[node] = int(self.kind[node]), kind, gpu_count
        if before != kind and not (self.kind[: len(self)] == before).any():
            self.tables[before].drop_tables()  # its number stays: decisions refer to it
        self.free.set_gpus(node, kind, self._healthy_gpus(node))

    def _healthy_gpus(self, node: int) -> int:
        broken = mask_of(tuple(gpu for at, gpu in self.faults if at == node))
        return (1 << int(self.gpu_count[node])) - 1 & ~broken

    def check_invariants(self) -> None:
        """Compute every count again from the shares; raise AssertionError where one has drifted."""
        holders = [[0] * MAX_GPUS for _ in range(len(self))]
        cpus = self.cpu_count[: len(self)].tolist()
        memory_bytes = self.memory_bytes[: len(self)].tolist()
        for shares in self._shares.values():
            for share in shares:
                node = self.index_of[share.node]
                for gpu in share.gpu_indices:
                    holders[node][gpu] += 1
                cpus[node] -= share.cpu_count
                memory_bytes[node] -= share.memory_bytes
        healthy = [self._healthy_gpus(node) for node in range(len(self))]
        kinds = self.kind[: len(self)].tolist()
        self.free.check(kinds, healthy, holders, cpus, memory_bytes)
        self.racks.check()
