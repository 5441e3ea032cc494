"""The features of a cluster's tree: what a graph model sees of GPUs, nodes, racks and pods.

They depend only on the cluster and its jobs. A `ClusterGraph` keeps them and computes again what
has changed; `refresh` says which nodes that were. A fresh ClusterGraph computes everything.

The pod of a rack is what stands before the last "/" in the rack's name: "pod1/rack7" is in pod1.
All racks without one are in one pod.
"""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.features import LOAD_QUANTITIES
from roost_engine.cluster.link_table import MAX_GPUS, POPCOUNT
from roost_engine.cluster.node_sets import NO_NODES, nodes_in
from roost_engine.domain.model import JobId, JobSpec
from roost_engine.scoring.graph_columns import (
    GPU_COLUMNS,
    GPU_STATE,
    LINK_TYPES,
    NODE_COLUMNS,
    POD_COLUMNS,
    RACK_COLUMNS,
)
from roost_engine.scoring.graph_jobs import Communicates, ResidentJobs, typical
from roost_engine.scoring.graph_links import KindLinks

_BITS = np.arange(MAX_GPUS)[:, None]
_SM = LOAD_QUANTITIES.index("sm")
_LINKS = [LOAD_QUANTITIES.index("pcie"), LOAD_QUANTITIES.index("nvlink")]
_HALF_RACK, _HALF_POD = 16.0, 64.0
_NODE, _RACK, _POD = (
    {name: position for position, name in enumerate(columns)}
    for columns in (NODE_COLUMNS, RACK_COLUMNS, POD_COLUMNS)
)


def as_index(nodes: NDArray[np.int64]) -> NDArray[np.int64] | slice:
    """Return ascending nodes as an index, a slice where they follow each other: it copies nothing.

    The nodes of a rack mostly do.
    """
    first, behind = int(nodes[0]), int(nodes[-1]) + 1
    return slice(first, behind) if behind - first == len(nodes) else nodes


def saturating(value: NDArray[np.float64] | float) -> NDArray[np.float64]:
    """Map 0..inf to 0..1: 1 becomes a half."""
    values = np.asarray(value, dtype=np.float64)
    return values / (1.0 + values)


