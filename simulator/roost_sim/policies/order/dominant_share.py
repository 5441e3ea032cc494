"""Dominant resource fairness for whole gangs: whoever would have the least comes first.

Source: Ghodsi et al., DRF, NSDI 2011, as DL2 (Peng et al., 2019) uses it for training jobs: GPUs
are the dominant resource, and one bundle at a time goes to whoever has the least. A gang is a
bundle of its own here, so it counts what its user would hold with it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace

from roost_engine.domain.model import JobId
from roost_engine.job_record import JobRecord
from roost_engine.policies import QueueView, submission_key
from roost_sim.information.progress import ProgressBook
from roost_sim.traces.trace import UNKNOWN


@dataclass(frozen=True, slots=True)
class LeastShareFirst:
    """Progressive filling over users; a job of no known user is a user of its own.

    Attributes:
        book: who holds what.
    """

    book: ProgressBook

    def rank(self, view: QueueView) -> Sequence[JobId]:
        """See policies.OrderPolicy."""
        held = self._held_by_user()
        lines: dict[int | JobId, list[JobRecord]] = {}
        for job in sorted(view.jobs, key=lambda job: submission_key(job.spec), reverse=True):
            lines.setdefault(_owner(job), []).append(job)
        heap = [_turn(held.get(owner, 0), owner, line) for owner, line in lines.items()]
        heapify(heap)
        ranked: list[JobId] = []
        while heap:
            with_it, _, _, owner = heap[0]
            ranked.append(lines[owner].pop().job_id)
            if lines[owner]:
                heapreplace(heap, _turn(with_it, owner, lines[owner]))
            else:
                heappop(heap)
        return ranked

    def _held_by_user(self) -> dict[int | JobId, int]:
        held: dict[int | JobId, int] = {}
        for job in self.book.jobs.values():
            if job.is_running and job.user_id != UNKNOWN:
                held[job.user_id] = held.get(job.user_id, 0) + job.gpu_count
        return held


def _owner(job: JobRecord) -> int | JobId:
    return job.job_id if job.spec.user_id == UNKNOWN else job.spec.user_id


def _turn(
    held: int, owner: int | JobId, line: list[JobRecord]
) -> tuple[int, tuple[int | float | str, ...], str, int | JobId]:
    """GPUs of an owner with the next of his jobs; then as Slurm would."""
    spec = line[-1].spec
    return held + spec.gpu_count, submission_key(spec), str(owner), owner
