"""Themis' order: the jobs with the worst finish-time fairness come first.

Source: Mahajan et al., Themis, NSDI 2020. Finish-time fairness rho is a job's completion time in
the shared cluster over its run time alone. The paper's auction offers free GPUs to the 1 - f of the
applications with the worst rho; whole gangs of one job each need no partial bids.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, inf

from roost_engine.domain.model import JobId
from roost_engine.job_record import JobRecord
from roost_engine.policies.heuristics import submission_key
from roost_engine.policies.protocols import QueueView
from roost_sim.policies.order.job_values import Remaining

WORST_OFF_FRAC = 0.2  # the paper's f is 0.8
LEASE_S = 1200.0


@dataclass(frozen=True, slots=True)
class WorstOffFirst:
    """The jobs with the worst rho first, by rho; then the others by submission.

    Attributes:
        remaining: remaining work of each job.
        worst_off_frac: the fraction of the waiting jobs that comes first, rounded up.
    """

    remaining: Remaining
    worst_off_frac: float = WORST_OFF_FRAC

    def rank(self, view: QueueView) -> Sequence[JobId]:
        """See policies.OrderPolicy."""
        queue = sorted(view.jobs, key=lambda job: submission_key(job.spec))
        rho = {job.job_id: self.rho(job, view.at_s) for job in queue}
        by_rho = sorted((job.job_id for job in queue), key=lambda job_id: -rho[job_id])
        worst_off = by_rho[: ceil(self.worst_off_frac * len(by_rho))]
        first = set(worst_off)
        return [*worst_off, *(job.job_id for job in queue if job.job_id not in first)]

    def rho(self, job: JobRecord, at_s: float) -> float:
        """Return the finish-time fairness of a job that runs alone from now on; 1 is ideal.

        A job without work, such as one that a journal has with no run time, has an infinite one.
        """
        alone_s = self.remaining.work_s[job.job_id]
        shared_s = at_s - job.spec.submit_s + self.remaining.seconds(job.job_id, at_s)
        return shared_s / alone_s if alone_s else inf
