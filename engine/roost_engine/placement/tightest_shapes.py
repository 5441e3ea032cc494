"""The placement rules `strict` and `tight-gangs`: jobs wait for their tightest shape."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.node_sets import NodeSet
from roost_engine.domain.model import JobSpec, Shape
from roost_engine.placement.candidates import Candidates
from roost_engine.placement.eligibility import Hint, shape_could_ever_fit
from roost_engine.placement.search import first_candidates, first_hints


@dataclass(frozen=True, slots=True)
class TightestShapes:
    """Proposes placements of a job's tightest shape only, so the job waits for that shape.

    The tightest shape is the first one, in the job's order of preference, that the cluster could
    ever hold; shapes on fewer nodes are as tight. Sixteen GPUs on nodes of eight are never on one
    node, so their tightest shape has two nodes, and the job does not wait for one. See
    policies.CandidatePolicy.

    Attributes:
        any_gpus: see policies.ShapeByShape.
    """

    any_gpus: bool = False

    def proposed_shapes(self, cluster: Cluster, job: JobSpec) -> tuple[Shape, ...]:
        """See ShapedCandidates."""
        return tightest(cluster, job)

    def propose(self, cluster: Cluster, job: JobSpec, reserved: NodeSet, at_s: float) -> Candidates:
        """See CandidatePolicy."""
        shapes = self.proposed_shapes(cluster, job)
        return first_candidates(cluster, job, reserved, self.any_gpus, shapes)

    def hints(self, cluster: Cluster, job: JobSpec, nodes: NodeSet) -> Sequence[Hint]:
        """See CandidatePolicy."""
        shapes = self.proposed_shapes(cluster, job)
        return first_hints(cluster, job, nodes, self.any_gpus, shapes)


@dataclass(frozen=True, slots=True)
class TightGangs(TightestShapes):
    """Proposes the first shape with capacity, but to a job for several nodes the tightest only.

    A job that fits on a node takes what is free, and the gate decides whether it waits for one
    node. A job that no node could hold has nothing to gain from more nodes than it needs: it
    crosses the network in any case, and on nodes that it shares it slows its neighbours.
    """

    def proposed_shapes(self, cluster: Cluster, job: JobSpec) -> tuple[Shape, ...]:
        """See ShapedCandidates."""
        fits_a_node = any(shape.node_count == 1 for shape in job.shapes)
        return job.shapes if fits_a_node else tightest(cluster, job)


def tightest(cluster: Cluster, job: JobSpec) -> tuple[Shape, ...]:
    """Return the shapes that TightestShapes proposes; all if the cluster could never hold any."""
    if len(job.shapes) == 1:
        return job.shapes
    able: list[Shape] = []
    for shape in job.shapes:
        is_wider = bool(able) and shape.node_count > able[0].node_count
        if not is_wider and shape_could_ever_fit(cluster, job, shape):
            able.append(shape)
    return tuple(able) or job.shapes


def narrowed(cluster: Cluster, job: JobSpec) -> JobSpec:
    """Return the job with no shapes but those that TightestShapes proposes."""
    shapes = tightest(cluster, job)
    return job if shapes == job.shapes else replace(job, shapes=shapes)
