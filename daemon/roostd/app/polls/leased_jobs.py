"""The leased jobs: which leases to renew, and which only keep a job waiting in vain."""

from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter

from roost_engine.domain.model import JobId
from roost_slurm.guards.orphaned_pins import is_eligible, waits_pinned
from roost_slurm.text.squeue import QueuedJob
from roost_slurm.text.stamp import parse_stamp
from roostd.config.config import Mode
from roostd.slurm.port import QueueSnapshot, SlurmNode
from roostd.slurm.queue_reading import OPENED
from roostd.slurm.queue_view import SlurmQueueView
from roostd.slurm.rules.held_back import is_pinned_comment
from roostd.state import DaemonState


class LeasedJobs:
    """Sorts the jobs that a lease keeps waiting.

    Args:
        state: the configuration says which partitions are enforced.
        release: takes, each time, all jobs that only a lease keeps waiting though Roost will not
            place them; see Applier.release_needless.
        adopt: takes the jobs that an earlier daemon has left pinned, and those left eligible.

    Attributes:
        job_ids: the jobs that a lease keeps waiting for Roost, blocked jobs included, by Slurm's
            priority.
    """

    def __init__(
        self,
        state: DaemonState,
        release: Callable[[Sequence[JobId]], None],
        adopt: Callable[[Iterable[JobId], Iterable[JobId]], None],
    ) -> None:
        self._state, self._release, self._adopt = state, release, adopt
        self.job_ids: tuple[JobId, ...] = ()
        self._needless: frozenset[JobId] = frozenset()
        self._found_pinned: frozenset[JobId] = frozenset()
        self._ever_enforced: set[str] = set()  # partitions, since this daemon started

    def note_enforced(self, nodes: Iterable[SlurmNode]) -> None:
        """Remember the partitions of these nodes that are enforced now."""
        named = {name for node in nodes for name in node.spec.partitions}
        self._ever_enforced.update(filter(self._is_enforced, named))

    def find_pins(self, snapshot: QueueSnapshot) -> None:
        """Report the waiting jobs that an earlier daemon has left pinned or eligible.

        On releases that cannot take back types a pinned job keeps them: JobReader reads them.
        """
        if not self._state.can_pin_again:
            return
        jobs = [job for job in snapshot.jobs if job.is_pending]
        pinned = [JobId(job_id) for job in jobs if waits_pinned(job) for job_id in job.job_ids]
        eligible = [
            JobId(job_id)
            for job in jobs
            if parse_stamp(job.admin_comment) and is_eligible(job, snapshot.at_epoch_s)
            for job_id in job.job_ids
        ]
        self._found_pinned = frozenset(pinned)
        self._adopt(pinned, eligible)

    def sort(
        self, snapshot: QueueSnapshot, view: SlurmQueueView
    ) -> tuple[Sequence[JobId], Sequence[JobId], frozenset[JobId]]:
        """Separate the leases to renew from those of jobs that Roost will not place.

        Changes nothing, and may run in a thread.

        Returns:
            The jobs of both kinds, and the waiting jobs that have the request of a pin in Slurm.
        """
        leased, needless = list[tuple[int, JobId]](), list[JobId]()
        pinned = set[JobId]()
        before = self._needless.union(self.job_ids)
        for job in snapshot.jobs:
            if not job.is_pending or parse_stamp(job.admin_comment) is None:
                continue
            if is_pinned_comment(job.admin_comment) and waits_pinned(job):
                pinned.update(map(JobId, job.job_ids))
            for job_id in map(JobId, job.job_ids):
                reason = view.unmanaged.get(job_id)
                if reason == OPENED:
                    continue
                if reason is None and self._is_enforced(job.partition):
                    leased.append((-job.priority, job_id))
                elif self._is_needless(snapshot, job, job_id, before):
                    needless.append(job_id)
        leased.sort(key=itemgetter(0))
        return [job_id for _, job_id in leased], needless, frozenset(pinned)

    def note(
        self, leased: Sequence[JobId], needless: Sequence[JobId], pinned: frozenset[JobId]
    ) -> None:
        """Apply what `sort` has found."""
        self._state.pinned_in_slurm = pinned
        self.job_ids, self._needless = tuple(leased), frozenset(needless)
        self._release(needless)

    def _is_needless(
        self, snapshot: QueueSnapshot, job: QueuedJob, job_id: JobId, before: frozenset[JobId]
    ) -> bool:
        """Whether only its lease keeps a stamped job waiting that Roost will not place.

        Slurm itself delays a requeued job, until slurmd has cleaned up after it, unless a lease
        was renewed since. A job without details may yet prove to be Roost's. A job that a daemon
        finds at its start in a partition that it does not enforce is left as it is, unless it is
        pinned: it would wait for just these GPUs. A job that this daemon has leased, and that is in
        such a partition now, was moved there by its user: it is needless.
        """
        if job.restart_count and job_id not in before:
            return False
        if self._is_enforced(job.partition):
            return job.number in snapshot.details
        if job_id in self._found_pinned or job_id in before:
            return True
        return not self._ever_enforced.isdisjoint(job.partition.split(","))

    def _is_enforced(self, partitions: str) -> bool:
        return self._state.config.mode_of(partitions.partition(",")[0]) is Mode.ENFORCE
