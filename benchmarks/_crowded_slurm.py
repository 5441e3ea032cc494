"""A Slurm in memory with a crowd of jobs, whose own work does not drown that of the daemon.

roostd reads the real Slurm by commands, which run elsewhere. The stand-in runs in roostd's process:
without the shortcuts here, 20,000 jobs cost it more than they cost roostd. It works in slices, and
the event loop continues between two of them, as it does while a command runs.
"""

import asyncio
import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from roost_engine.domain.model import JobId, NodeName
from roost_slurm.text.commands import Argv
from roost_slurm.text.hostlist import expand
from roost_slurm.text.scontrol import AllocatedNode, JobDetail
from roost_slurm.text.squeue import QueuedJob, SlurmJobState
from roostd.slurm.port import QueueSnapshot, SlurmNode
from roostd.testing.slurm_stand_in import SlurmStandIn
from roostd.testing.slurm_stand_in_job import FreeNode, StandInJob, Wanted, allocate, hold

_SLICE = 200  # jobs: their records take about 10 ms to make
_UPDATED_AT_ONCE = 400  # jobs, as by one call of scontrol


class CrowdedSlurm(SlurmStandIn):
    """Keeps the records of jobs that do not change, and tries only jobs that are due.

    Attributes:
        has_room: whether fill() has left waiting jobs, and GPUs for them.
        own_cpu_s: CPU time that a real Slurm would not take from roostd.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.has_room, self.own_cpu_s = False, 0.0
        self._is_still = False
        self._queued_known: dict[JobId, QueuedJob] = {}
        self._detail_known: dict[JobId, JobDetail] = {}
        self._free_known: dict[NodeName, FreeNode] | None = None
        self._most_free: int | None = None  # GPUs of one node, in that
        self._stuck: set[JobId] = (
            set()
        )  # due, and too large for what is free since the last end of a job
        self._is_timed = False

    def fill(self, waiting_count: int, running_count: int) -> None:
        """Submit jobs of up to a node before the daemon runs, and start the first of them."""
        self._is_still, self.has_room = True, waiting_count > 0 and not running_count
        for number in range(waiting_count + running_count):
            self.submit(gpus=1 + number % 8, user_id=1_000 + number % 50)
        now_s = self._now()
        for job in list(self._jobs.values())[:running_count]:
            job.begin_epoch_s = now_s
            self._try_to_start(job, now_s)
        self._is_still = False

    def end_some(self, count: int) -> int:
        """End so many running jobs, and return how many there were."""
        running = [job_id for job_id, job in self._jobs.items() if job.allocated][:count]
        for job_id in running:
            self.end(job_id)
        return len(running)

    @property
    def job_count(self) -> int:
        """Jobs that wait or run."""
        return len(self._jobs)

    @property
    def running_count(self) -> int:
        """Jobs that run."""
        return sum(bool(job.allocated) for job in self._jobs.values())

    def end(self, job_id: JobId) -> None:
        """See SlurmStandIn."""
        self._forget(job_id)
        self._free_known = None
        self._stuck.clear()
        super().end(job_id)

    def tick(self) -> None:
        """Start the jobs that are due, in order; nothing while a crowd is submitted."""
        if self._is_still:
            return
        with self._timed():
            now_s, pending, stuck = self._now(), SlurmJobState.PENDING, self._stuck
            due = [
                job
                for job in self._jobs.values()
                if job.state is pending and job.begin_epoch_s <= now_s and job.job_id not in stuck
            ]
            for job in sorted(due, key=lambda job: (-job.priority, job.number)):
                self._try_to_start(job, now_s)

    async def nodes(self) -> tuple[SlurmNode, ...]:
        """See SlurmPort."""
        with self._timed():
            self._free()  # what is free is then known: two turns, so that none of them is long
        await asyncio.sleep(0)
        with self._timed():
            return await super().nodes()

    async def queue(self) -> QueueSnapshot:
        """See SlurmPort."""
        for job_ids in _slices(list(self._jobs), _SLICE):
            with self._timed():
                for job in filter(None, map(self._jobs.get, job_ids)):
                    self._queued(job)
                    self._detail(job)
            await asyncio.sleep(0)
        with self._timed():
            return await super().queue()

    async def renew(self, job_ids: Sequence[JobId], lease_s: int) -> None:
        """See SlurmPort."""
        for some in _slices(job_ids, _UPDATED_AT_ONCE):
            with self._timed():
                await super().renew(some, lease_s)
            await asyncio.sleep(0)

    async def release(self, job_ids: Sequence[JobId]) -> None:
        """See SlurmPort."""
        for some in _slices(job_ids, _UPDATED_AT_ONCE):
            with self._timed():
                await super().release(some)
            await asyncio.sleep(0)

    async def announce(self, reasons: Mapping[JobId, str]) -> None:
        """See SlurmPort."""
        for some in _slices(list(reasons), _UPDATED_AT_ONCE):
            with self._timed():
                await super().announce({job_id: reasons[job_id] for job_id in some})
            await asyncio.sleep(0)

    @contextlib.contextmanager
    def _timed(self) -> Iterator[None]:
        """Count what is done here as the stand-in's own, and nothing twice. It must not wait."""
        if self._is_timed:
            yield
            return
        self._is_timed, began_s = True, time.thread_time()
        try:
            yield
        finally:
            self._is_timed = False
            self.own_cpu_s += time.thread_time() - began_s

    def _try_to_start(self, job: StandInJob, now_s: float) -> None:
        self._forget(job.job_id)
        super()._try_to_start(job, now_s)
        if job.allocated:
            self._hold(job.allocated)
        elif job.begin_epoch_s <= now_s:
            self._stuck.add(job.job_id)

    def _change(self, job: StandInJob, values: Mapping[str, str]) -> None:
        self._forget(job.job_id)
        self._stuck.discard(job.job_id)
        super()._change(job, values)

    def _update(self, operation: str, argv: Argv) -> None:
        super()._update(operation, argv)
        self.argvs.clear()  # kept, they would count as memory of roostd: 5 MB in 10,000 jobs

    def _free(self) -> dict[NodeName, FreeNode]:
        if self._free_known is None:
            self._free_known, self._most_free = super()._free(), None
        return self._free_known

    def _allocate(self, job: StandInJob) -> tuple[AllocatedNode, ...] | None:
        # Leases end where the machine is too slow to renew them; each such job asks every node.
        wanted = Wanted.of(job, max(job.node_range[0], 1))
        free = self._free()
        if job.required_nodes:  # a pin: Slurm takes no other node where these are enough
            alone = {name: free[name] for name in map(NodeName, expand(job.required_nodes))}
            if found := allocate(job, self._nodes, alone):
                return found
        if self._most_free is None:
            self._most_free = max((len(node.gpus) for node in free.values()), default=0)
        if wanted is not None and wanted.gpu_count > self._most_free:
            return None
        return super()._allocate(job)

    def _hold(self, allocated: Sequence[AllocatedNode]) -> None:
        """Take what a job got out of what is free: to count 5,000 nodes takes 5 ms."""
        if self._free_known is not None:
            hold(self._free_known, allocated)
            self._most_free = None

    def _queued(self, job: StandInJob) -> QueuedJob:
        if job.job_id not in self._queued_known:
            self._queued_known[job.job_id] = super()._queued(job)
        return self._queued_known[job.job_id]

    def _detail(self, job: StandInJob) -> JobDetail:
        if job.job_id not in self._detail_known:
            self._detail_known[job.job_id] = super()._detail(job)
        return self._detail_known[job.job_id]

    def _forget(self, job_id: JobId) -> None:
        self._queued_known.pop(job_id, None)
        self._detail_known.pop(job_id, None)


def _slices(job_ids: Sequence[JobId], count: int) -> Iterator[Sequence[JobId]]:
    for start in range(0, len(job_ids), count):
        yield job_ids[start : start + count]
