"""The embeddings of a cluster's tree: mean up from GPU to node, rack and pod.

A model answers every level's embedding from the mean of the level below and the level's own
columns. Only what has changed is computed again. A few changed nodes take one call: each level gets
the mean over its unchanged members as a rest, and the weights of the changed ones. Many take one
call a level.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.link_table import MAX_GPUS
from roost_engine.domain.errors import PolicyError
from roost_engine.domain.model import JobId, JobSpec
from roost_engine.scoring import graph_columns as names
from roost_engine.scoring.graph_columns import HIDDEN, INPUT_SIZES
from roost_engine.scoring.graph_features import ClusterGraph, as_index
from roost_engine.scoring.graph_jobs import Communicates, typical

Array: TypeAlias = NDArray[np.float32]

_Block: TypeAlias = tuple[NDArray[np.int64], int]  # positions of nodes of one kind, their GPUs

_FEW_NODES = 32  # up to so many changed nodes the shares of one call stay small


class GraphModel(Protocol):
    """A network over the tree; see graph_columns for its tensors."""

    @property
    def name(self) -> str:
        """What `explain` calls it."""

    def ask(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """Return every output of graph_columns.OUTPUT_SIZES.

        Args:
            inputs: every input of INPUT_SIZES; levels that are not asked about have no items.

        Raises:
            PolicyError: it cannot answer.
        """


def batch_of(parts: Mapping[str, Array]) -> dict[str, Array]:
    """Complete a call: the inputs that are not given, with as many items as the given ones say."""
    given = tuple([(name, array.shape) for name, array in parts.items()])
    return {**_missing(given), **parts}


@lru_cache(256)
def _missing(given: tuple[tuple[str, tuple[int, ...]], ...]) -> Mapping[str, Array]:
    """Return the inputs that stand beside given ones of these shapes, all 0; calls share them."""
    counts = {"gpu": 0, "node": 0, "rack": 0, "pod": 0, "candidate": 0}
    for name, shape in given:
        for size, count in zip(INPUT_SIZES[name], shape, strict=True):
            if isinstance(size, str):
                counts[size] = count
    found = dict[str, Array]()
    for name in INPUT_SIZES.keys() - {name for name, _ in given}:
        sizes = [counts[size] if isinstance(size, str) else size for size in INPUT_SIZES[name]]
        found[name] = np.zeros(sizes, dtype=np.float32)
        found[name].flags.writeable = False
    return found


@lru_cache(256)
def _even_shares(node_count: int, gpu_count: int) -> Array:
    """Return the part of each GPU in the mean of its node, for nodes of one size; see `_shares`."""
    shares = np.eye(node_count, dtype=np.float32) / np.float32(gpu_count)
    shares = np.repeat(shares, gpu_count, axis=1)
    shares.flags.writeable = False
    return shares


class GraphTree:
    """The embeddings of every GPU, node, rack and pod, by a model.

    Attributes:
        graph: the features.
        gpus: float32 [node, gpu, hidden]; 0 behind a node's last GPU.
        nodes, racks, pods: float32 [item, hidden].
        cluster: float32 [hidden], the mean of the pods.
    """

    def __init__(self, model: GraphModel, communicates: Communicates = typical) -> None:
        self.graph, self._model = ClusterGraph(communicates), model
        self.gpus = np.zeros((0, MAX_GPUS, HIDDEN), dtype=np.float32)
        self.nodes, self.racks, self.pods = (
            np.zeros((0, HIDDEN), dtype=np.float32) for _ in range(3)
        )
        self.cluster = np.zeros(HIDDEN, dtype=np.float32)
        self._gpu_inputs = np.zeros((0, len(names.GPU_COLUMNS)), dtype=np.float32)
        self._pending = np.zeros(0, dtype=np.int64)

    def refresh(self, cluster: Cluster, spec_of: Callable[[JobId], JobSpec | None]) -> None:
        """Compute again what has changed since the last call.

        Raises:
            PolicyError: the model could not answer; the next call computes the same nodes again.
        """
        changed = self.graph.refresh(cluster, spec_of)
        # What an earlier call could not compute is still to do.
        self._pending = np.union1d(self._pending, changed) if len(self._pending) else changed
        if not len(self._pending):
            return
        self._grow(cluster)
        self.recompute(cluster, self._pending)
        self._pending = self._pending[:0]

    def recompute(self, cluster: Cluster, nodes: NDArray[np.int64]) -> None:
        """Compute some nodes again, their racks, and all pods.

        Args:
            cluster: as it was at the last call of `refresh`.
            nodes: int64 [node], ascending.

        Raises:
            PolicyError: the model could not answer.
        """
        if len(nodes) <= _FEW_NODES < len(cluster):
            self._update_few(cluster, nodes)
        else:
            self._update_all(cluster, nodes)
        self.cluster = np.add.reduce(self.pods, axis=0) / len(self.pods)

    def _grow(self, cluster: Cluster) -> None:
        missing = len(cluster) - len(self.nodes)
        if missing:
            self.gpus = np.pad(self.gpus, ((0, missing), (0, 0), (0, 0)))
            self.nodes = np.pad(self.nodes, ((0, missing), (0, 0)))
        for level, count in (("racks", len(self.graph.pod_ids)), ("pods", self.graph.pod_count)):
            known: Array = getattr(self, level)
            if len(known) < count:
                setattr(self, level, np.pad(known, ((0, count - len(known)), (0, 0))))

    def _update_all(self, cluster: Cluster, nodes: NDArray[np.int64]) -> None:
        """Compute many nodes again, level by level, and every rack and pod."""
        graph = self.graph
        blocks, rows = self._gpu_rows(cluster, nodes)
        answer = self._ask({names.GPUS: rows})
        self._put_gpus(nodes, blocks, answer[names.GPU_EMBEDDINGS])
        means = _gpu_means(blocks, answer[names.GPU_EMBEDDINGS], len(nodes))
        answer = self._ask({names.NODES: graph.node_rows(nodes), names.NODE_REST: means})
        self.nodes[nodes] = answer[names.NODE_EMBEDDINGS]
        racks = np.arange(len(self.racks))
        rest = _means(self.nodes, cluster.racks.ids[: len(cluster)], len(racks))
        answer = self._ask({names.RACKS: graph.racks[racks], names.RACK_REST: rest})
        self.racks = answer[names.RACK_EMBEDDINGS]
        rest = _means(self.racks, graph.pod_ids, len(self.pods))
        answer = self._ask({names.PODS: graph.pods, names.POD_REST: rest})
        self.pods = answer[names.POD_EMBEDDINGS]

    def _update_few(self, cluster: Cluster, nodes: NDArray[np.int64]) -> None:
        """Compute a few nodes again, with their racks and all pods, in one call."""
        graph = self.graph
        blocks, rows = self._gpu_rows(cluster, nodes)
        rack_of = cluster.racks.ids[: len(cluster)]
        racks = np.flatnonzero(np.bincount(rack_of[nodes]))  # each once, ascending
        node_shares, rack_rest = _shares(self.nodes, rack_of, racks, nodes)
        pods = np.arange(len(self.pods))
        rack_shares, pod_rest = _shares(self.racks, graph.pod_ids, pods, racks)
        answer = self._ask(
            {
                names.GPUS: rows,
                names.GPU_SHARES: _gpu_shares(blocks, len(nodes)),
                names.NODES: graph.node_rows(nodes),
                names.NODE_SHARES: node_shares,
                names.RACKS: graph.racks[racks],
                names.RACK_REST: rack_rest,
                names.RACK_SHARES: rack_shares,
                names.PODS: graph.pods,
                names.POD_REST: pod_rest,
            }
        )
        self._put_gpus(nodes, blocks, answer[names.GPU_EMBEDDINGS])
        self.nodes[as_index(nodes)] = answer[names.NODE_EMBEDDINGS]
        self.racks[racks] = answer[names.RACK_EMBEDDINGS]
        self.pods = answer[names.POD_EMBEDDINGS]

    def _gpu_rows(self, cluster: Cluster, nodes: NDArray[np.int64]) -> tuple[list[_Block], Array]:
        """Return the GPUs of some nodes, kind by kind: which nodes each block has, and the rows.

        The next call overwrites the rows: fresh memory for every GPU would cost more than they do.
        """
        kinds, graph = cluster.kind[nodes], self.graph
        counts = np.bincount(kinds)
        present = np.flatnonzero(counts).tolist()
        row_count = sum(int(counts[kind]) * graph.kinds[kind].gpu_count for kind in present)
        if row_count > len(self._gpu_inputs):
            self._gpu_inputs = np.empty((row_count, len(names.GPU_COLUMNS)), dtype=np.float32)
        rows, blocks, begin = self._gpu_inputs[:row_count], list[_Block](), 0
        for kind in present:
            at = np.arange(len(nodes)) if len(present) == 1 else np.flatnonzero(kinds == kind)
            size = graph.kinds[kind].gpu_count
            graph.gpu_rows(cluster, nodes[at], kind, rows[begin : begin + len(at) * size])
            blocks.append((at, size))
            begin += len(at) * size
        return blocks, rows

    def _put_gpus(self, nodes: NDArray[np.int64], blocks: list[_Block], answer: Array) -> None:
        """Store the embeddings of the GPUs of some nodes."""
        for at, each in _by_node(blocks, answer):
            where, size = as_index(nodes[at]), each.shape[1]
            self.gpus[where, :size] = each
            if size < MAX_GPUS:
                self.gpus[where, size:] = 0.0

    def _ask(self, parts: Mapping[str, Array]) -> Mapping[str, Array]:
        answer = self._model.ask(batch_of(parts))
        if len(answer) < len(names.OUTPUT_SIZES):
            raise PolicyError(f"{self._model.name} answered only {', '.join(answer)}")
        return answer

    def scores(self, candidates: Array, context: Array) -> Array:
        """Ask for the scores of candidates.

        Raises:
            PolicyError: the model could not answer.
        """
        return self._ask({names.CANDIDATES: candidates, names.CONTEXT: context})[names.SCORE]


def _by_node(blocks: list[_Block], gpus: Array) -> Iterator[tuple[NDArray[np.int64], Array]]:
    """Yield each block's positions of nodes with its GPUs' embeddings: [node, gpu, hidden]."""
    begin = 0
    for at, size in blocks:
        end = begin + len(at) * size
        yield at, gpus[begin:end].reshape(len(at), size, HIDDEN)
        begin = end


def _gpu_means(blocks: list[_Block], gpus: Array, node_count: int) -> Array:
    """Return the mean of the GPUs of each node: float32 [node, hidden]."""
    means = np.empty((node_count, HIDDEN), dtype=np.float32)
    for at, each in _by_node(blocks, gpus):
        total = each[:, 0].copy()
        for gpu in range(1, each.shape[1]):  # numpy's own mean takes four times as long
            total += each[:, gpu]
        means[at] = total / each.shape[1]
    return means


def _gpu_shares(blocks: list[_Block], node_count: int) -> Array:
    """Return each GPU's part of the mean of its node: float32 [node, gpu]."""
    if len(blocks) == 1:
        return _even_shares(node_count, blocks[0][1])
    parts, begin = [_even_shares(len(at), size) for at, size in blocks], 0
    shares = np.zeros((node_count, sum(part.shape[1] for part in parts)), dtype=np.float32)
    for (at, _), part in zip(blocks, parts, strict=True):
        shares[at, begin : begin + part.shape[1]] = part
        begin += part.shape[1]
    return shares


