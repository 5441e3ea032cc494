"""Wider shapes: what a job that waits for its tightest shape could have meanwhile.

A job that leaves its number of nodes open (`--gpus=8` without `-N`) accepts several shapes, and
some rules propose the tightest ones only. Plain Slurm would start such a job on more nodes. So it
waits for a tight shape no longer than a site allows, and then takes the first wider one that has
capacity (EngineConfig.wider_after_s). Page: docs/stacks.md.
"""

from collections.abc import Sequence

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.node_sets import NodeSet
from roost_engine.domain.model import JobSpec, Shape
from roost_engine.placement.candidates import Candidates
from roost_engine.placement.eligibility import Hint, hints_in
from roost_engine.policies.protocols import ShapedCandidates


class WiderShapes:
    """A rule as it is, with hints also for the shapes that it does not propose.

    See policies.CandidatePolicy.

    Args:
        rule: proposes placements.
    """

    def __init__(self, rule: ShapedCandidates) -> None:
        self._rule = rule

    def propose(self, cluster: Cluster, job: JobSpec, reserved: NodeSet, at_s: float) -> Candidates:
        """See CandidatePolicy."""
        return self._rule.propose(cluster, job, reserved, at_s)

    def hints(self, cluster: Cluster, job: JobSpec, nodes: NodeSet) -> Sequence[Hint]:
        """See CandidatePolicy."""
        found = self._rule.hints(cluster, job, nodes)
        wider = self.wider_shapes(cluster, job)
        return [*found, *hints_in(cluster, job, nodes, True, wider)] if wider else found

    def wider_shapes(self, cluster: Cluster, job: JobSpec) -> tuple[Shape, ...]:
        """Return the shapes that a job accepts and the rule does not propose."""
        if len(job.shapes) == 1:
            return ()
        proposed = self._rule.proposed_shapes(cluster, job)
        return tuple(shape for shape in job.shapes if shape not in proposed)
