"""Clusters drawn in characters, and where a placement rule puts a job in them."""

from roost_sim.placing.placements import PLACEMENTS
from roost_sim.policies.knowledge import Knowledge
from roost_sim.traces.shapes import every_even_shape
from roostd.core.cluster import Cluster
from roostd.core.model import JobId, JobSpec, NodeName
from roostd.core.policy import CandidatePolicy
from roostd.core.row_sets import NO_ROWS, RowSet
from roostd.core.topology import LinkMatrix
from roostd.testing.builders import job, node, nvswitch, share

NOTHING_KNOWN = Knowledge(work_s={}, seed=0)


def drawn(*racks: str, links: LinkMatrix | None = None) -> Cluster:
    """A cluster with a rack an argument, a node a word, a GPU a character.

    A dot is a free GPU, any other character a GPU of the job of that name, which holds a CPU a
    GPU. Nodes are n0, n1, ... and have 64 CPUs.
    """
    cluster = Cluster()
    held: dict[str, list[tuple[int, int]]] = {}
    number = 0
    for rack, words in enumerate(racks):
        for word in words.split():
            spec = node(f"n{number}", len(word), rack=f"r{rack}")
            cluster.see_node(spec)
            cluster.see_topology(spec.name, links or nvswitch(len(word)), ())
            for gpu, holder in enumerate(word):
                if holder != ".":
                    held.setdefault(holder, []).append((number, gpu))
            number += 1
    for holder, gpus in held.items():
        nodes = sorted({at for at, _ in gpus})
        indices = {at: [gpu for there, gpu in gpus if there == at] for at in nodes}
        shares = [share(f"n{at}", *here, cpu_count=len(here)) for at, here in indices.items()]
        cluster.hold(JobId(holder), shares)
    return cluster


def of_gpus(gpu_count: int, gpus_per_node: int = 8, job_id: str = "new") -> JobSpec:
    """A job that may be spread as it likes."""
    return job(job_id, *every_even_shape(gpu_count, gpus_per_node))


def rule(name: str, knowledge: Knowledge = NOTHING_KNOWN) -> CandidatePolicy:
    """A placement rule by name."""
    return PLACEMENTS[name].candidates(knowledge)


def put(
    policy: CandidatePolicy,
    cluster: Cluster,
    spec: JobSpec,
    kept: RowSet = NO_ROWS,
    at_s: float = 0.0,
) -> dict[NodeName, tuple[int, ...]] | None:
    """The GPUs that a rule gives a job on each node; None: it has to wait."""
    found = policy.propose(cluster, spec, kept, at_s)
    return dict(found.placement(0, cluster).by_node()) if len(found) else None