def _means(values: Array, group: NDArray[np.int64], count: int) -> Array:
    """Return the mean of each group's values: float32 [group, hidden]; 0 for an empty one."""
    sizes = np.maximum(np.bincount(group, minlength=count), 1)
    return np.asarray(_sums(values, group, count) / sizes[:, None], dtype=np.float32)


def _sums(values: Array, group: NDArray[np.int64], count: int) -> NDArray[np.float64]:
    """Return the sum of each group's values, added in the order of the members."""
    if count == 1 and len(group):  # the same sum without sorting: most clusters have one pod
        return np.add.reduceat(values.astype(np.float64), [0], axis=0)
    sums = np.zeros((count, values.shape[1]))
    if len(group):
        order = np.argsort(group, kind="stable")
        listed = group[order]
        begins = np.flatnonzero(np.diff(listed, prepend=-1))
        sums[listed[begins]] = np.add.reduceat(values[order].astype(np.float64), begins, axis=0)
    return sums


def _shares(
    values: Array,
    group: NDArray[np.int64],
    groups: NDArray[np.int64],
    changed: NDArray[np.int64],
) -> tuple[Array, Array]:
    """Split the mean of some groups into their changed members and the rest.

    Args:
        values: float32 [member, hidden], as they were.
        group: int64 [member].
        groups: those that are wanted, ascending.
        changed: members, ascending.

    Returns:
        float32 [wanted group, changed member], each member's part of its group's mean; and
        float32 [wanted group, hidden], what the other members add to it.
    """
    if len(groups) == 1:  # one changed rack, or the only pod: nothing is to be sorted
        return _shares_of_one(values, group == groups[0], changed)
    wanted = np.zeros(int(groups[-1]) + 1, dtype=np.bool_)
    wanted[groups] = True
    sizes = np.bincount(group, minlength=len(wanted))[groups]
    mine = group[changed] == groups[:, None]
    shares = (mine / sizes[:, None]).astype(np.float32)
    if len(changed) == sizes.sum():  # no other member
        return shares, np.zeros((len(groups), values.shape[1]), dtype=np.float32)
    is_other = group < len(wanted)
    is_other[is_other] = wanted[group[is_other]]
    is_other[changed] = False
    others = np.flatnonzero(is_other)
    rest = _sums(values[others], np.searchsorted(groups, group[others]), len(groups))
    return shares, np.asarray(rest / sizes[:, None], dtype=np.float32)


def _shares_of_one(
    values: Array, is_member: NDArray[np.bool_], changed: NDArray[np.int64]
) -> tuple[Array, Array]:
    """See _shares, where all changed members are of one group; `is_member` says which are."""
    size = np.count_nonzero(is_member)
    shares = np.full((1, len(changed)), 1 / size, dtype=np.float32)
    if len(changed) == size:  # no other member
        return shares, np.zeros((1, values.shape[1]), dtype=np.float32)
    is_member[changed] = False
    rest = np.add.reduceat(values[is_member].astype(np.float64), [0], axis=0)
    return shares, (rest / size).astype(np.float32)
