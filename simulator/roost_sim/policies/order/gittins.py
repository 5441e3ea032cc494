"""Tiresias' Gittins index: how likely a job ends soon, for the service that it may take till then.

Source: Gu et al., Tiresias, NSDI 2019, section 4.2; the index is Gittins', of a job that has had
`a` of service S, over the next quantum D:

    P(S - a <= D | S > a) / E[min(S - a, D) | S > a]

The distribution of S is that of the jobs that have ended so far: a site knows no other.
"""

from bisect import bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf

from roost_engine.job_record import JobRecord
from roost_engine.policies import SortKey
from roost_sim.information.progress import ProgressBook

QUANTUM_GPU_S = 3250.0


def gittins_index(services: Sequence[float], attained: float, quantum: float) -> float:
    """The index of a job, 0 where no job was ever longer.

    Args:
        services: of jobs that ended, ascending.
        attained: service that the job has had.
        quantum: of service, above 0.
    """
    first = bisect_right(services, attained)
    end = bisect_right(services, attained + quantum)
    if first == len(services):
        return 0.0
    expected = sum(services[first:end]) - attained * (end - first) + quantum * (len(services) - end)
    return (end - first) / expected


@dataclass(slots=True)
class GittinsIndex:
    """The index of jobs by the service, in quanta, that they have had.

    The distribution is taken anew whenever a tenth more jobs have ended, so that the order of
    jobs does not change with every one.

    Attributes:
        book: of the jobs that have ended.
        quantum_gpu_s: both the look-ahead and the step in which attained service counts.
    """

    book: ProgressBook
    quantum_gpu_s: float = QUANTUM_GPU_S
    _services: list[float] = field(default_factory=list)
    _seen_count: int = 0
    _indices: dict[int, float] = field(default_factory=dict)

    def value(self, job: JobRecord, at_s: float) -> SortKey:
        """See job_values.Value: the highest index first, then first come."""
        return -self._index(int(job.attained_gpu_s(at_s) // self.quantum_gpu_s)), job.spec.submit_s

    def next_change(self, running: Sequence[JobRecord], at_s: float) -> float:
        """When the first of some running jobs has had a quantum more."""
        return min((self._steps_s(job, at_s) for job in running), default=inf)

    def _steps_s(self, job: JobRecord, at_s: float) -> float:
        left_gpu_s = self.quantum_gpu_s - job.attained_gpu_s(at_s) % self.quantum_gpu_s
        return at_s + left_gpu_s / job.spec.gpu_count

    def _index(self, quanta: int) -> float:
        if len(self.book.past) >= max(1.1 * self._seen_count, self._seen_count + 1):
            self._learn()
        found = self._indices.get(quanta)
        if found is None:
            attained = quanta * self.quantum_gpu_s
            found = gittins_index(self._services, attained, self.quantum_gpu_s)
            self._indices[quanta] = found
        return found

    def _learn(self) -> None:
        for run in self.book.past[self._seen_count :]:
            insort(self._services, run.ran_s * run.gpu_count)
        self._seen_count = len(self.book.past)
        self._indices.clear()
