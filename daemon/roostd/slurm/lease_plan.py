"""Which leases to renew now, and for how long, so that a crowd costs slurmctld little.

slurmctld needs about 0.5 ms to renew one lease. The first HEAD_COUNT waiting jobs, which Slurm
would start first without roostd, keep the configured lease; the others get one that grows with
their number, so that renewing them costs as much as renewing the head. Without roostd the head is
free within the configured lease, and the others are behind it anyway.
"""

from collections.abc import Sequence

from roost_engine.domain.model import JobId

HEAD_COUNT = 500
RENEWALS = 3  # in the length of a lease
LONGEST_S = 3_600
MOST_AT_ONCE = 1_000  # of the others, unless their leases end soon


def lease_of_others_s(lease_s: float, count: int) -> float:
    """Return the lease of the jobs behind the head.

    Example: 10,000 jobs and a lease of 60 s give 1,140 s: 500 renewals in 20 s for the head, and
    500 in 20 s on average for the others.

    Args:
        lease_s: the configured lease.
        count: leased jobs, the head included.
    """
    grown_s = lease_s * (count - HEAD_COUNT) / HEAD_COUNT
    return max(lease_s, min(grown_s, LONGEST_S))


class LeasePlan:
    """Says at each round which leases are due. A round comes RENEWALS times in a configured lease.

    The ends of leases are on the monotonic clock.
    """

    def __init__(self) -> None:
        self._ends_s: dict[JobId, float] = {}  # of the jobs behind the head

    def due(
        self, job_ids: Sequence[JobId], lease_s: float, now_s: float
    ) -> list[tuple[int, list[JobId]]]:
        """Return the jobs to renew, with the length of their leases.

        Args:
            job_ids: all leased jobs, those that Slurm would start first before the others.
            lease_s: the configured lease.
            now_s: monotonic time.
        """
        head, others = job_ids[:HEAD_COUNT], job_ids[HEAD_COUNT:]
        long_s = lease_of_others_s(lease_s, len(job_ids))
        ends_s = {job_id: self._ends_s.get(job_id, 0.0) for job_id in others}
        self._ends_s = ends_s
        first_s = now_s + long_s * (RENEWALS - 1) / RENEWALS
        last_s = now_s + max(long_s / RENEWALS, 2 * lease_s / RENEWALS)
        due = sorted((end_s, job_id) for job_id, end_s in ends_s.items() if end_s <= first_s)
        must_count = sum(end_s <= last_s for end_s, _ in due)
        later = [job_id for _, job_id in due[: max(must_count, MOST_AT_ONCE)]]
        if round(long_s) == round(lease_s):
            later, head = [], job_ids  # all have one lease
        # The head last: where an array's record has tasks of both, all tasks keep its lease.
        groups = ((round(long_s), later), (round(lease_s), list(head)))
        return [(length_s, ids) for length_s, ids in groups if ids]

    def note(self, job_ids: Sequence[JobId], length_s: int, now_s: float) -> None:
        """Note that these leases were renewed."""
        for job_id in job_ids:
            if job_id in self._ends_s:
                self._ends_s[job_id] = now_s + length_s

    def forget(self, job_id: JobId) -> None:
        """Have a job renewed in the next round: its lease was changed otherwise, as by a pin."""
        self._ends_s.pop(job_id, None)
