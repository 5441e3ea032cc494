"""Dominant resource fairness for whole gangs: the user with the smallest share comes first.

Source: Ghodsi et al., DRF, NSDI 2011, as DL2 (Peng et al., 2019) uses it for training jobs: GPUs
are the dominant resource, and one bundle at a time goes to the user with the smallest share. Here
a gang is one bundle, and the share is what its user would hold together with the gang.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace

from roost_engine.domain.model import JobId
from roost_engine.job_record import JobRecord
from roost_engine.policies.heuristics import submission_key
from roost_engine.policies.protocols import QueueView
from roost_sim.information.progress import ProgressTable
from roost_sim.traces.trace import UNKNOWN


@dataclass(frozen=True, slots=True)
class LeastShareFirst:
    """Progressive filling over users; a job without a known user counts as a user of its own.

    Attributes:
        progress: the running jobs, with their users and GPUs.
    """

    progress: ProgressTable

    def rank(self, view: QueueView) -> Sequence[JobId]:
        """See policies.OrderPolicy."""
        held = self._held_by_user()
        queues: dict[int | JobId, list[JobRecord]] = {}  # of each owner, the next job last
        for job in sorted(view.jobs, key=lambda job: submission_key(job.spec), reverse=True):
            queues.setdefault(_owner(job), []).append(job)
        heap = [_entry(held.get(owner, 0), owner, queue) for owner, queue in queues.items()]
        heapify(heap)
        ranked: list[JobId] = []
        while heap:
            share_gpus, _, _, owner = heap[0]
            ranked.append(queues[owner].pop().job_id)
            if queues[owner]:
                heapreplace(heap, _entry(share_gpus, owner, queues[owner]))
            else:
                heappop(heap)
        return ranked

    def _held_by_user(self) -> dict[int | JobId, int]:
        held: dict[int | JobId, int] = {}
        for job in self.progress.jobs.values():
            if job.is_running and job.user_id != UNKNOWN:
                held[job.user_id] = held.get(job.user_id, 0) + job.gpu_count
        return held


def _owner(job: JobRecord) -> int | JobId:
    return job.job_id if job.spec.user_id == UNKNOWN else job.spec.user_id


def _entry(
    held: int, owner: int | JobId, queue: list[JobRecord]
) -> tuple[int, tuple[int | float | str, ...], str, int | JobId]:
    """An owner's entry in the heap: its GPUs with its next job, then Slurm's order of that job."""
    spec = queue[-1].spec
    return held + spec.gpu_count, submission_key(spec), str(owner), owner
