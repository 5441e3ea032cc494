"""The nodes and who holds what on them, as arrays that one decision scans in microseconds.

A row is a node; rows are given out in the order nodes were first seen and never move. What Slurm
says overrides what was planned: two jobs may claim one GPU for a moment (a plan and an outsider
that Slurm started first), so holders are counted, and a GPU is free when nobody claims it.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from roost_engine.cluster.claims import Claims, claimable
from roost_engine.cluster.group_ranking import GroupRanking
from roost_engine.cluster.index_set_counts import ClusterSetCounts
from roost_engine.cluster.labels import NodeLabels
from roost_engine.cluster.link_table import MAX_GPUS, LinkTable, mask_of
from roost_engine.cluster.loads import NodeLoads
from roost_engine.cluster.node_groups import NodeGroups
from roost_engine.cluster.node_sets import NO_NODES, Levels, NodeSet, doubled, node_set_where
from roost_engine.domain.events import LOAD_COLUMNS
from roost_engine.domain.model import GpuUuid, JobId, NodeName, NodeShare, NodeSpec
from roost_engine.domain.topology import Level, Link, LinkMatrix

_GPU_COUNTS = range(1, MAX_GPUS + 1)


class Cluster:
    """All nodes, their GPUs, links and load, and the shares that jobs hold.

    Attributes, one entry a row unless said otherwise; read through `[: len(self)]` slices:
        names: NodeName.
        gpu_count: int64.
        cpu_free, memory_free: Levels; bytes the latter, negative when overbooked.
        free_mask: int64, GPUs that nobody claims and that are healthy.
        gpu_free: Levels, how many they are.
        free_gpu_count: not by row: how many GPUs are free, those of nodes out of use included.
        groups: not by row: the nodes of each kind with the same GPUs free.
        sets_in_common: not by row: on how many rows each index set is free.
        usable: bool, Slurm would start a job there.
        rack_nodes: not by row but by rack: its rows.
        rack_id, kind: int64, rack_of a list of the former; kind numbers those in `tables`.
        loads: not by row: how busy the GPUs are.
        memo: what others derived from the nodes' specs; emptied when one of those changes.
        freed_count: how often some row had got more room when that was asked.
    """

    def __init__(self) -> None:
        self.names: list[NodeName] = []
        self.specs: list[NodeSpec | None] = []
        self.uuids: list[tuple[GpuUuid, ...]] = []
        self.row: dict[NodeName, int] = {}
        self.tables: list[LinkTable] = []
        self._kinds: dict[LinkMatrix, int] = {}
        self._racks: dict[str, int] = {}
        self._labels = NodeLabels()
        self._shares: dict[JobId, tuple[NodeShare, ...]] = {}
        self.faults: dict[tuple[int, int], str] = {}
        self.memo: dict[Hashable, object] = {}
        self._freed: NodeSet = NO_NODES
        self._gained: NodeSet = NO_NODES
        self.freed_count = 0
        self._capacity = 64
        self.gpu_count = np.zeros(64, dtype=np.int64)
        self.cpu_count = np.zeros(64, dtype=np.int64)
        self.cpu_free = Levels()
        self.memory_bytes = np.zeros(64, dtype=np.int64)
        self.memory_free = Levels()
        self.free_mask = np.zeros(64, dtype=np.int64)
        self.gpu_free = Levels()
        self.groups = NodeGroups()
        self._rankings: dict[int, GroupRanking] = {}  # by number of GPUs
        self.sets_in_common = ClusterSetCounts(self.groups)
        self.free_gpu_count = 0
        self.usable = np.zeros(64, dtype=np.bool_)
        self.rack_id = np.zeros(64, dtype=np.int64)
        self.rack_nodes: list[NodeSet] = []
        self.rack_of: list[int] = []
        self.kind = np.zeros(64, dtype=np.int64)
        self.loads = NodeLoads()
        self._claims = Claims()
        # By row; lists, because they are touched one at a time.
        self._whole: list[int] = []  # mask of the GPUs that are there and healthy
        self._kind_of: list[int] = []  # as `kind`

    def __len__(self) -> int:
        return len(self.names)

    # -- what is known of nodes ------------------------------------------------------------

    def apply_node(self, spec: NodeSpec) -> bool:
        """Take in Slurm's word on a node. Returns whether anything but its usability changed."""
        row = self.row.get(spec.name)
        if row is None:
            row = self._new_row(spec.name)
        old = self.specs[row]
        if old == spec:
            return False
        if old is None or old.gpu_count != spec.gpu_count:
            self.uuids[row] = ()
            self.loads.forget(row)
            self._set_links(row, _unknown_links(spec.gpu_count))
            self._count_gpus(row, spec.gpu_count if spec.gpu_count <= MAX_GPUS else 0)
        self.cpu_free[row] += spec.cpu_count - (old.cpu_count if old else 0)
        self.memory_free[row] += spec.memory_bytes - (old.memory_bytes if old else 0)
        self.cpu_count[row], self.memory_bytes[row] = spec.cpu_count, spec.memory_bytes
        self.usable[row] = spec.usable and self.gpu_count[row] > 0
        self._set_rack(row, self._racks.setdefault(spec.rack, len(self._racks)))
        self._labels.change(row, old, spec)
        self.specs[row] = spec
        self.memo.clear()
        self._refresh(row)
        self._freed |= 1 << row
        return old is None or replace(old, usable=spec.usable) != spec

    def remove_node(self, name: NodeName) -> None:
        """Slurm no longer knows the node: keep its row, offer nothing there."""
        row = self.row.get(name)
        if row is not None and (spec := self.specs[row]) is not None:
            self.memo.clear()
            self._labels.change(row, spec, None)
            self.cpu_free[row] -= spec.cpu_count
            self.memory_free[row] -= spec.memory_bytes
            self.cpu_count[row] = self.memory_bytes[row] = 0
            self.usable[row] = False
            self.specs[row] = None

    def apply_topology(
        self, name: NodeName, links: LinkMatrix, gpu_uuids: tuple[GpuUuid, ...]
    ) -> bool:
        """Take in a probe's matrix. False when Slurm's GPU count disagrees: Slurm is the truth."""
        row = self.row.get(name)
        if row is None or self.specs[row] is None or self.gpu_count[row] != links.gpu_count:
            return False
        self._set_links(row, links)
        self.uuids[row] = gpu_uuids
        return True

    def apply_load(self, name: NodeName, load: NDArray[np.float32]) -> bool:
        """Take in a probe's load. False when the node is unknown or has another GPU count."""
        row = self.row.get(name)
        count = int(self.gpu_count[row]) if row is not None else 0
        if row is None or not count or load.shape != (count, len(LOAD_COLUMNS)):
            return False
        self.loads.see(row, load)
        return True

    def set_fault(self, name: NodeName, gpu_index: int, fault: str) -> bool:
        """Mark a GPU broken or, with an empty fault, whole. Returns whether that changed it."""
        row = self.row.get(name)
        if row is None or not 0 <= gpu_index < self.gpu_count[row]:
            return False
        before = self.faults.get((row, gpu_index), "")
        if fault:
            self.faults[row, gpu_index] = fault
        else:
            self.faults.pop((row, gpu_index), None)
            self._freed |= 1 << row
        self._note_whole(row)
        self._refresh(row)
        return before != fault

    def table(self, row: int) -> LinkTable:
        """The link table of a node."""
        return self.tables[int(self.kind[row])]

    def by_kind(self, rows: NDArray[np.int64]) -> Iterator[tuple[LinkTable, NDArray[np.int64]]]:
        """Group the positions in an array of rows by the kind of node."""
        kinds = self.kind[rows]
        for kind in np.flatnonzero(np.bincount(kinds)).tolist():
            yield self.tables[kind], np.flatnonzero(kinds == kind)

    def free_as(self, row: int) -> tuple[int, int]:
        """The kind of a node and the mask of its free GPUs."""
        group = self.groups[row]
        return group.kind, group.free

    def ranking(self, gpu_count: int) -> GroupRanking:
        """Return the ranking of the groups for a number of GPUs."""
        found = self._rankings.get(gpu_count)
        if found is None:
            found = GroupRanking(gpu_count, self.tables, self.groups.groups)
            self._rankings[gpu_count] = found
        return found

    def members(self, what: str, name: str) -> NDArray[np.bool_]:
        """Which rows carry a "partition" or "feature" of that name: bool [row]."""
        return self._labels.carriers(what, name)

    # -- who holds what --------------------------------------------------------------------

    def hold(self, job_id: JobId, shares: Iterable[NodeShare]) -> None:
        """Book what a job holds, in place of what it held before."""
        rows, before = self.row, self._shares.get(job_id, ())
        if shares is before and before:
            return
        known = tuple([claimable(share) for share in shares if share.node in rows])
        if known and known == before:
            return
        self._unbook(self._shares.pop(job_id, ()))
        self._shares[job_id] = known
        self._book(known)

    def release(self, job_id: JobId) -> bool:
        """Free what a job holds. Returns whether it held anything."""
        shares = self._shares.pop(job_id, ())
        self._unbook(shares)
        return bool(shares)

    @contextmanager
    def without(self, job_ids: Sequence[JobId]) -> Iterator[None]:
        """As if these jobs held nothing, for as long as the context lasts."""
        with self.without_first(job_ids) as leave_out:
            leave_out(len(job_ids))
            yield

    @contextmanager
    def without_first(self, job_ids: Sequence[JobId]) -> Iterator[Callable[[int], None]]:
        """As if the first of these jobs held nothing, for as long as the context lasts.

        It gives what is told how many; that costs as much as the number changes.
        """
        roomier, left_out_count = self._freed, 0

        def leave_out(count: int) -> None:
            nonlocal left_out_count
            for job_id in job_ids[left_out_count:count]:
                self._unbook(self.shares(job_id))
            for job_id in job_ids[count:left_out_count]:
                self._book(self.shares(job_id))
            left_out_count = count

        try:
            yield leave_out
        finally:
            leave_out(0)
            self._freed = roomier

    def shares(self, job_id: JobId) -> tuple[NodeShare, ...]:
        """What a job holds; empty when nothing."""
        return self._shares.get(job_id, ())

    def has_free(self, shares: Iterable[NodeShare]) -> bool:
        """Whether all of this could be held now, on nodes that may be used."""
        for share in shares:
            row = self.row.get(share.node)
            if row is None or not self.usable[row]:
                return False
            wanted = mask_of(share.gpu_indices)
            if wanted & ~int(self.free_mask[row]) or self.cpu_free[row] < share.cpu_count:
                return False
            if self.memory_free[row] < share.memory_bytes:
                return False
        return True

    def held_jobs(self) -> Iterable[JobId]:
        """Every job that holds something, in the order they began to."""
        return self._shares.keys()

    def take_freed_nodes(self) -> NodeSet:
        """The rows that may have got more room since this was last asked."""
        rows, self._freed = self._freed, NO_NODES
        self._gained |= rows
        self.freed_count += rows != NO_NODES
        return rows

    @property
    def has_gained_nodes(self) -> bool:
        """Whether take_gained_nodes() would give any."""
        return self._gained != NO_NODES

    def take_gained_nodes(self) -> NodeSet:
        """The rows that take_freed_nodes() has given since this was last asked."""
        rows, self._gained = self._gained, NO_NODES
        return rows

    def free_count(self) -> int:
        """GPUs that are free and healthy on usable nodes."""
        usable = node_set_where(self.usable[: len(self)])
        counts = ((self.gpu_free.at_least[gpus] & usable).bit_count() for gpus in _GPU_COUNTS)
        return sum(counts)

    def check_invariants(self) -> None:
        """Recompute every count from the shares; raise AssertionError where one has drifted."""
        holders = [[0] * MAX_GPUS for _ in range(len(self))]
        cpus = self.cpu_count[: len(self)].tolist()
        memory = self.memory_bytes[: len(self)].tolist()
        for shares in self._shares.values():
            for share in shares:
                row = self.row[share.node]
                for gpu in share.gpu_indices:
                    holders[row][gpu] += 1
                cpus[row] -= share.cpu_count
                memory[row] -= share.memory_bytes
        self._claims.check(holders)
        for row in range(len(self)):
            assert self.free_mask[row] == self._free_mask(row), f"free mask of row {row} drifted"
            assert self.rack_id[row] == self.rack_of[row], f"rack of row {row} drifted"
            assert self.rack_nodes[self.rack_of[row]] >> row & 1, f"rack of row {row} drifted"
        assert sum(map(int.bit_count, self.rack_nodes)) == len(self), "rows of racks drifted"
        self.groups.check(self.kind[: len(self)], self.free_mask[: len(self)])
        self.sets_in_common.check()
        masks = self.free_mask[: len(self)].tolist()
        assert sum(map(int.bit_count, masks)) == self.free_gpu_count, "count of free GPUs drifted"
        self.gpu_free.check([mask.bit_count() for mask in masks], "free GPUs")
        self.cpu_free.check(cpus, "free CPUs")
        self.memory_free.check(memory, "free memory")

    def _book(self, shares: Iterable[NodeShare]) -> None:
        for share in shares:
            row = self.row[share.node]
            self._claims.add(row, mask_of(share.gpu_indices))
            if share.cpu_count:
                self.cpu_free.change(row, -share.cpu_count)
            if share.memory_bytes:
                self.memory_free.change(row, -share.memory_bytes)
            self._refresh(row)

    def _unbook(self, shares: Iterable[NodeShare]) -> None:
        for share in shares:
            row = self.row[share.node]
            self._claims.remove(row, mask_of(share.gpu_indices))
            if share.cpu_count:
                self.cpu_free.change(row, share.cpu_count)
            if share.memory_bytes:
                self.memory_free.change(row, share.memory_bytes)
            self._refresh(row)
            self._freed |= 1 << row

    # -- rows ------------------------------------------------------------------------------

    def _free_mask(self, row: int) -> int:
        there = (1 << int(self.gpu_count[row])) - 1
        broken = mask_of(tuple(gpu for at, gpu in self.faults if at == row))
        return there & ~self._claims.masks[row] & ~broken

    def _refresh(self, row: int) -> None:
        """Work out anew which GPUs of a row are free: a holder, a fault or the links changed."""
        free, kind = self._whole[row] & ~self._claims.masks[row], self._kind_of[row]
        before = self.groups[row]
        free_before = before.free
        if free == free_before and kind == before.kind:
            return
        self.groups.move(row, kind, free)
        self.sets_in_common.change(free_before, free)
        self.free_mask[row] = free
        more = free.bit_count() - free_before.bit_count()
        if more:
            self.free_gpu_count += more
            self.gpu_free.change(row, more)

    def _new_row(self, name: NodeName) -> int:
        row = len(self.names)
        if row == self._capacity:
            self._grow()
        self.names.append(name)
        self.specs.append(None)
        self.uuids.append(())
        self.gpu_free.add_node()
        self.cpu_free.add_node()
        self.memory_free.add_node()
        self._claims.add_node()
        self._labels.add_node()
        self.loads.add_node()
        self._whole.append(0)
        self.rack_of.append(0)
        self._kind_of.append(0)
        self.groups.add_node()
        self.row[name] = row
        return row

    def _count_gpus(self, row: int, count: int) -> None:
        self.gpu_count[row] = count
        self._note_whole(row)

    def _note_whole(self, row: int) -> None:
        broken = mask_of(tuple(gpu for at, gpu in self.faults if at == row))
        self._whole[row] = (1 << int(self.gpu_count[row])) - 1 & ~broken

    def _set_links(self, row: int, links: LinkMatrix) -> None:
        kind = self._kinds.get(links)
        if kind is None:
            kind = self._kinds[links] = len(self.tables)
            self.tables.append(LinkTable(links))
        self.kind[row] = self._kind_of[row] = kind
        self._count_gpus(row, links.gpu_count)
        self._refresh(row)

    def _set_rack(self, row: int, rack: int) -> None:
        if rack == len(self.rack_nodes):
            self.rack_nodes.append(NO_NODES)
        self.rack_nodes[self.rack_of[row]] &= ~(1 << row)
        self.rack_nodes[rack] |= 1 << row
        self.rack_id[row] = self.rack_of[row] = rack

    def _grow(self) -> None:
        self.gpu_count = doubled(self.gpu_count)
        self.cpu_count = doubled(self.cpu_count)
        self.memory_bytes = doubled(self.memory_bytes)
        self.free_mask = doubled(self.free_mask)
        self.usable = doubled(self.usable)
        self.rack_id = doubled(self.rack_id)
        self.kind = doubled(self.kind)
        self._capacity *= 2


def _unknown_links(gpu_count: int) -> LinkMatrix:
    """Until a probe reports, every pair is taken to be as far apart as can be."""
    return LinkMatrix.uniform(min(max(gpu_count, 1), MAX_GPUS), Link(Level.SYSTEM))
