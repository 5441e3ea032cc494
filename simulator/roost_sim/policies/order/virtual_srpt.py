"""A-SRPT's order: the order in which jobs end on a virtual machine under preemptive SRPT.

Source: Luo et al., A-SRPT, INFOCOM 2025. The length of a job on the virtual machine is its
predicted GPU-seconds over the GPUs of the cluster. Jobs start in the order in which they end on the
virtual machine, and are never preempted. Differences: docs/simulator/policies.md.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import inf

from roost_engine.domain.model import JobId, JobSpec
from roost_engine.policies.heuristics import submission_key
from roost_engine.policies.protocols import QueueView


@dataclass(slots=True)
class VirtualSrpt:
    """The virtual machine and its jobs; its state stays between calls.

    Attributes:
        predicted_s: the predicted run time of each job, looked up when the job is first ranked.
        gpu_count: GPUs of the cluster.
    """

    predicted_s: Callable[[], Mapping[JobId, float]]
    gpu_count: int
    _lengths: Mapping[JobId, float] | None = None
    _arrived: dict[JobId, None] = field(default_factory=dict)
    _ended: dict[JobId, int] = field(default_factory=dict)
    _left: list[tuple[float, int, JobId]] = field(default_factory=list)
    _now_s: float = -inf

    def rank(self, view: QueueView) -> Sequence[JobId]:
        """See policies.OrderPolicy: jobs that ended on the machine, then the shortest remaining."""
        queue = sorted(view.jobs, key=lambda job: submission_key(job.spec))
        new = [job.spec for job in queue if job.job_id not in self._arrived]
        for spec in sorted(new, key=lambda spec: spec.submit_s):
            self._advance(spec.submit_s)
            self._add(spec)
        self._advance(view.at_s)
        place = dict(self._ended)
        for _, _, job_id in sorted(self._left):
            place[job_id] = len(place)
        return sorted((job.job_id for job in queue), key=lambda job_id: place[job_id])

    def _add(self, spec: JobSpec) -> None:
        if self._lengths is None:
            self._lengths = self.predicted_s()
        length_s = self._lengths[spec.job_id] * spec.gpu_count / self.gpu_count
        heappush(self._left, (length_s, len(self._arrived), spec.job_id))
        self._arrived[spec.job_id] = None

    def _advance(self, at_s: float) -> None:
        while self._left and self._now_s < at_s:
            left_s, number, job_id = heappop(self._left)
            if self._now_s + left_s > at_s:
                heappush(self._left, (left_s - (at_s - self._now_s), number, job_id))
                break
            self._now_s += left_s
            self._ended[job_id] = len(self._ended)
        self._now_s = max(self._now_s, at_s)
