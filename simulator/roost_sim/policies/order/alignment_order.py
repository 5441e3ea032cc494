"""Tetris' order: jobs by alignment with the free resources minus remaining work.

Source: Grandl et al., Tetris, SIGCOMM 2014: alignment is the product of demand and free resources,
and a job's score is its alignment minus its remaining work, both over their means.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from roost_engine.domain.model import JobId
from roost_engine.job_record import JobRecord
from roost_engine.policies.heuristics import submission_key
from roost_engine.policies.protocols import QueueView
from roost_sim.policies.order.job_values import Remaining


@dataclass(frozen=True, slots=True)
class AlignmentOrder:
    """Highest score first.

    The free resources of the best node are a factor that all jobs share, so alignment comes down
    to demand: GPUs a node.

    Attributes:
        remaining: remaining work of each job.
    """

    remaining: Remaining

    def rank(self, view: QueueView) -> Sequence[JobId]:
        """See policies.OrderPolicy."""
        queue = sorted(view.jobs, key=lambda job: submission_key(job.spec))
        demand = [float(_gpus_per_node(job)) for job in queue]
        work = [float(self.remaining.service(job, view.at_s)[0]) for job in queue]
        mean_demand = sum(demand) / max(len(demand), 1)
        mean_work = sum(work) / max(len(work), 1) or 1.0
        cost = {
            job.job_id: left / mean_work - wanted / mean_demand
            for job, wanted, left in zip(queue, demand, work, strict=True)
        }
        return sorted(cost, key=lambda job_id: cost[job_id])


def _gpus_per_node(job: JobRecord) -> int:
    return job.spec.shapes[0].gpus_per_node
