"""A job in the simulation: its progress, its placement and its result, as the driver keeps them."""

from dataclasses import dataclass

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.link_table import mask_of
from roost_engine.domain.actions import Place
from roost_engine.domain.model import NodeShare, Placement
from roost_sim.figures.outcome import JobResult
from roost_sim.information.progress import Progress


@dataclass(slots=True, eq=False, kw_only=True)
class SimulatedJob(Progress):
    """A job that has arrived and not ended.

    Attributes:
        result: filled while the job runs.
        due: number of the moment at which it starts or ends; its older moments are void.
        placement: its latest placement; None: none yet.
        run_since_s: start of the present run.
        stopped: when it was preempted and what it held then; None: not preempted since its start.
    """

    result: JobResult
    due: int = -1
    placement: Placement | None = None
    run_since_s: float = 0.0
    stopped: tuple[float, tuple[NodeShare, ...]] | None = None

    def note_placement(self, action: Place, cluster: Cluster) -> None:
        """Note where the job is placed, and how well linked its GPUs are there."""
        result, placement = self.result, action.placement
        self.placement = placement
        result.held_gpu_count = placement.shape.gpu_count
        result.tier = placement.tier
        if not placement.gpu_indices:  # scattered
            decision = action.decision.get()
            result.link_score = int(decision.link_scores[0])
            result.best_link_score = decision.best_link_score
            return
        # Looked up in the cluster: faster than computing the lazy decision.
        tables, index_of = cluster.tables, cluster.index_of
        groups = cluster.groups.of_node
        mask, size = mask_of(placement.gpu_indices), placement.shape.gpus_per_node
        link_score = best_link_score = 0
        for node in placement.nodes:
            table = tables[groups[index_of[node]].kind]
            link_score += table.score_by_set[mask]
            best_link_score += table.best_by_size[size]
        result.link_score, result.best_link_score = link_score, best_link_score
