"""A-SRPT's order: as jobs would end on one fast machine that always runs the shortest.

Source: Luo et al., A-SRPT, INFOCOM 2025: predicted GPU-seconds over the GPUs of the cluster are the
length of a job on a single machine under preemptive shortest remaining time first; jobs start, and
are never stopped, in the order in which they end there. Differences: docs/simulator/policies.md.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import inf

from roost_engine.domain.model import JobId, JobSpec
from roost_engine.policies import QueueView, submission_key


@dataclass(slots=True)
class VirtualSrpt:
    """Remembers the single machine between calls.

    Attributes:
        predicted_s: run time of each job, as it can be predicted when it is first asked about.
        gpu_count: of the cluster.
    """

    predicted_s: Callable[[], Mapping[JobId, float]]
    gpu_count: int
    _lengths: Mapping[JobId, float] | None = None
    _arrived: dict[JobId, None] = field(default_factory=dict)
    _ended: dict[JobId, int] = field(default_factory=dict)
    _left: list[tuple[float, int, JobId]] = field(default_factory=list)
    _now_s: float = -inf

    def rank(self, view: QueueView) -> Sequence[JobId]:
        """See policies.OrderPolicy: those that ended there, then those with the least left."""
        came = sorted(view.jobs, key=lambda job: submission_key(job.spec))
        new = [job.spec for job in came if job.job_id not in self._arrived and job.spec]
        for spec in sorted(new, key=lambda spec: spec.submit_s):
            self._work_until(spec.submit_s)
            self._take(spec)
        self._work_until(view.at_s)
        place = dict(self._ended)
        for _, _, job_id in sorted(self._left):
            place[job_id] = len(place)
        return sorted((job.job_id for job in came), key=lambda job_id: place[job_id])

    def _take(self, spec: JobSpec) -> None:
        if self._lengths is None:
            self._lengths = self.predicted_s()
        length_s = self._lengths[spec.job_id] * spec.gpu_count / self.gpu_count
        heappush(self._left, (length_s, len(self._arrived), spec.job_id))
        self._arrived[spec.job_id] = None

    def _work_until(self, at_s: float) -> None:
        while self._left and self._now_s < at_s:
            left_s, number, job_id = heappop(self._left)
            if self._now_s + left_s > at_s:
                heappush(self._left, (left_s - (at_s - self._now_s), number, job_id))
                break
            self._now_s += left_s
            self._ended[job_id] = len(self._ended)
        self._now_s = max(self._now_s, at_s)
