"""Small clusters with jobs for tests of the graph score, in any order of nodes and GPUs."""

from collections.abc import Sequence

import numpy as np

from roost_engine.cluster.cluster import Cluster
from roost_engine.domain.model import JobId, JobSpec, NodeName, NodeShare
from roost_engine.domain.topology import Level, Link, LinkMatrix
from roost_engine.placement.wide_search import WideSearch
from roost_engine.policies.protocols import ScoreQuestion
from roost_engine.scoring.graph_jobs import Communication
from roost_engine.testing.builders import bridges, job, node, nvswitch

PCIE = LinkMatrix.uniform(8, Link(Level.SYSTEM))
KINDS = (nvswitch(), bridges(), PCIE)


def unknown(job_id: JobId) -> JobSpec | None:
    return None


def talks(spec: JobSpec | None, gpu_count: int) -> Communication:
    """Communication that grows with the number of GPUs; it depends on nothing else."""
    part = 1 - 1 / gpu_count
    return Communication(part / 4, part / 2, part)


def cluster_of(racks: Sequence[Sequence[int]], order: Sequence[int] | None = None) -> Cluster:
    """Nodes "n<rack>-<number>" of the kinds KINDS[k] for each k of each rack; racks in two pods.

    Args:
        racks: the kinds of each rack's nodes.
        order: in which the nodes are introduced; None: rack by rack.
    """
    listed = [(rack, at, kind) for rack, kinds in enumerate(racks) for at, kind in enumerate(kinds)]
    cluster = Cluster()
    for number in range(len(listed)) if order is None else order:
        rack, at, kind = listed[number]
        name = f"n{rack}-{at}"
        cluster.apply_node(node(name, 8, cpu_count=64, rack=f"p{rack % 2}/r{rack}"))
        cluster.apply_topology(NodeName(name), KINDS[kind], ())
    return cluster


def occupy(cluster: Cluster, rng: np.random.Generator, job_count: int, first: int = 0) -> None:
    """Let jobs of one to three nodes hold free GPUs, drawn over the nodes by name."""
    names = sorted(cluster.index_of)
    for number in range(first, first + job_count):
        chosen = rng.permutation(len(names))[: int(rng.integers(1, 4))]
        size, shares = int(rng.integers(1, 5)), []
        for at in sorted(chosen.tolist()):
            free = int(cluster.free_mask[cluster.index_of[names[at]]])
            gpus = [gpu for gpu in range(8) if free >> gpu & 1][:size]
            if gpus:
                shares.append(NodeShare(names[at], tuple(gpus), 1, 0))
        if shares:
            cluster.hold(JobId(f"on{number}"), shares)


def question_of(cluster: Cluster, gpus: int = 2, nodes: int = 1) -> ScoreQuestion:
    spec = job("9", gpus=gpus, nodes=nodes)
    candidates = WideSearch().propose(cluster, spec, 0, 0.0)
    listing = candidates.listing()
    return ScoreQuestion(
        candidates=candidates,
        listing=listing,
        features=candidates.features_of(listing),
        job=spec,
        cluster=cluster,
        spec_of=unknown,
    )
