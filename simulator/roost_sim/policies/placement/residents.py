"""The jobs on a cluster, as changes since the last call: for rules that keep sums by node."""

from dataclasses import dataclass, field
from typing import TypeAlias

from roost_engine.cluster.cluster import Cluster
from roost_engine.domain.model import JobId, NodeShare

Shares: TypeAlias = tuple[NodeShare, ...]


@dataclass(slots=True)
class Residents:
    """The jobs that held GPUs at the last call of `changes`, and what they held."""

    _known: dict[JobId, Shares] = field(default_factory=dict)

    def changes(self, cluster: Cluster) -> tuple[list[tuple[JobId, Shares]], list[JobId]]:
        """Return what has changed since the last call.

        Returns:
            Jobs that left, with what they held; and jobs that arrived. A job that holds other
            GPUs than before is in both.
        """
        known = self._known
        left = [
            (job_id, shares)
            for job_id, shares in known.items()
            if cluster.shares(job_id) is not shares
        ]
        for job_id, _ in left:
            del known[job_id]
        arrived = [job_id for job_id in cluster.held_jobs() if job_id not in known]
        for job_id in arrived:
            known[job_id] = cluster.shares(job_id)
        return left, arrived
