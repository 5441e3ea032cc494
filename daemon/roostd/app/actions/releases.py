"""Releases jobs to Slurm: by the decision of the engine, or as only a lease keeps them waiting.

The pin of such a job is taken back first, or Slurm would start the job on these GPUs alone. Where
Slurm does not answer then, the job is released at a later renewal of the leases.
"""

from collections.abc import Iterable, Sequence
from functools import partial

import structlog

from roost_engine.domain.actions import ReleaseToSlurm
from roost_engine.domain.model import JobId, Placement
from roost_engine.job_record import JobState
from roostd.app.actions.job_tasks import JobTasks
from roostd.app.actions.lease_renewal import LeaseRenewal
from roostd.app.actions.slurm_refusals import logged
from roostd.app.decision.recorder import Recorder
from roostd.ops.metrics import Metrics
from roostd.slurm.port import JobNotWaiting, SlurmPort
from roostd.state import DaemonState

_log = structlog.get_logger(__name__)


class Releases:
    """See the module.

    Args:
        slurm: the cluster.
        state: has the engine, and the configured length of a lease.
        recorder: the journal.
        metrics: counts.
        tasks: the applier's.
        leases: those of the jobs.
        pinned: the pins that Slurm has, by job; the caller's, and changed here too.
        eligible: the jobs without a lease; likewise.
    """

    def __init__(
        self,
        slurm: SlurmPort,
        state: DaemonState,
        recorder: Recorder,
        metrics: Metrics,
        tasks: JobTasks,
        leases: LeaseRenewal,
        pinned: dict[JobId, Placement | None],
        eligible: set[JobId],
    ) -> None:
        self._slurm, self._state, self._recorder, self._metrics = slurm, state, recorder, metrics
        self._tasks, self._leases = tasks, leases
        self._pinned, self._eligible = pinned, eligible
        self._released: set[JobId] = set()
        self._opened: set[JobId] = set()

    def has(self, job_id: JobId) -> bool:
        """Return whether a job was to be released or opened: its lease is not renewed any more."""
        return job_id in self._opened or self._is_released(job_id)

    def _is_released(self, job_id: JobId) -> bool:
        return job_id in self._released or self._leases.has_ended(job_id)

    def forget(self, job_id: JobId) -> None:
        """Forget a job that started or ended."""
        self._released.discard(job_id)
        self._opened.discard(job_id)

    def release(self, action: ReleaseToSlurm, ticket: int) -> None:
        """Release a job, once the journal has the action on disk."""
        self._released.add(action.job_id)
        self._tasks.add(action.job_id, lambda: self._release(action, ticket))

    def end_needless(self, needless: Sequence[JobId]) -> None:
        """Release jobs that have a lease although Roost will not place them. Each once.

        Args:
            needless: all of them, by the last poll.
        """
        due = self._leases.needless(needless, self._tasks)
        unpinned = []
        for job_id in due:
            if self._has_pin(job_id):
                self._tasks.add(job_id, partial(self._unpin_and_release, job_id))
            else:
                unpinned.append(job_id)
        if unpinned:
            self._tasks.spawn(self._end_leases(unpinned))

    def open_jobs(self, job_ids: Sequence[JobId]) -> None:
        """Let Slurm start leased jobs of Roost's as it likes; see short_runs."""
        # At once: a renewal may wait for its turn already.
        self._opened.update(self._without_work(job_ids))
        self._tasks.spawn(self._open(job_ids))

    def close_jobs(self, job_ids: Sequence[JobId]) -> None:
        """Lease these jobs again."""
        self._opened.difference_update(job_ids)
        self._tasks.spawn(self._close(job_ids))

    async def _open(self, job_ids: Sequence[JobId]) -> None:
        async with self._tasks.alone():
            if due := self._without_work(job_ids):
                with logged(self._metrics, "open"):
                    await self._slurm.let_start(due)
                    _log.info("jobs_opened", count=len(due), first_job_id=due[0])

    async def _close(self, job_ids: Sequence[JobId]) -> None:
        async with self._tasks.alone():
            if due := self._without_work(job_ids):
                await self._leases.renew_first(due)
                _log.info("jobs_closed", count=len(due), first_job_id=due[0])

    def _without_work(self, job_ids: Sequence[JobId]) -> list[JobId]:
        """Return the jobs that are not pinned, nor worked on: a pin may come or go by that."""
        pinned, busy = self._pinned, self._tasks
        return [one for one in job_ids if one not in pinned and one not in busy]

    def forget_opened(self, leased: Iterable[JobId]) -> None:
        """Forget the opened jobs that the last poll has shown as such, or that are gone.

        Args:
            leased: the jobs that only their lease keeps from starting, by that poll.
        """
        self._opened.intersection_update(leased)

    def retry(self) -> None:
        """Release the jobs that were to be released and whose pins Slurm has not taken back."""
        for job_id in list(self._pinned):
            if self._is_released(job_id) and job_id not in self._tasks and self._is_left(job_id):
                self._tasks.add(job_id, partial(self._unpin_and_release, job_id))

    def _is_left(self, job_id: JobId) -> bool:
        """Whether the engine leaves a job to Slurm; a fresh engine may have taken it up again."""
        record = self._state.engine.managed(job_id)
        return record is None or record.state is JobState.RELEASED

    async def _end_leases(self, job_ids: Sequence[JobId]) -> None:
        async with self._tasks.renewal:  # a renewal that ends later would hold them again
            await self._leases.end(job_ids)

    async def _release(self, action: ReleaseToSlurm, ticket: int) -> None:
        await self._recorder.wait_durable(ticket)
        await self._unpin_and_release(action.job_id)

    async def _unpin_and_release(self, job_id: JobId) -> None:
        lease_s = round(self._state.config.slurm.lease_s)
        with logged(self._metrics, "let_go"):
            self._eligible.discard(job_id)
            if self._has_pin(job_id) or self._keeps_types(job_id):
                await self._take_pin_back(job_id, lease_s)
            async with self._tasks.beside_others():  # its task may be in an array's record still
                await self._slurm.release([job_id])

    async def _take_pin_back(self, job_id: JobId, lease_s: int) -> None:
        self._pinned.setdefault(job_id, None)  # until Slurm has done it: see `retry`
        try:
            await self._slurm.unpin(job_id, lease_s)
        except JobNotWaiting as error:
            if not error.is_held:
                self._pinned.pop(job_id, None)
            raise
        self._pinned.pop(job_id, None)

    def _has_pin(self, job_id: JobId) -> bool:
        """Whether Slurm has a pin of the job, by what was done here or by the stamp in Slurm."""
        return job_id in self._pinned or job_id in self._state.pinned_in_slurm

    def _keeps_types(self, job_id: JobId) -> bool:
        """Whether a pin, maybe of an earlier daemon, has left its types and nodes in the job."""
        record = self._state.engine.managed(job_id)
        return record is not None and bool(record.spec.fixed_indices)
