"""Decides when the processes of each GPU are read, and keeps the last reading of each.

They are read only where roostd asks for it. GPUs on which two jobs have processes are read at the
interval that roostd names, the other GPUs in every sixth interval: a list of processes costs
milliseconds under a lock that jobs share.
"""

from collections.abc import Collection
from math import inf

from roost_probe.driver.job_memory import NO_JOB, JobBytes
from roost_probe.driver.readings import JobMemory
from roost_probe.node.sampler import MOST_GPUS, MOST_MEMORY_BYTES
from roost_proto.v1 import telemetry_pb2

SELDOM = 6  # intervals between two readings of a GPU that no jobs share
PAUSE_S = 3_600.0  # after a reading on which the driver failed: the load is worth more


class ProcessWatch:
    """The readings of the processes of this node's GPUs; see the module."""

    def __init__(self) -> None:
        self._interval_s = inf
        self._due_s = -inf
        self._round = 0
        self._last = dict[int, JobBytes]()  # by GPU
        self._shared = frozenset[int]()  # by two jobs or more, when they were last known

    def set_interval(self, interval_s: float) -> None:
        """Read at this interval from now on, in seconds; 0: do not read."""
        self._interval_s = interval_s if interval_s > 0 else inf
        if self._interval_s == inf:
            self._last.clear()

    def due(self, gpu_count: int, now_s: float) -> tuple[int, ...]:
        """Return the GPUs to read now, which begins a reading if there are any."""
        if self._interval_s == inf or now_s < self._due_s:
            return ()
        self._due_s = now_s + self._interval_s
        is_turn_of_all, self._round = self._round % SELDOM == 0, self._round + 1
        gpus = range(min(gpu_count, MOST_GPUS))
        return tuple(gpu for gpu in gpus if is_turn_of_all or gpu in self._shared)

    def note(self, asked: Collection[int], memory: JobMemory) -> None:
        """Note a reading: a GPU that was asked and not answered is not known any more."""
        for gpu in asked:
            jobs = memory.gpus[gpu] if gpu < len(memory.gpus) else None
            if jobs is None or any(not 0 <= used <= MOST_MEMORY_BYTES for _, used, _ in jobs):
                self._last.pop(gpu, None)
                continue
            self._last[gpu] = jobs
            is_shared = sum(job != NO_JOB for job, _, _ in jobs) > 1
            self._shared = self._shared | {gpu} if is_shared else self._shared - {gpu}

    def pause(self, now_s: float) -> None:
        """Note that the driver failed while processes were read."""
        self._last.clear()
        self._due_s = now_s + PAUSE_S

    def add_to(self, sample: telemetry_pb2.Sample) -> None:
        """Add what was read last to a sample."""
        for gpu, jobs in sorted(self._last.items()):
            if gpu < sample.gpu_count and not sample.lost_mask >> gpu & 1:
                sample.process_mask |= 1 << gpu
                for job, used_bytes, user_id in jobs:
                    sample.job_memory.add(
                        gpu_index=gpu, slurm_job_id=job, used_bytes=used_bytes, user_id=user_id
                    )
