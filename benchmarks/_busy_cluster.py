"""A busy cluster for benchmarks, mixed and 88 % full, with live load on every GPU; its jobs."""

from collections.abc import Sequence

import numpy as np
from numpy.random import Generator

from roost_engine.domain.actions import Place
from roost_engine.domain.events import JobStarted, NodeSeen
from roost_engine.domain.model import JobId, JobSpec, NodeName, Shape
from roost_engine.domain.topology import LinkMatrix, parse_topo_matrix
from roost_engine.engine import Engine, EngineConfig
from roost_engine.job_record import shares_of
from roost_engine.plugins.plugins import Policies
from roost_engine.testing.builders import job, load_seen, node, share, topology
from roost_probe.testing.matrix import sample_text

KINDS = ("bridges8", "cube8", "nvswitch8", "pcie8")
NODES_PER_RACK = 16
GPUS_PER_NODE = 8
# Shares of the nodes: full, half full, idle; that is 88 % of the GPUs in all.
FULL_FRAC, PART_FRAC = 0.82, 0.12
# As in Helios Venus, 2020: half of the jobs have one GPU, one in ten more than a node holds.
SINGLE_NODE = (1, 1, 1, 1, 2, 2, 4, 8)
GANG_EVERY = 10  # one job in this many is a gang


def busy_engine(node_count: int, rng: Generator, policies: Policies) -> Engine:
    """Return an engine that knows a mixed cluster, 88 % full."""
    engine = Engine(EngineConfig(), policies)
    links = [parse_topo_matrix(sample_text(kind), f"{kind}.txt") for kind in KINDS]
    for number in range(node_count):
        _add_node(engine, number, links[number // NODES_PER_RACK % len(links)], rng)
    return engine


def _add_node(engine: Engine, number: int, links: LinkMatrix, rng: Generator) -> None:
    name = f"n{number:05}"
    spec = node(name, GPUS_PER_NODE, cpu_count=128, rack=f"r{number // NODES_PER_RACK}")
    engine.step(NodeSeen(at_s=0.0, node=spec))
    engine.step(topology(name, links))
    for position, gpus in enumerate(_occupants(rng)):
        shares = (share(name, *gpus, cpu_count=8 * len(gpus)),)
        engine.step(JobStarted(at_s=0.0, job_id=JobId(f"on-{name}-{position}"), shares=shares))
    load = rng.random((GPUS_PER_NODE, 4)) * [1.0, 1.0, 50e9, 400e9]
    seen = load_seen(at_s=0.0, name=NodeName(name), load=load.astype(np.float32))
    engine.step(seen)


def _occupants(rng: Generator) -> list[tuple[int, ...]]:
    draw = rng.random()
    if draw < FULL_FRAC:
        return [tuple(range(GPUS_PER_NODE))]
    if draw > FULL_FRAC + PART_FRAC:
        return []
    gpus = rng.permutation(GPUS_PER_NODE).tolist()
    return [tuple(sorted(gpus[:2])), *((gpu,) for gpu in gpus[2 : 2 + int(rng.integers(0, 5))])]


def waiting_job(number: int, gpus: int, rng: Generator) -> JobSpec:
    """Return a job that waits; one in ten is a gang of two nodes."""
    nodes = 2 if number % GANG_EVERY == 0 else 1
    cpus = int(rng.choice((4, 8, 12)))
    wanted = Shape(node_count=nodes, gpus_per_node=gpus, cpus_per_node=cpus * gpus)
    return job(f"{number + 10**6}", wanted, submit_s=float(number))


def start_placed(engine: Engine, actions: Sequence[object], at_s: float) -> list[JobId]:
    """Start the jobs that were placed; return them."""
    places = [action for action in actions if isinstance(action, Place)]
    for place in places:
        shares = shares_of(place.placement)
        engine.step(JobStarted(at_s=at_s, job_id=place.job_id, shares=shares))
    return [place.job_id for place in places]


def gpus_of_one_node(rng: Generator) -> int:
    """Draw how many GPUs a job of one node has."""
    return int(rng.choice(SINGLE_NODE))
