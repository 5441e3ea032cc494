"""What operators may ask of Slurm's jobs: owners, comments, and why Roost leaves a job alone."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import structlog

from roost_engine.domain.model import JobId
from roost_slurm.text.squeue import QueuedJob
from roostd.slurm.comment import JobComment
from roostd.slurm.job_facts import Owner, owner_of
from roostd.slurm.jobs import JobReader, Unmanaged, comment_of, is_of_another
from roostd.slurm.port import QueueSnapshot
from roostd.slurm.queue_reading import HELD
from roostd.slurm.queue_view import SlurmQueueView
from roostd.state import DaemonState, LeftQueue, UnmanagedJob

_log = structlog.get_logger(__name__)

OTHER_ROOSTD = (
    "another roostd steers this cluster: {count} waiting jobs have its lease, and job_submit.lua"
    " reads its heartbeat; this roostd only watches them: stop one of the two, or, where roostd has"
    " moved here, run `roost-slurm unpin --others` and wait until these jobs have started"
)


@dataclass(frozen=True, slots=True)
class Shown:
    """What operators may ask after one poll; see DaemonState."""

    owners: dict[JobId, Owner]
    unmanaged: dict[JobId, UnmanagedJob]
    unmanaged_reasons: Mapping[JobId, str]
    comments: dict[JobId, JobComment]
    left_queue: Mapping[JobId, LeftQueue]  # since the poll before
    other_lease_count: int  # waiting jobs that another roostd has leased


class OperatorView:
    """Keeps these parts of the daemon's state in step with Slurm's queue.

    Facts of a job stay until it has left both Slurm and the engine.
    """

    def __init__(self, state: DaemonState) -> None:
        self._state = state

    def read(
        self,
        snapshot: QueueSnapshot,
        now: SlurmQueueView,
        reader: JobReader,
        before: SlurmQueueView,
    ) -> Shown:
        """Return what a poll shows; changes nothing, and may run in a thread.

        Args:
            snapshot: Slurm's queue.
            now: the same in the engine's terms.
            reader: reads single jobs.
            before: the view of the poll before.
        """
        unmanaged = self._unmanaged(snapshot, now, reader, before)
        return Shown(
            owners=self._owners(snapshot, now),
            unmanaged=unmanaged,
            left_queue=dict(self._left_queue(now, before, unmanaged)),
            unmanaged_reasons=now.unmanaged,
            comments=self._comments(snapshot, now),
            other_lease_count=sum(job.is_pending and is_of_another(job) for job in snapshot.jobs),
        )

    def show(self, shown: Shown) -> None:
        """Apply what a poll shows."""
        state, other_count = self._state, shown.other_lease_count
        state.owners, state.comments = shown.owners, shown.comments
        state.unmanaged, state.unmanaged_reasons = shown.unmanaged, shown.unmanaged_reasons
        self._note_left_queue(shown)
        self._forget_decisions()
        if other_count and not state.owner_fault:
            _log.error("another_roostd", job_count=other_count)
        state.owner_fault = OTHER_ROOSTD.format(count=other_count) if other_count else ""

    def _owners(self, snapshot: QueueSnapshot, now: SlurmQueueView) -> dict[JobId, Owner]:
        known = self._state.owners
        owners = {
            job_id: owner for job_id, owner in known.items() if self._is_remembered(job_id, now)
        }
        for job in snapshot.jobs:
            owner = owner_of(job, snapshot.details.get(job.number))
            for job_id in map(JobId, job.job_ids):
                before = known.get(job_id)  # used again, it is no work for the garbage collector
                owners[job_id] = before if before == owner else owner
        return owners

    def _left_queue(
        self, now: SlurmQueueView, before: SlurmQueueView, unmanaged: Collection[JobId]
    ) -> Iterator[tuple[JobId, LeftQueue]]:
        """Yield the jobs that were left to Slurm and are gone, and that the engine never had."""
        state = self._state
        for job_id, left in state.unmanaged.items():
            life = before.lives.get(job_id)
            if life is None or job_id in now.lives or job_id in unmanaged:
                continue
            if state.engine.known(job_id) is not None:  # it remembers the job itself
                continue
            yield (
                job_id,
                LeftQueue(
                    reason=left.reason,
                    owner=state.owners.get(job_id),
                    submit_s=state.clock.to_engine_s(life[1]),
                    left_s=state.clock.now_s(),
                ),
            )

    def _note_left_queue(self, shown: Shown) -> None:
        """Remember as many jobs as the engine does; a number that Slurm uses again is another."""
        kept = self._state.left_queue
        kept.update(shown.left_queue)
        for job_id in kept.keys() & shown.owners.keys():
            del kept[job_id]
        while len(kept) > self._state.engine.config.ended_job_count:
            del kept[next(iter(kept))]

    def _forget_decisions(self) -> None:
        """Drop the decisions of earlier engines for jobs that have left Slurm and the engine."""
        decisions = self._state.earlier_decisions
        gone = [one for one in decisions if one not in self._state.owners]
        for job_id in gone:
            del decisions[job_id]
        for known in (self._state.first_shares, self._state.release_reasons):
            for job_id in known.keys() - self._state.owners.keys():
                del known[job_id]

    def _unmanaged(
        self,
        snapshot: QueueSnapshot,
        now: SlurmQueueView,
        reader: JobReader,
        before: SlurmQueueView,
    ) -> dict[JobId, UnmanagedJob]:
        """Return why Roost does not place jobs, also while they run and after their end."""
        known = self._state.unmanaged
        unmanaged = {
            job_id: job for job_id, job in known.items() if self._is_remembered(job_id, now)
        }
        for job in snapshot.jobs:
            if not any("gpu" in asked for _, asked in job.tres):
                continue
            for job_id in map(JobId, job.job_ids):
                reason = now.blocked.get(job_id) or now.unmanaged.get(job_id)
                if job_id in now.running and job_id not in before.lives:
                    reason = _why_it_runs(snapshot, reader, job, job_id)
                elif reason is None and job_id in known and known[job_id].reason.endswith(HELD):
                    reason = known[job_id].reason.removesuffix(HELD)
                if reason is not None:
                    is_blocked = job_id in now.blocked
                    unmanaged[job_id] = UnmanagedJob(reason=reason, is_blocked=is_blocked)
        return unmanaged

    def _comments(self, snapshot: QueueSnapshot, now: SlurmQueueView) -> dict[JobId, JobComment]:
        known = self._state.comments
        comments = {
            job_id: one for job_id, one in known.items() if self._is_remembered(job_id, now)
        }
        for job in snapshot.jobs:
            detail = snapshot.details.get(job.number)
            if detail is None:
                continue
            comment = comment_of(detail)
            for job_id in map(JobId, job.job_ids):
                if comment is not None:
                    comments[job_id] = comment
                else:
                    comments.pop(job_id, None)
        return comments

    def _is_remembered(self, job_id: JobId, now: SlurmQueueView) -> bool:
        return self._state.engine.known(job_id) is not None or job_id in now.running


def _why_it_runs(
    snapshot: QueueSnapshot, reader: JobReader, job: QueuedJob, job_id: JobId
) -> str | None:
    """Return why Slurm started a job without Roost; None: Roost may have placed it."""
    read = reader.read(job, snapshot.details.get(job.number), job_id)
    return read.reason if isinstance(read, Unmanaged) else None
