"""What Slurm's limits leave for waiting jobs: limits that several jobs share.

Slurm reports what its running jobs leave of each quota. Placed jobs that Slurm has not started yet
are not in that report, so their amounts are subtracted here. Some limits hold for the CPUs of each
node by itself: a node without enough of them left is closed to the jobs that count against it.
"""

from collections.abc import Iterable, Mapping
from math import inf

from roost_engine.domain.model import JobId, JobSpec, NodeName, NodeShare, QuotaUse

_ROUNDING = 1e-6  # amounts are counts, or sums of a few fractions


class Quotas:
    """The quotas of Slurm's limits, and what placed jobs take of them until Slurm starts them.

    Attributes:
        counts_jobs: whether any placed job is counted.
    """

    def __init__(self) -> None:
        self._free: Mapping[str, float] = {}
        self._node_cpus: Mapping[str, Mapping[NodeName, float]] = {}
        self._held: dict[JobId, tuple[QuotaUse, ...]] = {}
        self._held_cpus: dict[JobId, tuple[tuple[str, ...], tuple[NodeShare, ...]]] = {}
        self.counts_jobs = False

    def apply(
        self,
        free: Mapping[str, float],
        node_cpus: Mapping[str, Mapping[NodeName, float]] | None = None,
    ) -> None:
        """Apply what Slurm's running jobs leave of each quota; see events.QuotasSeen."""
        self._free, self._node_cpus = free, node_cpus or {}

    def hold(self, job: JobSpec, shares: Iterable[NodeShare] = ()) -> None:
        """Count a job that Slurm was asked to start, with what it will hold."""
        if job.quotas:
            self._held[job.job_id] = job.quotas
        if job.node_quotas:
            self._held_cpus[job.job_id] = job.node_quotas, tuple(shares)
        self.counts_jobs = bool(self._held or self._held_cpus)

    def release(self, job_id: JobId) -> bool:
        """Stop counting a job: Slurm reports it as running, or does not start it.

        Returns:
            Whether the job was counted.
        """
        was_on_nodes = self._held_cpus.pop(job_id, None) is not None
        was_counted = self._held.pop(job_id, None) is not None or was_on_nodes
        self.counts_jobs = bool(self._held or self._held_cpus)
        return was_counted

    def exhausted_by(self, job: JobSpec) -> str:
        """Return the first quota that has too little left for a job; "" where none has."""
        for use in job.quotas:
            if use.amount > self.left(use.quota) + _ROUNDING:
                return use.quota
        return ""

    def left(self, quota: str) -> float:
        """Return what a quota has left for further jobs; inf: it has no limit."""
        free = self._free.get(quota, inf)
        return free if free == inf else free - self._held_amount(quota)

    def full_nodes(self, job: JobSpec) -> dict[NodeName, str]:
        """Return the nodes with too few CPUs left for a job, each with a limit that says so."""
        cpus = min(shape.cpus_per_node for shape in job.shapes)
        return {
            node: quota
            for quota in job.node_quotas
            for node, left in self._node_cpus.get(quota, {}).items()
            if cpus > left - self._held_cpus_on(node, quota) + _ROUNDING
        }

    def _held_amount(self, quota: str) -> float:
        return sum(use.amount for uses in self._held.values() for use in uses if use.quota == quota)

    def _held_cpus_on(self, node: NodeName, quota: str) -> int:
        return sum(
            share.cpu_count
            for quotas, shares in self._held_cpus.values()
            if quota in quotas
            for share in shares
            if share.node == node
        )