class ClusterGraph:
    """The raw features of every level, kept up to date.

    Attributes:
        residents: the running jobs.
        duty: float32 [node, gpu], see graph_columns.GPU_STATE; 0 for a free GPU.
        network: float64 [node], the communication of the jobs on several nodes.
        kinds: the links of each kind of node.
        pod_ids: int64 [rack], the number of its pod.
        racks: float32 [rack, RACK_COLUMNS].
        pods: float32 [pod, POD_COLUMNS].
    """

    def __init__(self, communicates: Communicates = typical) -> None:
        self.residents = ResidentJobs(communicates)
        self.kinds: list[KindLinks] = []
        self.pod_ids = np.zeros(0, dtype=np.int64)
        self._pod_of_rack: list[int] = []
        self._pods: dict[str, int] = {}
        self.duty = np.zeros((0, MAX_GPUS), dtype=np.float32)
        self.network = np.zeros(0)
        # [4, node]: free mask, kind, rack, usable
        self._seen = np.zeros((4, 0), dtype=np.int64)
        self._version = -1, 0  # of the cluster, its loads left out, and of trials
        self.racks = np.zeros((0, len(RACK_COLUMNS)), dtype=np.float32)
        self.pods = np.zeros((0, len(POD_COLUMNS)), dtype=np.float32)

    @property
    def pod_count(self) -> int:
        """How many pods there are."""
        return len(self._pods)

    def pod_of(self, rack: int) -> int:
        """Return the number of a rack's pod."""
        return self._pod_of_rack[rack]

    def refresh(
        self, cluster: Cluster, spec_of: Callable[[JobId], JobSpec | None]
    ) -> NDArray[np.int64]:
        """Read what has changed since the last call; at first everything.

        Returns:
            The nodes whose features differ, ascending.
        """
        job_ids = dict.fromkeys(cluster.take_changed_jobs())
        loaded, cluster.loads.changed = nodes_in(cluster.loads.changed), NO_NODES
        version = cluster.change_count - cluster.loads.report_count, cluster.free.trial_count
        if version == self._version and not job_ids:
            return np.array(loaded, dtype=np.int64)
        count, known = len(cluster), self._seen.shape[1]
        self._note_racks(cluster)
        self.kinds += [KindLinks.of(table) for table in cluster.tables[len(self.kinds) :]]
        seen = np.empty((4, count), dtype=np.int64)
        seen[0], seen[1] = cluster.free_mask[:count], cluster.kind[:count]
        seen[2], seen[3] = cluster.racks.ids[:count], cluster.usable[:count]
        is_other = (seen[:, :known] != self._seen).any(axis=0)
        changed = np.ones(count, dtype=np.bool_)
        changed[:known] = is_other
        differs = bool(is_other.any())
        if differs:
            for node in np.flatnonzero(seen[2, :known] != self._seen[2]).tolist():
                job_ids.update(dict.fromkeys(self.residents.jobs_on.get(node, ())))
        if known < count:
            self.duty = np.pad(self.duty, ((0, count - known), (0, 0)))
            self.network = np.pad(self.network, (0, count - known))
        self._seen = seen
        touched = self.residents.update(cluster, job_ids, spec_of, self.pod_of)
        for node in touched:
            self._set_duty(node)
        changed[list(touched)] = True
        changed[loaded] = True
        self._sum_racks(cluster)
        self._version = version
        return np.flatnonzero(changed)

    def _note_racks(self, cluster: Cluster) -> None:
        if len(cluster.racks.names) == len(self._pod_of_rack):
            return
        for name in list(cluster.racks.names)[len(self._pod_of_rack) :]:
            pod = self._pods.setdefault(name.rpartition("/")[0], len(self._pods))
            self._pod_of_rack.append(pod)
        if len(self.pod_ids) < len(self._pod_of_rack):
            self.pod_ids = np.array(self._pod_of_rack, dtype=np.int64)

    def _set_duty(self, node: int) -> None:
        """Set the duty of a node's GPUs, 0 for a job on one node with NVLink between all."""
        duty = self.duty[node]
        duty[:], self.network[node] = 0.0, self.residents.network[node]
        is_nvlinked = self.kinds[int(self._seen[1, node])].is_nvlinked
        for job in self.residents.jobs_on.get(node, {}).values():
            if not (job.is_alone and is_nvlinked):
                duty[list(job.gpus_on[node])] = job.here_frac

    # -- rows of GPUs and nodes ------------------------------------------------------------

    def gpu_rows(
        self,
        cluster: Cluster,
        nodes: NDArray[np.int64],
        kind: int,
        out: NDArray[np.float32] | None = None,
    ) -> NDArray[np.float32]:
        """Return the GPUs of some nodes of one kind, in `out`: float32 [node * gpu, column]."""
        links, at = self.kinds[kind], as_index(nodes)
        size, types, width = links.gpu_count, len(LINK_TYPES), len(GPU_STATE)
        if out is None:
            out = np.empty((len(nodes) * size, len(GPU_COLUMNS)), dtype=np.float32)
        # Column by column: numpy's loops then run over nodes, and few calls are made.
        columns = np.zeros((len(GPU_COLUMNS), size, len(nodes)), dtype=np.float32)
        state = columns[:width]
        free, held, duty, sm, link = state
        free[:] = self._seen[0, at] >> _BITS[:size] & 1
        np.subtract(1, free, out=held)
        np.multiply(self.duty[at, :size].T, held, out=duty)
        loads = cluster.loads.by_gpu[at, :size].T
        sm[:] = loads[_SM]
        np.maximum(loads[_LINKS[0]], loads[_LINKS[1]], out=link)
        links.add_means(state, columns[width:-types].reshape(types, width, size, len(nodes)))
        columns[-types:] = links.pairs_frac[..., None]
        out.reshape(len(nodes), size, len(GPU_COLUMNS))[:] = columns.T
        return out

    def node_rows(self, nodes: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return some nodes: float32 [node, column]."""
        where = as_index(nodes)
        (free, kinds, _, usable), node_duty = self._seen[:, where], self.duty[where]
        rows = np.zeros((len(nodes), len(NODE_COLUMNS)), dtype=np.float32)
        rows[:, _NODE["network_frac"]] = saturating(self.network[where])
        rows[:, _NODE["usable"]] = usable
        present = np.flatnonzero(np.bincount(kinds)).tolist()
        for kind in present:
            links = self.kinds[kind]
            at = slice(None) if len(present) == 1 else np.flatnonzero(kinds == kind)
            duty = node_duty[at, : links.gpu_count]
            rows[at, _NODE["free_frac"]] = POPCOUNT[free[at]] / links.gpu_count
            rows[at, _NODE["duty_frac"]] = np.add.reduce(duty, axis=1) / links.gpu_count
            rows[at, _NODE["links_frac"]] = links.links_frac
            rows[at, _NODE["nvlinked"]] = links.is_nvlinked
            rows[at, _NODE["potential_frac"]] = links.potential[free[at]]
            rows[at, _NODE["size_frac"]] = links.gpu_count / MAX_GPUS
        return rows

    def uplink_frac(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return how busy the uplinks are, by rack and by pod: their column `crossing_frac`."""
        racks, pods = self.racks[:, _RACK["crossing_frac"]], self.pods[:, _POD["crossing_frac"]]
        return racks.astype(np.float64), pods.astype(np.float64)

    def _sum_racks(self, cluster: Cluster) -> None:
        """Sum the nodes of each rack, and of each pod."""
        rack_of, count = self._seen[2], len(self.pod_ids)
        gpus, free = cluster.gpu_count[: len(cluster)], POPCOUNT[self._seen[0]]
        has_gpus = gpus > 0
        parts = (free, gpus, (free == gpus) & has_gpus, has_gpus)
        free_sums, gpu_sums, idle_sums, nodes = (
            np.bincount(rack_of, weights=part, minlength=count).astype(np.float64) for part in parts
        )
        at_least_1 = np.maximum(nodes, 1)
        self.racks = np.empty((count, len(RACK_COLUMNS)), dtype=np.float32)
        crossing = _listed(self.residents.rack_crossing, count)
        self.racks[:, _RACK["free_frac"]] = free_sums / np.maximum(gpu_sums, 1)
        self.racks[:, _RACK["idle_frac"]] = idle_sums / at_least_1
        self.racks[:, _RACK["crossing_frac"]] = saturating(crossing / at_least_1)
        self.racks[:, _RACK["size_frac"]] = nodes / (nodes + _HALF_RACK)
        self._sum_pods(free_sums, gpu_sums, nodes)

    def _sum_pods(self, *of_racks: NDArray[np.float64]) -> None:
        """Sum the racks of each pod: their free GPUs, GPUs and nodes."""
        count = self.pod_count
        free, gpus, nodes = (
            np.bincount(self.pod_ids, weights=part, minlength=count) for part in of_racks
        )
        crossing = _listed(self.residents.pod_crossing, count)
        self.pods = np.empty((count, len(POD_COLUMNS)), dtype=np.float32)
        self.pods[:, _POD["free_frac"]] = free / np.maximum(gpus, 1)
        self.pods[:, _POD["crossing_frac"]] = saturating(crossing / np.maximum(nodes, 1))
        self.pods[:, _POD["size_frac"]] = nodes / (nodes + _HALF_POD)


def _listed(values: Mapping[int, float], count: int) -> NDArray[np.float64]:
    """Return the values of 0, 1 and so on as an array; 0 where there is none."""
    return np.array([values.get(key, 0.0) for key in range(count)], dtype=np.float64)
