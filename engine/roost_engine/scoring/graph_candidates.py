"""What a graph model sees of each candidate: its columns, and the embeddings of what it takes."""

from itertools import accumulate
from math import log2

import numpy as np
from numpy.typing import NDArray

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.features import COLUMNS
from roost_engine.cluster.link_table import MAX_GPUS, POPCOUNT
from roost_engine.domain.tier import Tier
from roost_engine.domain.value import value
from roost_engine.placement.options import GangOption
from roost_engine.policies.protocols import ScoreQuestion
from roost_engine.scoring.graph_columns import (
    CANDIDATE_COLUMNS,
    CONTEXT_WIDTH,
    HIDDEN,
    JOB_AND_PLACE_COLUMNS,
)
from roost_engine.scoring.graph_features import ClusterGraph, saturating
from roost_engine.scoring.graph_jobs import Communication
from roost_engine.scoring.graph_tree import GraphTree

_BITS = np.arange(MAX_GPUS)
_AT = {name: len(COLUMNS) + at for at, name in enumerate(JOB_AND_PLACE_COLUMNS)}


@value(eq=False)
class Parts:
    """What each candidate takes, node by node.

    Attributes:
        candidate: int64 [part], ascending.
        node: int64 [part].
        mask: int64 [part], the GPUs taken.
        begins: int64 [candidate], its first part.
        tier: int64 [candidate].
    """

    candidate: NDArray[np.int64]
    node: NDArray[np.int64]
    mask: NDArray[np.int64]
    begins: NDArray[np.int64]
    tier: NDArray[np.int64]

    @classmethod
    def of(cls, question: ScoreQuestion) -> "Parts":
        """List the parts of a question's candidates."""
        options, listing = question.candidates.options, question.listing
        if isinstance(options[0], GangOption):
            gangs = [option for option in options if isinstance(option, GangOption)]
            counts = np.array([len(gang.nodes) for gang in gangs])
            return cls(
                np.repeat(np.arange(len(gangs)), counts),
                np.array([node for gang in gangs for node in gang.nodes], dtype=np.int64),
                np.array([part[2] for gang in gangs for part in gang.parts], dtype=np.int64),
                np.concatenate(([0], np.cumsum(counts)[:-1])),
                np.array([int(gang.tier) for gang in gangs], dtype=np.int64),
            )
        numbers = np.arange(len(listing.node))
        masks = [option.choice.masks for option in options if not isinstance(option, GangOption)]
        offsets = np.array([0, *accumulate(map(len, masks[:-1]))])
        mask = np.concatenate(masks).take(offsets.take(listing.option) + listing.subset)
        tier = np.zeros(len(numbers), dtype=np.int64)
        return cls(numbers, listing.node, mask, numbers, tier)

    def mean(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the mean of [part] or [part, hidden] values over each candidate's parts."""
        counts = np.diff(np.append(self.begins, len(self.node))).reshape(
            -1, *(1,) * (values.ndim - 1)
        )
        means: NDArray[np.float64] = np.add.reduceat(values, self.begins, axis=0) / counts
        return means

    def largest(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the largest of [part] values of each candidate."""
        return np.maximum.reduceat(values, self.begins)


def candidate_rows(
    question: ScoreQuestion, parts: Parts, graph: ClusterGraph, job: Communication
) -> NDArray[np.float32]:
    """Return float32 [candidate, column], columns graph_columns.CANDIDATE_COLUMNS.

    Args:
        question: the candidates.
        parts: of them.
        graph: of the cluster as it is now.
        job: the communication of the waiting job.
    """
    cluster, shape = question.cluster, question.candidates.shape
    rows = np.zeros((len(question.features), len(CANDIDATE_COLUMNS)), dtype=np.float32)
    rows[:, : len(COLUMNS)] = question.features

    def put(name: str, values: NDArray[np.float64] | float) -> None:
        rows[:, _AT[name]] = np.clip(values, 0.0, 1.0)

    node, whole = parts.node, np.maximum(cluster.gpu_count[parts.node], 1)
    taken, free = POPCOUNT[parts.mask], POPCOUNT[cluster.free_mask[node]]
    nvlinked = np.array([kind.is_nvlinked for kind in graph.kinds])[cluster.kind[node]]
    here = np.array(job)[parts.tier]
    is_single = parts.tier == Tier.NODE
    duty = here * ~(is_single & (parts.mean(nvlinked.astype(float)) == 1.0))
    duty_gpus = graph.duty[node].sum(axis=1, dtype=np.float64)
    pressure = parts.largest(np.where(taken < whole, duty_gpus / np.maximum(whole - taken, 1), 0.0))
    beside = _duty_of_jobs(graph, node)
    port = parts.largest(saturating(graph.network[node]))
    uplink, pod_uplink, rack_count = _uplinks(cluster, graph, parts)
    put("gpus_frac", log2(max(shape.gpu_count, 1)) / 10)
    put("nodes_frac", log2(max(shape.node_count, 1)) / 10)
    put("racks_frac", np.log2(rack_count) / 6)
    for name, frac in zip(("local_frac", "rack_frac", "across_frac"), job, strict=True):
        put(name, frac)
    put("here_frac", here)
    put("duty_frac", duty)
    put("nvlinked_frac", parts.mean(nvlinked.astype(np.float64)))
    put("pressure_frac", pressure)
    put("neighbour_duty_frac", saturating(parts.mean(beside)))
    put("port_frac", np.where(is_single, 0.0, port))
    put("uplink_frac", uplink)
    put("pod_uplink_frac", pod_uplink)
    put("broken_frac", parts.mean(((free == whole) & (taken < whole)).astype(np.float64)))
    put("stretch_frac", here * (duty > 0) * pressure)
    put("stretch_caused_frac", saturating(duty * parts.mean(beside * taken / whole)))
    busiest = np.maximum(np.where(is_single, 0.0, port), np.maximum(uplink, pod_uplink))
    put("crossing_frac", here * busiest)
    return rows


def _duty_of_jobs(graph: ClusterGraph, node: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the summed duty of the jobs on each node: a job counts once, whatever it holds."""
    listed = node.tolist()
    found = dict.fromkeys(listed, 0.0)
    for each in found:
        duty = graph.duty[each]
        jobs = graph.residents.jobs_on.get(each, {}).values()
        found[each] = float(sum(duty[job.gpus_on[each][0]] for job in jobs))
    return np.array([found[each] for each in listed])


def _uplinks(
    cluster: Cluster, graph: ClusterGraph, parts: Parts
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return by candidate: the busiest rack uplink, the busiest pod uplink, the number of racks.

    A candidate in one rack uses no rack uplink, one in one pod no pod uplink.
    """
    count = len(parts.tier)
    racks, pods = np.zeros(count), np.zeros(count)
    numbers = np.ones(count)
    crossing = np.flatnonzero(parts.tier == Tier.CLUSTER)
    if not len(crossing):
        return racks, pods, numbers
    of_rack, of_pod = graph.uplink_frac()
    ends = np.append(parts.begins[1:], len(parts.node))
    for each in crossing.tolist():
        nodes = parts.node[parts.begins[each] : ends[each]]
        spanned = np.unique(cluster.racks.ids[nodes])
        pods_spanned = {graph.pod_of(rack) for rack in spanned.tolist()}
        numbers[each], racks[each] = len(spanned), of_rack[spanned].max()
        if len(pods_spanned) > 1:
            pods[each] = of_pod[list(pods_spanned)].max()
    return racks, pods, numbers


def context_of(cluster: Cluster, tree: GraphTree, parts: Parts) -> NDArray[np.float32]:
    """Return the broadcast down: float32 [candidate, level * hidden], levels CONTEXT_LEVELS.

    Each candidate gets the mean embeddings of its GPUs, nodes, racks and pods, and the cluster's.
    """
    bits = (parts.mask[:, None] >> _BITS & 1).astype(np.float32)
    sums = np.einsum("pg,pgh->ph", bits, tree.gpus[parts.node]).astype(np.float64)
    gpus = np.add.reduceat(sums, parts.begins, axis=0)
    counts = np.add.reduceat(bits.sum(axis=1, dtype=np.float64), parts.begins)
    rack = cluster.racks.ids[parts.node]
    pod = tree.graph.pod_ids[rack]
    context = np.empty((len(parts.begins), CONTEXT_WIDTH), dtype=np.float32)
    levels = (
        gpus / np.maximum(counts, 1)[:, None],
        parts.mean(tree.nodes[parts.node].astype(np.float64)),
        parts.mean(tree.racks[rack].astype(np.float64)),
        parts.mean(tree.pods[pod].astype(np.float64)),
        np.tile(tree.cluster.astype(np.float64), (len(parts.begins), 1)),
    )
    for at, values in enumerate(levels):
        context[:, at * HIDDEN : (at + 1) * HIDDEN] = values
    return context
