"""The groups that a quota of Slurm's holds back, and for how long it has done so."""

from collections.abc import Mapping, Sequence
from math import inf

from roost_engine.domain.model import JobId
from roost_engine.job_record import JobRecord
from roost_engine.queue.group import Group
from roost_engine.queue.quotas import Quotas


class LimitedGroups:
    """The groups of one queue that are offered nothing until a quota has more left.

    Args:
        jobs: the queued jobs; the queue changes it.

    Attributes:
        by_number: the groups, by their numbers; read only.
    """

    def __init__(self, jobs: Mapping[JobId, JobRecord]) -> None:
        self._jobs = jobs
        self.by_number: dict[int, Group] = {}

    def add(self, group: Group, quota: str, at_s: float) -> None:
        """Hold a group back until a quota of Slurm's has more left."""
        group.limit = quota
        self.by_number[group.number] = group
        for job_id in group.since_s:
            self.note(group, self._jobs[job_id], at_s)

    def note(self, group: Group, record: JobRecord, at_s: float) -> None:
        """Note since when a job of a group is held back; a wait may be older than this queue."""
        if record.limited_since_s is None:
            record.limited_since_s = max(at_s, record.queued_s)
        group.limit_since_s = min(group.limit_since_s, record.limited_since_s)

    def forget(self, group: Group) -> None:
        """Forget a group that has no jobs any more."""
        self.by_number.pop(group.number, None)

    def lift(self, quotas: Quotas) -> bool:
        """Free the groups whose quotas have enough left again; return whether there are any."""
        lifted = [
            group for group in self.by_number.values() if not quotas.exhausted_by(group.sample)
        ]
        for group in lifted:
            del self.by_number[group.number]
            group.limit, group.limit_since_s = "", inf
            for job_id in group.since_s:
                self._jobs[job_id].limited_since_s = None
        return bool(lifted)

    def next_hand_over_s(self, hand_over_s: float) -> float:
        """Return when take_overdue() may have jobs next, if no limit is lifted; inf: never."""
        if not self.by_number:
            return inf
        return hand_over_s + min(group.limit_since_s for group in self.by_number.values())

    def take_overdue(self, limit_s: float) -> Sequence[tuple[JobId, str]]:
        """Return the jobs that a quota has held back since `limit_s` or longer, and the quota.

        The caller takes them out of the queue.
        """
        found: list[tuple[JobId, str]] = []
        for group in self.by_number.values():
            if group.limit_since_s > limit_s:
                continue
            since = {job_id: self._jobs[job_id].limited_since_s or 0.0 for job_id in group.since_s}
            found += [(job_id, group.limit) for job_id in since if since[job_id] <= limit_s]
            later = (since_s for since_s in since.values() if since_s > limit_s)
            group.limit_since_s = min(later, default=inf)
        return found
