"""What runs on each node, and what sets of free GPUs are beside, as load vectors.

What was computed of a node is stored until its jobs or its reported loads change.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.features import LOAD_QUANTITIES, weighted_sums
from roost_engine.cluster.link_table import mask_of
from roost_engine.cluster.loads import NodeLoads
from roost_engine.domain.model import JobId, JobSpec
from roost_engine.domain.tier import Tier
from roost_engine.domain.value import value
from roost_engine.scoring.graph_jobs import (
    Communicates,
    Communication,
    Resident,
    ResidentJobs,
    typical,
)
from roost_engine.scoring.neighbour_levels import LEVELS, masks_near
from roost_engine.scoring.set_rows import SetRows

Array = NDArray[np.float32]

# Links between nodes are a quarter as fast as PCIe, per GPU: the rule of speed_predictor.
_NETWORK_SLOWDOWN = 4.0
_TIER_COUNT = len(Tier)
_LEVEL_NUMBERS = np.arange(len(LEVELS))[:, None]


@value(eq=False)
class Layout:
    """On which GPUs the jobs of a node are. Nodes of one kind with the same sets share it.

    Attributes:
        masks: int64 [job], GPUs on this node.
        counts: float64 [job], how many these are.
        weights: by set of free GPUs: float32 [level + 1, job], of each job's vector in the sum of
            its level, and in the sum of all jobs; and the closest level that any job shares.
    """

    masks: NDArray[np.int64]
    counts: NDArray[np.float64]
    weights: dict[int, tuple[Array, int]]


@value(eq=False)
class Residents:
    """The jobs on one node, in the order of their ids.

    Attributes:
        jobs: their ids.
        layout: their GPUs.
        counted: float32 [job, width + 1], their vectors with a 1 behind, which counts in sums.
        kind, load_version: of the node: its links, and the load that the vectors are from.
        rows: of sets of free GPUs, by mask: the row of SetRows; nodes with the same links and the
            same vectors on the same GPUs share it.
    """

    jobs: tuple[JobId, ...]
    layout: Layout
    counted: Array
    kind: int
    load_version: int
    rows: dict[int, int]

    @property
    def masks(self) -> NDArray[np.int64]:
        """The GPUs of each job: int64 [job]."""
        return self.layout.masks

    @property
    def counts(self) -> NDArray[np.float64]:
        """How many GPUs each job has: float64 [job]."""
        return self.layout.counts

    @property
    def vectors(self) -> Array:
        """The load vector of each job: float32 [job, width]."""
        return self.counted[:, :-1]


class Newcomers(NamedTuple):
    """Some parts of candidates on which a newcomer has one load vector.

    Attributes:
        where: which.
        vector: float32 [width].
        tier: of the newcomer's GPUs.
    """

    where: NDArray[np.int64] | slice
    vector: Array
    tier: int


class Neighbourhood:
    """See the module.

    Args:
        vector: returns the load vector of a job of which some quantities are known.
        width: columns of a load vector.

    Attributes:
        communicates: returns the communication of a job.
        rows: of sets of GPUs; see rows_of.
    """

    def __init__(self, vector: Callable[[Mapping[str, float]], Array], width: int) -> None:
        self._vector, self._width = vector, width
        self.communicates: Communicates = partial(_over_pcie, typical)
        self.rows = SetRows(width)
        self._jobs = ResidentJobs()
        self._cluster: Cluster | None = None
        self._known: dict[int, Residents] = {}
        self._layouts: dict[tuple[int, tuple[int, ...]], Layout] = {}  # by kind of node, and masks
        self._rows_of: dict[tuple[int, bytes], dict[int, int]] = {}  # by layout, and vectors
        self._near: dict[int, dict[int, tuple[int, int]]] = {}  # by link table and set
        self._nvlinked: dict[int, bool] = {}

    def expect(self, communicates: Communicates) -> None:
        """Ask this for the communication of jobs from now on; without it jobs are typical."""
        self.communicates, self._cluster = partial(_over_pcie, communicates), None

    def refresh(self, cluster: Cluster, spec_of: Callable[[JobId], JobSpec | None]) -> None:
        """Apply what has changed in a cluster since the last call."""
        if self._cluster is not cluster:
            self._cluster, self._jobs = cluster, ResidentJobs(self.communicates)
            self._near.clear()  # by the identity of link tables, which are the cluster's own
            self._nvlinked.clear()
            self._forget_rows()
            cluster.watch_again()
        elif self.rows.is_full:
            self._forget_rows()
        changed = cluster.take_changed_jobs()
        if changed:
            for node in self._jobs.update(cluster, changed, spec_of, lambda rack: 0):
                self._known.pop(node, None)

    def read(
        self,
        cluster: Cluster,
        job_ids: list[JobId],
        spec_of: Callable[[JobId], JobSpec | None],
    ) -> None:
        """Know these jobs of a cluster and no others; what has changed in it stays unread."""
        self._jobs = ResidentJobs(self.communicates)
        self._forget_rows()
        self._jobs.update(cluster, job_ids, spec_of, lambda rack: 0)

    def residents(self, cluster: Cluster, node: int) -> Residents:
        """Return the jobs on a node."""
        known, version = self._known.get(node), cluster.loads.version[node]
        kind = int(cluster.kind[node])
        if known is not None and known.load_version == version and known.kind == kind:
            return known
        on_node = self._jobs.jobs_on.get(node, {})
        jobs = known.jobs if known is not None else tuple(sorted(on_node))
        residents = [on_node[job_id] for job_id in jobs]
        if known is not None and known.kind == kind:
            layout = known.layout  # only the load is another one
        else:
            layout = self._layout(kind, [mask_of(one.gpus_on[node]) for one in residents])
        counted = self._counted(cluster, node, jobs, residents)
        key = id(layout), counted.tobytes()
        rows = self._rows_of.setdefault(key, {})
        found = self._known[node] = Residents(jobs, layout, counted, kind, version, rows)
        return found

    def _layout(self, kind: int, masks: list[int]) -> Layout:
        key = kind, tuple(masks)
        found = self._layouts.get(key)
        if found is None:
            counts = np.array([mask.bit_count() for mask in masks], dtype=np.float64)
            found = Layout(np.array(masks, dtype=np.int64), counts, {})
            self._layouts[key] = found
        return found

    def _counted(
        self, cluster: Cluster, node: int, jobs: tuple[JobId, ...], residents: list[Resident]
    ) -> Array:
        """Return the vectors of the jobs on a node, see Residents.counted."""
        loads, counted = cluster.loads, np.empty((len(jobs), self._width + 1), dtype=np.float32)
        counted[:, -1] = 1.0
        is_reported = loads.reported >> node & 1
        for at, (job_id, resident) in enumerate(zip(jobs, residents, strict=True)):
            means = self.expected(cluster, node, resident.here_frac, is_alone=resident.is_alone)
            if is_reported:
                means |= _reported(loads, node, resident.gpus_on[node])
            if loads.of_job:
                means |= loads.job_load(job_id, cluster.shares(job_id))
            counted[at, :-1] = self._vector(means)
        return counted

    def rows_of(
        self, cluster: Cluster, on: Mapping[int, Residents], sets: Sequence[tuple[int, int]]
    ) -> list[int]:
        """Return the rows of `rows` that say what sets of GPUs are beside.

        Args:
            cluster: the nodes.
            on: the residents of these nodes; every node has some.
            sets: (node, mask of the set) each.
        """
        known = [on[node].rows.get(mask, -1) for node, mask in sets]
        if -1 not in known:
            return known
        missing = [at for at, row in enumerate(known) if row < 0]
        different = {(id(on[sets[at][0]].rows), sets[at][1]): sets[at] for at in missing}
        self._add_rows(cluster, on, list(different.values()))
        for at in missing:
            node, mask = sets[at]
            known[at] = on[node].rows[mask]
        return known

    def _add_rows(
        self, cluster: Cluster, on: Mapping[int, Residents], sets: Sequence[tuple[int, int]]
    ) -> None:
        """Compute the rows of some sets; arrays are [set, level, job]."""
        self._weigh(cluster, on, sets)
        found = [on[node].layout.weights[mask] for node, mask in sets]
        first, rows = on[sets[0][0]], self.rows
        if all(node == sets[0][0] for node, _ in sets):
            sums = weighted_sums(np.array([weights for weights, _ in found]), first.counted[None])
        else:
            shape = len(sets), max(len(on[node].jobs) for node, _ in sets)
            lines = np.zeros((shape[0], len(LEVELS) + 1, shape[1]), dtype=np.float32)
            counted = np.zeros((*shape, self._width + 1), dtype=np.float32)
            for at, (node, _) in enumerate(sets):
                count = len(on[node].jobs)
                lines[at, :, :count], counted[at, :count] = found[at][0], on[node].counted
            sums = weighted_sums(lines, counted)
        added, gpus = rows.take(len(sets)), sums[:, -1, -1]
        rows.sums[added] = sums[:, :-1, :-1]
        rows.joined[added] = sums[:, -1, :-1] / gpus[:, None]
        rows.gpus[added], rows.level[added] = gpus, [closest for _, closest in found]
        for row, (node, mask) in enumerate(sets, added.start):
            on[node].rows[mask] = row

    def _weigh(
        self, cluster: Cluster, on: Mapping[int, Residents], sets: Sequence[tuple[int, int]]
    ) -> None:
        """Compute the weights of some sets where a layout lacks them."""
        missing: dict[int, tuple[int, Layout, list[int]]] = {}  # by layout: a node with it, sets
        for node, mask in sets:
            layout = on[node].layout
            if mask not in layout.weights:
                missing.setdefault(id(layout), (node, layout, []))[2].append(mask)
        for node, layout, masks in missing.values():
            whole = float(cluster.gpu_count[node])
            taken = np.array([[mask.bit_count()] for mask in masks])
            level = self._levels(cluster, node, masks, layout.masks)
            lines = np.empty((len(masks), len(LEVELS) + 1, level.shape[1]), dtype=np.float32)
            weights = (layout.counts / np.maximum(whole - taken, 1)).astype(np.float32)
            np.multiply(weights[:, None], level[:, None] == _LEVEL_NUMBERS, out=lines[:, :-1])
            lines[:, -1] = layout.counts * (taken / (whole - layout.counts))
            closest = level.min(axis=1).tolist()
            layout.weights.update(zip(masks, zip(lines, closest, strict=True), strict=True))

    def level(
        self, cluster: Cluster, node: int, residents: Residents, mask: int
    ) -> NDArray[np.int64]:
        """Return what each resident shares with a set of GPUs: positions in LEVELS."""
        found: NDArray[np.int64] = self._levels(cluster, node, [mask], residents.masks)[0]
        return found

    def _levels(
        self, cluster: Cluster, node: int, sets: Sequence[int], masks: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return the same for several sets of a node, and jobs on it: int64 [set, job]."""
        beside = np.array([self._near_of(cluster, node, mask) for mask in sets])
        shared = masks & beside[..., None] != 0  # [set, switch or socket, job]
        # What shares a switch shares the socket too: 2 less what is shared is a position in LEVELS.
        level: NDArray[np.int64] = 2 - shared.sum(axis=1)
        return level

    def _near_of(self, cluster: Cluster, node: int, mask: int) -> tuple[int, int]:
        table = cluster.table(node)
        near = self._near.setdefault(id(table), {})
        found = near.get(mask)
        if found is None:
            found = near[mask] = masks_near(table, mask)
        return found

    def newcomers(
        self,
        cluster: Cluster,
        nodes: NDArray[np.int64],
        tiers: NDArray[np.int64],
        communication: Communication,
    ) -> list[Newcomers]:
        """Return the vectors of a newcomer on some nodes.

        Args:
            cluster: the nodes.
            nodes: [node].
            tiers: [node], of the newcomer's GPUs where this node is one of its nodes.
            communication: of the newcomer.
        """
        keys = cluster.kind.take(nodes) * _TIER_COUNT + tiers
        different: dict[tuple[int, bool], list[int]] = {}  # the keys with which a vector is one
        for key in set(keys.tolist()):
            kind, tier = divmod(key, _TIER_COUNT)
            is_linked = tier == Tier.NODE and self._is_kind_nvlinked(cluster, kind)
            different.setdefault((tier, is_linked), []).append(key)
        found: list[Newcomers] = []  # list[Newcomers]() takes 1 µs
        for (tier, _), among in sorted(different.items()):
            where = slice(None) if len(different) == 1 else np.isin(keys, among).nonzero()[0]
            first, is_alone = int(nodes[where][0]), tier == Tier.NODE
            means = self.expected(cluster, first, communication[tier], is_alone=is_alone)
            found.append(Newcomers(where, self._vector(means), tier))
        return found

    def expected(
        self, cluster: Cluster, node: int, frac: float, *, is_alone: bool
    ) -> dict[str, float]:
        """Return what is expected of a job without telemetry: communication over what is shared."""
        if not is_alone:
            return {"nic": frac}
        return {"pcie": 0.0 if self.is_nvlinked(cluster, node) else frac}

    def is_nvlinked(self, cluster: Cluster, node: int) -> bool:
        """Return whether all GPUs of a node are joined by NVLink."""
        return self._is_kind_nvlinked(cluster, int(cluster.kind[node]))

    def _is_kind_nvlinked(self, cluster: Cluster, kind: int) -> bool:
        table = cluster.tables[kind]
        found = self._nvlinked.get(id(table))
        if found is None:
            rows = table.links.links
            found = self._nvlinked[id(table)] = all(
                link is None or link.nvlink_count > 0 for row in rows for link in row
            )
        return found

    def _forget_rows(self) -> None:
        self.rows.clear()
        self._known.clear()
        self._rows_of.clear()
        self._layouts.clear()


def _reported(loads: NodeLoads, node: int, gpus: tuple[int, ...]) -> dict[str, float]:
    """Return the load of a job's GPUs on a node: the quantities that are known of all of them."""
    sums = np.add.reduce(loads.by_gpu[node].take(gpus, axis=0), axis=0)
    known = np.logical_and.reduce(loads.known[node].take(gpus, axis=0), axis=0)
    means = zip(LOAD_QUANTITIES, (sums / len(gpus)).tolist(), known.tolist(), strict=True)
    return {quantity: mean for quantity, mean, is_known in means if is_known}


def _over_pcie(communicates: Communicates, job: JobSpec | None, gpu_count: int) -> Communication:
    """Return a job's communication, on one node as over PCIe.

    Speeds are relative to the closest placement, so they do not say what a job exposes there. With
    e the exposed communication over compute in a rack, PCIe leaves e / 4: e / (4 + e) of a step.
    """
    found = communicates(job, gpu_count)
    if gpu_count < 2:
        return found
    exposed = found.rack_frac / max(1.0 - found.rack_frac, 1e-3)
    local = exposed / (_NETWORK_SLOWDOWN + exposed)
    return Communication(max(found.local_frac, local), found.rack_frac, found.across_frac)
