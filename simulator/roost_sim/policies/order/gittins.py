"""Tiresias' Gittins index: the probability that a job ends soon over the service until then.

Source: Gu et al., Tiresias, NSDI 2019, section 4.2. The index of a job that has received service
`a`, over the next quantum D, where S is the service that a job needs in all:

    P(S - a <= D | S > a) / E[min(S - a, D) | S > a]

S is distributed like the service of the jobs that have ended so far: a site knows no other.
"""

from bisect import bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf

from roost_engine.job_record import JobRecord
from roost_engine.policies.protocols import SortKey
from roost_sim.information.progress import ProgressTable

QUANTUM_GPU_S = 3250.0


def gittins_index(services: Sequence[float], attained: float, quantum: float) -> float:
    """Return the index of a job; 0 if no ended job received more service.

    Args:
        services: service of the jobs that ended, ascending.
        attained: service that the job has received.
        quantum: look-ahead in service, above 0.
    """
    first = bisect_right(services, attained)
    end = bisect_right(services, attained + quantum)
    if first == len(services):
        return 0.0
    expected = sum(services[first:end]) - attained * (end - first) + quantum * (len(services) - end)
    return (end - first) / expected


@dataclass(slots=True)
class GittinsIndex:
    """The index of jobs by the service, in quanta, that they have received.

    The distribution is updated whenever a tenth more jobs have ended, so that the order of jobs
    does not change with every one.

    Attributes:
        progress: the jobs that have ended.
        quantum_gpu_s: both the look-ahead and the step in which attained service counts.
    """

    progress: ProgressTable
    quantum_gpu_s: float = QUANTUM_GPU_S
    _services: list[float] = field(default_factory=list)
    _seen_count: int = 0
    _indices: dict[int, float] = field(default_factory=dict)

    def value(self, job: JobRecord, at_s: float) -> SortKey:
        """See queue.orders.Value: the highest index first, then the earliest submission."""
        return -self._index(int(job.attained_gpu_s(at_s) // self.quantum_gpu_s)), job.spec.submit_s

    def next_change(self, running: Sequence[JobRecord], at_s: float) -> float:
        """Return when the first of the running jobs completes its present quantum."""
        return min((self._quantum_end_s(job, at_s) for job in running), default=inf)

    def _quantum_end_s(self, job: JobRecord, at_s: float) -> float:
        left_gpu_s = self.quantum_gpu_s - job.attained_gpu_s(at_s) % self.quantum_gpu_s
        return at_s + left_gpu_s / job.spec.gpu_count

    def _index(self, quanta: int) -> float:
        if len(self.progress.past) >= max(1.1 * self._seen_count, self._seen_count + 1):
            self._update()
        found = self._indices.get(quanta)
        if found is None:
            attained = quanta * self.quantum_gpu_s
            found = gittins_index(self._services, attained, self.quantum_gpu_s)
            self._indices[quanta] = found
        return found

    def _update(self) -> None:
        for run in self.progress.past[self._seen_count :]:
            insort(self._services, run.ran_s * run.gpu_count)
        self._seen_count = len(self.progress.past)
        self._indices.clear()
