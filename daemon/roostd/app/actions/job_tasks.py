"""Runs the work of many jobs at once, and that of one job in order."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress

import structlog

from roost_engine.domain.errors import SlurmError
from roost_engine.domain.model import JobId
from roostd.ops.metrics import Metrics

_log = structlog.get_logger(__name__)


class JobTasks:
    """A queue of work for each job, and a task for each queue.

    Args:
        concurrent_count: jobs that are worked on at the same time.
        metrics: counts what failed without reason.

    Attributes:
        renewal: held by a call of scontrol for many jobs. Work that begins later waits for its end:
            of two updates of one job the later one wins.
    """

    # An update of an array's whole record must name exactly the tasks that are still in it, and a
    # pin or a release takes one out: so such an update is made in `alone`, and these two in
    # `beside_others`.

    def __init__(self, concurrent_count: int, metrics: Metrics) -> None:
        self.renewal = asyncio.Lock()
        self._metrics = metrics
        self._slots = asyncio.Semaphore(concurrent_count)
        self._queues: dict[JobId, list[Callable[[], Awaitable[None]]]] = {}
        self._workers: dict[JobId, asyncio.Task[None]] = {}  # each works off a queue
        self._tasks: set[asyncio.Task[None]] = set()
        self._beside_count, self._is_none_beside = 0, asyncio.Event()
        self._is_none_beside.set()

    @property
    def is_idle(self) -> bool:
        """Whether no job is worked on."""
        return not self._queues

    def __len__(self) -> int:
        """Return the number of tasks under way."""
        return len(self._tasks)

    def __contains__(self, job_id: object) -> bool:
        """Return whether a job is worked on, or waits for that."""
        return job_id in self._queues

    @asynccontextmanager
    async def alone(
        self, first: Callable[[], Awaitable[object]] | None = None
    ) -> AsyncIterator[None]:
        """Hold `renewal`, once no work is in `beside_others`.

        Args:
            first: a question to Slurm whose answer is needed then: a crowd's dumps are seconds
                apart, for which no pin must wait. If it fails, the update that needs it says so.
        """
        if first is not None:
            with suppress(SlurmError):
                await first()
        async with self.renewal:
            await self._is_none_beside.wait()
            yield

    @asynccontextmanager
    async def beside_others(self) -> AsyncIterator[None]:
        """Be one of several updates of single jobs, none of them while another task is `alone`."""
        async with self.renewal:
            self._beside_count += 1
            self._is_none_beside.clear()
        try:
            yield
        finally:
            self._beside_count -= 1
            if not self._beside_count:
                self._is_none_beside.set()

    def of(self, job_id: JobId) -> asyncio.Task[None] | None:
        """Return the task that works on a job."""
        return self._workers.get(job_id)

    def add(self, job_id: JobId, work: Callable[[], Awaitable[None]]) -> None:
        """Run some work after all other work for the same job."""
        if job_id in self._queues:
            self._queues[job_id].append(work)
            return
        self._queues[job_id] = [work]
        self._workers[job_id] = self._begin(self._work_off(job_id), job_id)

    def spawn(self, work: Coroutine[None, None, None]) -> None:
        """Run some work that is not one job's; `finish` waits for it too."""
        self._begin(work)

    def _begin(
        self, work: Coroutine[None, None, None], job_id: JobId | None = None
    ) -> asyncio.Task[None]:
        task = asyncio.create_task(self._supervise(work, job_id))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def finish(self, patience_s: float) -> None:
        """Wait for all work, and cancel what takes longer than allowed."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=patience_s)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _work_off(self, job_id: JobId) -> None:
        queue = self._queues[job_id]
        try:
            async with self.renewal:
                pass  # one under way may hold this job; it must finish first
            while queue:
                async with self._slots:
                    await queue[0]()
                queue.pop(0)
        finally:
            del self._queues[job_id], self._workers[job_id]

    async def _supervise(self, work: Coroutine[None, None, None], job_id: JobId | None) -> None:
        try:
            await work
        except Exception:  # noqa: BLE001  supervises: a fault of one job must not stop the others
            _log.exception("action_failed", job_id=job_id)
            self._metrics.slurm_failures.labels("unexpected").inc()
