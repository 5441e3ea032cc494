"""Shared GPUs: two jobs on a GPU slow each other as their kinds did when they were measured.

The rest of the world sets the rate of a job as if it had its GPUs alone; a partner multiplies it by
the measured speed. A job on several GPUs waits for the slowest of them. The pairs were measured
with one GPU; that the same holds on each GPU of a larger job is an assumption.
"""

from collections.abc import Callable, Iterable

from roost_engine.domain.model import JobId, NodeName, NodeShare
from roost_sim.errors import SimError
from roost_sim.worlds.sharing.sharing_spec import SharingJobs
from roost_sim.worlds.world import Change, Started, World


class SharedGpus:
    """See the module, and World.

    Args:
        inner: the world of jobs that have their GPUs alone.
        jobs: which jobs may share, and what they do to each other.
        note: called with each job whose speed beside a partner has changed, and with that speed as
            a fraction of its speed alone; None: it has no partner.
    """

    def __init__(
        self,
        inner: World,
        jobs: SharingJobs,
        note: Callable[[JobId, float | None], None] = lambda job_id, speed_frac: None,
    ) -> None:
        self.inner, self._jobs, self.note = inner, jobs, note
        self._rate: dict[JobId, float] = {}
        self._speed: dict[JobId, float | None] = {}
        self._shares: dict[JobId, tuple[NodeShare, ...]] = {}
        self._on: dict[tuple[NodeName, int], list[JobId]] = {}

    def rates_after(self, change: Change) -> Iterable[tuple[JobId, float]]:
        """See World.

        Raises:
            SimError: a third job on a GPU, a partner that did not opt in, or too little memory.
        """
        job_id = change.job_id
        changed = dict(self.inner.rates_after(change))
        self._rate.update(changed)
        partners = self._add(change) if isinstance(change, Started) else self._remove(job_id)
        for one in partners:
            self._set_speed(one)
        affected = dict.fromkeys((*changed, *partners))
        return [(one, self._rate[one] * (self._speed.get(one) or 1.0)) for one in affected]

    def _add(self, change: Started) -> tuple[JobId, ...]:
        """Put a job on its GPUs; return it and its partners, none if it has none."""
        job_id, found = change.job_id, dict[JobId, None]()
        self._shares[job_id] = change.shares
        for gpu in _gpus(change.shares):
            sitting = self._on.setdefault(gpu, [])
            for other in sitting:
                self._check(job_id, other, len(sitting), gpu)
                found[other] = None
            sitting.append(job_id)
        return (job_id, *found) if found else ()

    def _check(self, job_id: JobId, other: JobId, count: int, gpu: tuple[NodeName, int]) -> None:
        jobs, where = self._jobs, f"GPU {gpu[1]} of {gpu[0]}"
        if count > 1:
            raise SimError(f"{where}: job {job_id} would be the third one")
        if not jobs.opted_in.issuperset((job_id, other)):
            raise SimError(f"{where}: jobs {job_id} and {other} share it without an opt-in")
        if (jobs.kind_of[job_id], jobs.kind_of[other]) not in jobs.pairs.speed:
            raise SimError(f"{where}: jobs {job_id} and {other} do not fit together")

    def _remove(self, job_id: JobId) -> tuple[JobId, ...]:
        """Take a job off its GPUs; return the partners that it had."""
        found = dict[JobId, None]()
        for gpu in _gpus(self._shares.pop(job_id)):
            sitting = self._on[gpu]
            sitting.remove(job_id)
            found |= dict.fromkeys(sitting)
            if not sitting:
                del self._on[gpu]
        if self._speed.pop(job_id, None) is not None:
            self.note(job_id, None)
        del self._rate[job_id]
        return tuple(found)

    def _set_speed(self, job_id: JobId) -> None:
        kind_of, mine = self._jobs.kind_of, self._jobs.kind_of[job_id]
        speeds = [
            self._jobs.pairs.speed[mine, kind_of[other]]
            for gpu in _gpus(self._shares[job_id])
            for other in self._on[gpu]
            if other != job_id
        ]
        self._speed[job_id] = speed = min(speeds) if speeds else None
        self.note(job_id, speed)


def _gpus(shares: tuple[NodeShare, ...]) -> Iterable[tuple[NodeName, int]]:
    return [(share.node, gpu) for share in shares for gpu in share.gpu_indices]
