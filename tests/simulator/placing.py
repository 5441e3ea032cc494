"""Clusters drawn in characters, and where a placement rule puts a job in them."""

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.node_sets import NO_NODES, NodeSet
from roost_engine.domain.model import JobId, JobSpec, NodeName
from roost_engine.domain.topology import LinkMatrix
from roost_engine.policies.protocols import CandidatePolicy
from roost_engine.testing.builders import job, node, nvswitch, share
from roost_sim.catalogue.placements import PLACEMENTS
from roost_sim.information.policy_information import PolicyInformation
from roost_sim.traces.shapes import every_even_shape

NO_INFORMATION = PolicyInformation(work_s={}, seed=0)


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
            cluster.apply_node(spec)
            cluster.apply_topology(spec.name, links or nvswitch(len(word)), ())
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


def rule(name: str, information: PolicyInformation = NO_INFORMATION) -> CandidatePolicy:
    """A placement rule by name."""
    return PLACEMENTS[name].candidates(information)


def put(
    policy: CandidatePolicy,
    cluster: Cluster,
    spec: JobSpec,
    reserved: NodeSet = NO_NODES,
    at_s: float = 0.0,
) -> dict[NodeName, tuple[int, ...]] | None:
    """The GPUs that a rule gives a job on each node; None: it has to wait."""
    found = policy.propose(cluster, spec, reserved, at_s)
    return dict(found.placement(0).by_node()) if len(found) else None
