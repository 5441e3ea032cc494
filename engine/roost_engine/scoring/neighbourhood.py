"""What runs on each node, and what sets of free GPUs are beside, as load vectors.

What was computed of a node is stored until its jobs or its reported loads change.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.features import LOAD_QUANTITIES, weighted_sums
from roost_engine.cluster.link_table import mask_of
from roost_engine.domain.model import JobId, JobSpec
from roost_engine.scoring.graph_jobs import Communicates, Communication, ResidentJobs, typical
from roost_engine.scoring.neighbour_levels import LEVELS, around

Array = NDArray[np.float32]

# Links between nodes are a quarter as fast as PCIe, per GPU: the rule of prediction.speed.
_NETWORK_SLOWDOWN = 4.0
_FIRST_COUNT = 256
_NEWCOMER_COUNT = 32
_MOST_ROWS = 8192  # 7 MB
_LEVEL_NUMBERS = np.arange(len(LEVELS))[:, None]


@dataclass(frozen=True, slots=True)
class Residents:
    """The jobs on one node, in the order of their ids.

    Attributes:
        jobs: their ids.
        masks: int64 [job], GPUs on this node.
        counts: float64 [job], how many these are.
        counted: float32 [job, width + 1], their vectors with a 1 behind, which counts in sums.
        kind, load_version: of the node: its links, and the load that the vectors are from.
        rows: of sets of free GPUs, by mask: the row of SetRows; nodes with the same links and the
            same vectors on the same GPUs share it.
    """

    jobs: tuple[JobId, ...]
    masks: NDArray[np.int64]
    counts: NDArray[np.float64]
    counted: Array
    kind: int
    load_version: int
    rows: dict[int, int]

    @property
    def vectors(self) -> Array:
        """The load vector of each job: float32 [job, width]."""
        return self.counted[:, :-1]


class _Jobs(NamedTuple):
    """The jobs of several nodes, filled up with jobs that have no GPU.

    Attributes:
        masks: int64 [node, job].
        counts: float64 [node, job].
        vectors: float32 [node, job, width + 1], as Residents.counted.
    """

    masks: NDArray[np.int64]
    counts: NDArray[np.float64]
    vectors: Array

    @classmethod
    def of(
        cls, on: Mapping[int, Residents], sets: Sequence[tuple[int, int]], width: int
    ) -> tuple["_Jobs", list[int]]:
        """Return the jobs on the nodes of some sets of GPUs, and where the node of each set is."""
        first = on[sets[0][0]]
        if all(node == sets[0][0] for node, _ in sets):
            return cls(first.masks[None], first.counts[None], first.counted[None]), [0] * len(sets)
        position: dict[int, int] = {}
        at = [position.setdefault(node, len(position)) for node, _ in sets]
        shape = len(position), max(len(on[node].jobs) for node in position)
        found = cls(
            np.zeros(shape, dtype=np.int64),
            np.zeros(shape),
            np.zeros((*shape, width + 1), dtype=np.float32),
        )
        for node, line in position.items():
            residents, count = on[node], len(on[node].jobs)
            found.masks[line, :count] = residents.masks
            found.counts[line, :count] = residents.counts
            found.vectors[line, :count] = residents.counted
        return found, at


class SetRows:
    """What sets of GPUs of one node are beside: a row for each set, in one table.

    What newcomers were predicted to lose on a row is stored beside it, so that the next newcomer
    with the same vector need not be predicted again.

    Args:
        width: columns of a load vector.

    Attributes; rows that no set has are meaningless:
        sums: float32 [row, level, width], of the other jobs' vectors, weighted.
        joined: float32 [row, width], the other jobs as one.
        gpus: float64 [row], how many GPUs lose as `joined` does, weighted by what the set is of
            their others.
        level: int64 [row], the closest that any of them shares, a position in LEVELS.
    """

    def __init__(self, width: int) -> None:
        self.sums = np.zeros((_FIRST_COUNT, len(LEVELS), width), dtype=np.float32)
        self.joined = np.zeros((_FIRST_COUNT, width), dtype=np.float32)
        self.gpus = np.zeros(_FIRST_COUNT)
        self.level = np.zeros(_FIRST_COUNT, dtype=np.int64)
        self._count = 0
        self._newcomers: dict[tuple[int, bytes], int] = {}  # the one asked about last is the last
        self._losses = _unpredicted(_FIRST_COUNT)

    @property
    def is_full(self) -> bool:
        """Whether it is time to begin again with an empty table."""
        return self._count >= _MOST_ROWS

    def take(self, count: int) -> list[int]:
        """Return rows that no set has."""
        begin, self._count = self._count, self._count + count
        while self._count > len(self.gpus):
            for name in ("sums", "joined", "gpus", "level"):
                old = getattr(self, name)
                setattr(self, name, np.concatenate([old, np.zeros_like(old)]))
            added = _unpredicted(self._losses.shape[1])
            self._losses = np.concatenate([self._losses, added], axis=1)
        return list(range(begin, self._count))

    def losses(self, vector: Array, tier: int) -> Array:
        """Return what was predicted of newcomers with one vector, to be read and written.

        Args:
            vector: of the newcomer.
            tier: of its GPUs.

        Returns:
            float32 [row, 2], log slowdowns of the newcomer and of the others as one; NaN: not
            predicted yet. Valid until rows are taken or other losses are asked for.
        """
        key, newcomers = (tier, vector.tobytes()), self._newcomers
        at = newcomers.pop(key, None)
        if at is None:
            is_full = len(newcomers) == _NEWCOMER_COUNT
            at = newcomers.pop(next(iter(newcomers))) if is_full else len(newcomers)
            self._losses[at] = np.nan
        newcomers[key] = at
        found: Array = self._losses[at]
        return found


def _unpredicted(row_count: int) -> Array:
    return np.full((_NEWCOMER_COUNT, row_count, 2), np.nan, dtype=np.float32)


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
        self._rows_of: dict[tuple[int, bytes, bytes], dict[int, int]] = {}
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
        is_reported = bool(cluster.loads.reported >> node & 1)
        jobs = sorted(self._jobs.jobs_on.get(node, {}).items())
        masks = np.array([mask_of(one.gpus_on[node]) for _, one in jobs], dtype=np.int64)
        counted = np.ones((len(jobs), self._width + 1), dtype=np.float32)
        for at, (_, resident) in enumerate(jobs):
            means = self.expected(cluster, node, resident.here_frac, is_alone=resident.is_alone)
            if is_reported:
                gpus = resident.gpus_on[node]
                sums = np.add.reduce(cluster.loads.by_gpu[node, list(gpus)], axis=0)
                means |= zip(LOAD_QUANTITIES, (sums / len(gpus)).tolist(), strict=True)
            counted[at, :-1] = self._vector(means)
        key = kind, masks.tobytes(), counted.tobytes()
        found = self._known[node] = Residents(
            tuple(job_id for job_id, _ in jobs),
            masks,
            np.array([mask.bit_count() for mask in masks.tolist()], dtype=np.float64),
            counted,
            kind,
            version,
            self._rows_of.setdefault(key, {}),
        )
        return found

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
        missing = {
            (id(on[node].rows), mask): (node, mask)
            for (node, mask), row in zip(sets, known, strict=True)
            if row < 0
        }
        self._add_rows(cluster, on, list(missing.values()))
        return [on[node].rows[mask] for node, mask in sets]

    def _add_rows(
        self, cluster: Cluster, on: Mapping[int, Residents], sets: Sequence[tuple[int, int]]
    ) -> None:
        """Compute the rows of some sets; arrays are [set, job] or [set, level, job]."""
        jobs, at = _Jobs.of(on, sets, self._width)
        whole = cluster.gpu_count[[node for node, _ in sets]][:, None]
        taken = np.array([[mask.bit_count()] for _, mask in sets])
        counts, level = jobs.counts[at], self._levels(cluster, sets, jobs.masks[at])
        # A line for each level, and one for all jobs together.
        lines = np.empty((len(sets), len(LEVELS) + 1, counts.shape[1]), dtype=np.float32)
        weights = (counts / np.maximum(whole - taken, 1)).astype(np.float32)
        np.multiply(weights[:, None], level[:, None] == _LEVEL_NUMBERS, out=lines[:, :-1])
        lines[:, -1] = counts * (taken / (whole - counts))
        rows, sums = self.rows, weighted_sums(lines, jobs.vectors[at])
        gpus, found = sums[:, -1, -1], rows.take(len(sets))
        rows.sums[found] = sums[:, :-1, :-1]
        rows.joined[found] = sums[:, -1, :-1] / gpus[:, None]
        rows.gpus[found], rows.level[found] = gpus, level.min(axis=1)
        for (node, mask), row in zip(sets, found, strict=True):
            on[node].rows[mask] = row

    def level(
        self, cluster: Cluster, node: int, residents: Residents, mask: int
    ) -> NDArray[np.int64]:
        """Return what each resident shares with a set of GPUs: positions in LEVELS."""
        found: NDArray[np.int64] = self._levels(cluster, [(node, mask)], residents.masks[None])[0]
        return found

    def _levels(
        self, cluster: Cluster, sets: Sequence[tuple[int, int]], masks: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return the same for several sets, and the jobs of their nodes: int64 [set, job]."""
        beside = np.array([self._near_of(cluster, node, mask) for node, mask in sets])
        shared = masks[:, None] & beside[..., None] != 0  # [set, switch or socket, job]
        # What shares a switch shares the socket too: 2 less what is shared is a position in LEVELS.
        level: NDArray[np.int64] = 2 - shared.sum(axis=1)
        return level

    def _near_of(self, cluster: Cluster, node: int, mask: int) -> tuple[int, int]:
        table = cluster.table(node)
        near = self._near.setdefault(id(table), {})
        found = near.get(mask)
        if found is None:
            found = near[mask] = around(table, mask)
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
        kinds = cluster.kind[nodes]
        linked = [kind for kind in set(kinds.tolist()) if self._is_kind_nvlinked(cluster, kind)]
        keys = 2 * tiers + ((tiers == 0) & np.isin(kinds, linked)) if linked else 2 * tiers
        different = sorted(set(keys.tolist()))
        found = list[Newcomers]()
        for key in different:
            where = slice(None) if len(different) == 1 else np.flatnonzero(keys == key)
            first, tier = int(nodes[where][0]), key // 2
            means = self.expected(cluster, first, communication[tier], is_alone=key < 2)
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
        self.rows = SetRows(self._width)
        self._known.clear()
        self._rows_of.clear()


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
    return found._replace(local_frac=max(found.local_frac, local))
