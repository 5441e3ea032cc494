"""The placement rule `common-shapes`: jobs wait for the tightest shape that many nodes could hold.

Where all nodes have the same number of GPUs this is the rule `strict`. On 40 nodes of 4 GPUs and
one of 16, `strict` has every job of 8 GPUs or more wait for the one node while the others are idle.
Figures: docs/results/order.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.node_sets import NodeSet
from roost_engine.domain.lazy import Lazy
from roost_engine.domain.model import JobSpec, Shape
from roost_engine.placement.candidates import Candidates
from roost_engine.placement.eligibility import (
    Hint,
    capacity_for,
    gpus_that_could_hold,
    larger_nodes,
    shape_could_ever_fit,
)
from roost_engine.placement.search import find_candidates, first_candidates, first_hints

_COMMON_FRAC = 0.5


@dataclass(frozen=True, slots=True)
class CommonShapes:
    """Proposes a job's shapes down to the tightest common one, and small nodes before large ones.

    A shape is common if the nodes that could ever hold a part of it have at least half as many GPUs
    as the nodes that could hold a part of the job's last shape. A tighter shape that is not common
    is proposed where it has capacity, and the gate says whether the job waits for it.

    Nodes with more GPUs than others are left to the jobs that need them: they are proposed where no
    smaller nodes have capacity, or only nodes that are asleep or farther apart.

    Attributes:
        any_gpus: see policies.ShapeByShape.
    """

    any_gpus: bool = False

    def proposed_shapes(self, cluster: Cluster, job: JobSpec) -> tuple[Shape, ...]:
        """See ShapedCandidates; all shapes if the cluster could never hold any of them."""
        if len(job.shapes) == 1:
            return job.shapes
        common_gpu_count = _COMMON_FRAC * gpus_that_could_hold(cluster, job, job.shapes[-1])
        fitting, most_nodes = list[Shape](), max(shape.node_count for shape in job.shapes)
        for shape in job.shapes:
            if shape.node_count <= most_nodes and shape_could_ever_fit(cluster, job, shape):
                fitting.append(shape)
                if gpus_that_could_hold(cluster, job, shape) >= common_gpu_count:
                    most_nodes = shape.node_count
        return tuple(fitting) or job.shapes

    def propose(self, cluster: Cluster, job: JobSpec, reserved: NodeSet, at_s: float) -> Candidates:
        """See CandidatePolicy."""
        shapes = self.proposed_shapes(cluster, job)
        job = self._with_one_shape(job, shapes)
        found = first_candidates(cluster, job, reserved, self.any_gpus, shapes)
        larger = larger_nodes(cluster, job, found.shape) if found.options else ()
        for nodes in larger:
            avoided = reserved | nodes | cluster.asleep
            smaller = find_candidates(cluster, job, found.shape, avoided)
            if smaller.options and smaller.tier <= found.tier:
                # The larger nodes are not ruled out: `explain` must not say so.
                why = Lazy(capacity_for(cluster, job, found.shape, reserved).exclusions)
                return Candidates(cluster, found.shape, smaller.options, why)
        return found

    def hints(self, cluster: Cluster, job: JobSpec, nodes: NodeSet) -> Sequence[Hint]:
        """See CandidatePolicy."""
        shapes = self.proposed_shapes(cluster, job)
        job = self._with_one_shape(job, shapes)
        return first_hints(cluster, job, nodes, self.any_gpus, shapes)

    def _with_one_shape(self, job: JobSpec, shapes: tuple[Shape, ...]) -> JobSpec:
        """Return a gang for which one shape is proposed as a job of that shape.

        It has no other shape to wait for, so it may have any GPUs: see may_have_any_gpus().
        """
        is_gang = len(shapes) == 1 and shapes[0].node_count > 1
        if not (self.any_gpus and is_gang) or len(job.shapes) == 1:
            return job
        return replace(job, shapes=shapes)
