"""What follows when a node changes: the cluster, waiting jobs that may fit now, lost placements."""

from typing import assert_never

from roost_engine.domain.actions import Action
from roost_engine.domain.events import GpuHealthChanged, NodeLost, NodeSeen, TopologySeen
from roost_engine.domain.model import NodeName
from roost_engine.reservations.standing_pins import StandingPins
from roost_engine.table.job_table import JobTable
from roost_engine.table.lost_placements import lost_with_node
from roost_engine.table.refusals import place_again


class NodeChanges:
    """Applies events about nodes.

    Args:
        table: the jobs and the cluster.
        standing: the jobs that are pinned to busy nodes.
    """

    def __init__(self, table: JobTable, standing: StandingPins) -> None:
        self._table, self._cluster, self._standing = table, table.cluster, standing

    def apply(
        self,
        event: NodeSeen | NodeLost | TopologySeen | GpuHealthChanged,
        actions: list[Action],
    ) -> None:
        """Apply one event; `actions` receives what follows."""
        cluster, queue = self._cluster, self._table.queue
        match event:
            case NodeSeen():
                is_pinned_to = self._standing.is_pinned_to(event.node.name)
                if cluster.apply_node(event.node) or is_pinned_to:
                    queue.recall_all()
                self._lose(event.node.name, event.at_s, actions)
            case NodeLost():
                cluster.remove_node(event.name)
                queue.recall_all()
                self._lose(event.name, event.at_s, actions)
            case TopologySeen():
                cluster.apply_topology(event.name, event.links, event.gpu_uuids)
            case GpuHealthChanged():
                cluster.set_fault(event.name, event.gpu_index, event.fault)
                if self._standing.is_pinned_to(event.name):
                    queue.recall_all()
            case _:
                assert_never(event)

    def _lose(self, name: NodeName, at_s: float, actions: list[Action]) -> None:
        """Place again the jobs that were placed on a node and can no longer start there.

        A broken GPU takes back no placement: Slurm starts the job there within a second.
        """
        table = self._table
        if table.placing:
            lost = lost_with_node(name, table.placing, table.jobs, self._cluster)
            place_again(table, lost, f"Slurm starts no job on {name} now", at_s, actions)
