"""Renews the leases of waiting jobs in Slurm, and ends those that are not needed."""

import time
from collections.abc import Container, Sequence

import structlog

from roost_engine.domain.errors import SlurmError
from roost_engine.domain.model import JobId
from roostd.app.actions.slurm_refusals import RepeatedRefusals, logged
from roostd.ops.metrics import Metrics
from roostd.slurm.lease_plan import LeasePlan
from roostd.slurm.port import SlurmPort
from roostd.state import DaemonState

_log = structlog.get_logger(__name__)


class LeaseRenewal:
    """Renews leases and ends them; its caller says of which jobs, and holds `JobTasks.renewal`.

    Args:
        slurm: the cluster.
        state: has the configured length of a lease.
        metrics: counts.
    """

    def __init__(self, slurm: SlurmPort, state: DaemonState, metrics: Metrics) -> None:
        self._slurm, self._state, self._metrics = slurm, state, metrics
        self._refusals = RepeatedRefusals(metrics, "renew")
        self._plan = LeasePlan()
        self._renewed: set[JobId] = set()  # have a lease of full length, as far as is known
        self._ended: set[JobId] = set()

    def has_ended(self, job_id: JobId) -> bool:
        """Return whether the job's lease was ended as needless."""
        return job_id in self._ended

    def is_new(self, job_id: JobId) -> bool:
        """Return whether the job still has its first, short lease, as far as is known."""
        return job_id not in self._renewed

    def note_short(self, job_id: JobId) -> None:
        """Note that Slurm gives the job a short lease after its pin."""
        self._plan.forget(job_id)

    def forget(self, job_id: JobId) -> None:
        """Forget a job that started or ended."""
        self._renewed.discard(job_id)
        self._plan.forget(job_id)

    def forget_all(self) -> None:
        """Have the next call of `renew` renew all leases: the wall clock was set."""
        self._plan = LeasePlan()

    async def renew(self, job_ids: Sequence[JobId]) -> None:
        """Renew the leases that are due; see LeasePlan.

        Args:
            job_ids: all jobs with a lease.
        """
        self._renewed.intersection_update(job_ids)
        now_s = time.monotonic()
        renewals = list(self._plan.due(job_ids, self._state.config.slurm.lease_s, now_s))
        if not renewals:
            return
        with self._refusals.logged():
            fault: SlurmError | None = None
            for length_s, due in renewals:
                try:
                    await self._slurm.renew(due, length_s)
                except SlurmError as error:  # of one job, maybe: the leases of others must not end
                    fault = fault or error
                    continue
                self._plan.note(due, length_s, now_s)
                self._note_renewed(due)
            if fault is not None:
                raise fault

    async def renew_first(self, job_ids: Sequence[JobId]) -> None:
        """Give jobs a lease of full length."""
        with self._refusals.logged():
            await self._slurm.renew(job_ids, round(self._state.config.slurm.lease_s))
            self._note_renewed(job_ids)

    def needless(self, job_ids: Sequence[JobId], busy: Container[JobId]) -> list[JobId]:
        """Return the jobs whose leases are to be ended now; each is returned once.

        Args:
            job_ids: all jobs with a lease although Roost will not place them.
            busy: jobs that must wait for the next call.
        """
        self._ended.intersection_update(job_ids)
        due = [job_id for job_id in job_ids if job_id not in self._ended and job_id not in busy]
        self._ended.update(due)
        return due

    async def end(self, job_ids: Sequence[JobId]) -> None:
        """Release jobs to Slurm."""
        with logged(self._metrics, "release"):
            await self._slurm.release(job_ids)
            _log.info("leases_ended", count=len(job_ids), first_job_id=job_ids[0])

    def _note_renewed(self, job_ids: Sequence[JobId]) -> None:
        self._renewed.update(job_ids)
        self._metrics.lease_renewals.inc(len(job_ids))
