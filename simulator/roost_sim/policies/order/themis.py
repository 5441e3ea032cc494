"""Themis' order: those who suffer most from sharing bid first.

Source: Mahajan et al., Themis, NSDI 2020. Finish-time fairness rho is how long a job takes in the
shared cluster over how long it would take alone. The paper's auction offers free GPUs to the worst
off 1 - f of the applications; whole gangs of one job each need no partial bids.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from roost_engine.domain.model import JobId
from roost_engine.job_record import JobRecord
from roost_engine.policies import QueueView, submission_key
from roost_sim.policies.order.job_values import Remaining

WORST_OFF_FRAC = 0.2  # the paper's f is 0.8
LEASE_S = 1200.0


@dataclass(frozen=True, slots=True)
class WorstOffFirst:
    """The worst off bid first, by rho; what they leave goes to the others as they came.

    Attributes:
        remaining: of each job.
        worst_off_frac: of those that wait, rounded up.
    """

    remaining: Remaining
    worst_off_frac: float = WORST_OFF_FRAC

    def rank(self, view: QueueView) -> Sequence[JobId]:
        """See policies.OrderPolicy."""
        came = sorted(view.jobs, key=lambda job: submission_key(job.spec))
        rho = {job.job_id: self.rho(job, view.at_s) for job in came}
        by_rho = sorted((job.job_id for job in came), key=lambda job_id: -rho[job_id])
        worst_off = by_rho[: ceil(self.worst_off_frac * len(by_rho))]
        named = set(worst_off)
        return [*worst_off, *(job.job_id for job in came if job.job_id not in named)]

    def rho(self, job: JobRecord, at_s: float) -> float:
        """Finish-time fairness of a job that would run alone from now on; 1 is ideal."""
        alone_s = self.remaining.work_s[job.job_id]
        shared_s = at_s - job.spec.submit_s + self.remaining.seconds(job.job_id, at_s)
        return shared_s / alone_s
