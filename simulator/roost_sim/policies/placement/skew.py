"""Tiresias' skew rule: only models with one dominant tensor are consolidated.

Source: Gu et al., Tiresias, NSDI 2019. Its profiler measures message sizes of a model: models whose
gradient is mostly one tensor (AlexNet, VGG) are slow when spread, others are not.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.node_sets import NodeSet
from roost_engine.domain.model import JobId, JobSpec, Shape
from roost_engine.placement.candidates import Candidates
from roost_engine.placement.eligibility import Hint
from roost_engine.policies.heuristics import ShapeByShape
from roost_engine.policies.protocols import CandidatePolicy
from roost_sim.traces.shapes import every_even_shape, tightest_shapes
from roost_sim.worlds.model_sizes import size_of

# The largest tensor is 0.45 of ShuffleNet and less of all models that Tiresias spreads, 0.62 of
# AlexNet and more of all models that it consolidates.
SKEW_LIMIT_FRAC = 0.5

_TOGETHER = ShapeByShape()


def is_skewed(family: str) -> bool:
    """Return whether a model must be consolidated; False for a model of unknown size."""
    size = size_of(family)
    return size is not None and size.skew_frac > SKEW_LIMIT_FRAC


@dataclass(frozen=True, slots=True)
class SkewRule:
    """Strict consolidation for some jobs, another rule for the others.

    See policies.CandidatePolicy. A bound and an unbound job must never have the same shapes, which
    `shapes` ensures: the engine applies the failure of one job to all jobs of the same demand.

    Attributes:
        is_bound: whether a job must be consolidated.
        anywhere: places the other jobs.
    """

    is_bound: Callable[[JobId], bool]
    anywhere: CandidatePolicy

    def shapes(self, job_id: JobId, gpu_count: int, gpus_per_node: int) -> tuple[Shape, ...]:
        """Return the shapes of a job: see roost_sim.traces.shapes.JobShapeRule."""
        if self.is_bound(job_id):
            return tightest_shapes(gpu_count, gpus_per_node)
        shapes = every_even_shape(gpu_count, gpus_per_node)
        return (*shapes, shapes[-1])  # one more than a bound job of as many GPUs has

    def propose(self, cluster: Cluster, job: JobSpec, reserved: NodeSet, at_s: float) -> Candidates:
        """See CandidatePolicy."""
        rule = _TOGETHER if self.is_bound(job.job_id) else self.anywhere
        return rule.propose(cluster, job, reserved, at_s)

    def hints(self, cluster: Cluster, job: JobSpec, nodes: NodeSet) -> Sequence[Hint]:
        """See CandidatePolicy."""
        rule = _TOGETHER if self.is_bound(job.job_id) else self.anywhere
        return rule.hints(cluster, job, nodes)
