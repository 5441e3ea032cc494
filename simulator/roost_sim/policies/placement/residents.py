"""Who holds what, reserved up to date between two looks at a cluster."""

from dataclasses import dataclass, field
from typing import TypeAlias

from roost_engine.cluster.cluster import Cluster
from roost_engine.domain.model import JobId, NodeShare

Shares: TypeAlias = tuple[NodeShare, ...]


@dataclass(slots=True)
class Residents:
    """The jobs that held something when last looked at."""

    _known: dict[JobId, Shares] = field(default_factory=dict)

    def changes(self, cluster: Cluster) -> tuple[list[tuple[JobId, Shares]], list[JobId]]:
        """Look again.

        Returns:
            Jobs that left what they held, with what that was; and jobs that hold something now.
            One that holds something else than before is in both.
        """
        known = self._known
        left = [
            (job_id, shares)
            for job_id, shares in known.items()
            if cluster.shares(job_id) is not shares
        ]
        for job_id, _ in left:
            del known[job_id]
        come = [job_id for job_id in cluster.held_jobs() if job_id not in known]
        for job_id in come:
            known[job_id] = cluster.shares(job_id)
        return left, come
