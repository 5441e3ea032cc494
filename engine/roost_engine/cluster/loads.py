"""How busy the GPUs of each node are, as far as probes have reported it."""

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from roost_engine.cluster.features import load_fractions
from roost_engine.cluster.link_table import MAX_GPUS
from roost_engine.cluster.node_sets import NO_NODES, NodeSet, doubled, node_set
from roost_engine.domain.events import LOAD_COLUMNS
from roost_engine.domain.model import JobId, NodeShare


class NodeLoads:
    """The latest load of every node.

    Attributes; arrays are longer than there are nodes:
        by_gpu: float32 [node, gpu, 4], fractions, 0 where unknown; columns LOAD_COLUMNS.
        mean: float32 [node], over GPUs and quantities.
        known_frac: float32 [node], share of the GPUs of which any quantity is known.
        reported: the nodes whose load a probe has reported. Nodes without a report that have the
            same kind and the same free GPUs are interchangeable.
        changed: the nodes whose load is another one since a reader last emptied this.
        version: by node, how often its load has become another one.
        report_count: how many reports were stored.
        known: bool [node, gpu, 4], whether a probe has reported the quantity.
        of_job: by job, the shares that it held and what was reported of them over minutes.
    """

    def __init__(self) -> None:
        self.by_gpu = np.zeros((64, MAX_GPUS, len(LOAD_COLUMNS)), dtype=np.float32)
        self.known = np.zeros(self.by_gpu.shape, dtype=bool)
        self.of_job: dict[JobId, tuple[tuple[NodeShare, ...], Mapping[str, float]]] = {}
        self.mean = np.zeros(64, dtype=np.float32)
        self.known_frac = np.zeros(64, dtype=np.float32)
        self.reported: NodeSet = NO_NODES
        self.changed: NodeSet = NO_NODES
        self.version: list[int] = []
        self.report_count = self._node_count = 0

    def add_node(self) -> None:
        """Append a node of unknown load."""
        if self._node_count == len(self.mean):
            self.by_gpu, self.known = doubled(self.by_gpu), doubled(self.known)
            self.mean, self.known_frac = doubled(self.mean), doubled(self.known_frac)
        self.version.append(0)
        self._node_count += 1

    def apply(self, nodes: Sequence[int], load: NDArray[np.float32]) -> None:
        """Store what probes reported of some nodes.

        Args:
            nodes: each once.
            load: float32 [node, gpu, 4], NaN where a probe cannot know.
        """
        now, gpu_count, listed = load_fractions(load), load.shape[1], list(nodes)
        known = np.isfinite(load)
        is_other = (now != self.by_gpu[listed, :gpu_count]) | (
            known != self.known[listed, :gpu_count]
        )
        differs = is_other.any(axis=(1, 2)).tolist()
        for node, has_changed in zip(listed, differs, strict=True):
            if has_changed or not self.reported >> node & 1:
                self.version[node] += 1
        self.by_gpu[listed, :gpu_count], self.known[listed, :gpu_count] = now, known
        self.known_frac[listed] = known.any(axis=2).mean(axis=1)
        self.mean[listed] = now.reshape(len(listed), -1).mean(axis=1)
        reported = node_set(listed)
        self.reported |= reported
        self.changed |= reported
        self.report_count += len(listed)

    def apply_job(
        self,
        job_id: JobId,
        shares: tuple[NodeShare, ...],
        nodes: Iterable[int],
        load: Mapping[str, float],
        held: Collection[JobId],
    ) -> None:
        """Store what probes reported of a job's GPUs over minutes.

        Args:
            job_id: the job.
            shares: what it holds.
            nodes: where.
            load: see domain.events.JobLoadSeen.
            held: the jobs that hold something: others are forgotten when they are more than these.
        """
        self.of_job[job_id] = shares, load
        for node in nodes:
            self.version[node] += 1
        if len(self.of_job) > len(held):
            self.of_job = {one: found for one, found in self.of_job.items() if one in held}

    def job_load(self, job_id: JobId, shares: tuple[NodeShare, ...]) -> Mapping[str, float]:
        """Return what was reported of a job over minutes; empty: nothing of these shares."""
        found = self.of_job.get(job_id)
        return found[1] if found is not None and found[0] == shares else {}

    def forget(self, node: int) -> None:
        """Forget the load of a node: it has other GPUs than before."""
        self.by_gpu[node] = self.known[node] = 0
        self.mean[node] = self.known_frac[node] = 0
        self.version[node] += 1
        self.reported &= ~(1 << node)
        self.changed |= 1 << node
