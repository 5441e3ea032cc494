"""How much work waits, and how long the cluster needs for it at its present pace."""

from math import inf, isfinite

from roost_engine.domain.model import JobId


class Backlog:
    """The GPU-seconds that waiting jobs are expected to need, and the GPUs that work."""

    def __init__(self) -> None:
        self._waiting_gpu_s: dict[JobId, float] = {}
        self._running_gpus: dict[JobId, int] = {}
        self._total_gpu_s, self._busy_gpu_count = 0.0, 0
        self._least_drain_s: dict[JobId, float] = {}  # that drain_of_s() has returned

    def wait(self, job_id: JobId, gpu_s: float) -> None:
        """Add a job that waits and its expected work; not finite or below 0, that counts as 0."""
        self.end(job_id)
        self._leave(job_id)
        gpu_s = gpu_s if isfinite(gpu_s) and gpu_s > 0 else 0.0
        self._waiting_gpu_s[job_id] = gpu_s
        self._total_gpu_s += gpu_s

    def start(self, job_id: JobId, gpu_count: int) -> None:
        """Move a job from waiting to running; `gpu_count` 0: it left without having run."""
        self.end(job_id)
        self._leave(job_id)
        self._least_drain_s.pop(job_id, None)
        if gpu_count:
            self._running_gpus[job_id] = gpu_count
            self._busy_gpu_count += gpu_count

    def end(self, job_id: JobId) -> None:
        """Remove a job that runs no longer."""
        self._busy_gpu_count -= self._running_gpus.pop(job_id, 0)

    def drain_s(self) -> float:
        """Return how long the GPUs that work now need for all that waits, in seconds."""
        return max(self._total_gpu_s, 0.0) / max(self._busy_gpu_count, 1)

    def drain_of_s(self, job_id: JobId) -> float:
        """Return the least that drain_s() was whenever this was asked during the job's wait.

        A job is asked about again when its priority or request has changed. What it was promised
        does not recede with a queue that has grown since.
        """
        least_s = min(self.drain_s(), self._least_drain_s.get(job_id, inf))
        if job_id in self._waiting_gpu_s:
            self._least_drain_s[job_id] = least_s
        return least_s

    def _leave(self, job_id: JobId) -> None:
        self._total_gpu_s -= self._waiting_gpu_s.pop(job_id, 0.0)
        if not self._waiting_gpu_s:
            self._total_gpu_s = 0.0  # so that rounding errors do not add up
