"""How users fared: the slowdown of each, the worst of them, and how even they are.

slowdown of a user = mean completion time of the user's measured jobs / their mean ideal run time

So long jobs count as they weigh: a job of few seconds that waits an hour does not make its user the
worst one. It says how long a user waits for each hour of work, whatever others got. Jobs whose
user the trace does not tell are left out.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from roost_sim.figures.outcome import NO_USER, JobResult

_LEAST_WORK_S = 1e-12  # so that a job of no length divides


@dataclass(frozen=True, slots=True)
class UserSlowdowns:
    """The slowdowns of the users of the measured jobs.

    Attributes:
        worst: the largest one, 1 or more unless jobs ran faster than the trace says.
        jain: Jain's index of all: 1 if they are equal, 1/users if all but one are 0.
    """

    worst: float
    jain: float


def user_slowdowns(measured: Iterable[JobResult]) -> UserSlowdowns | None:
    """Compute the slowdowns of users; None if no job has a user.

    Args:
        measured: jobs that ended.
    """
    took_s: dict[int, float] = {}
    work_s: dict[int, float] = {}
    for job in measured:
        if job.user_id == NO_USER or job.ended_s is None:
            continue
        took_s[job.user_id] = took_s.get(job.user_id, 0.0) + job.ended_s - job.submit_s
        work_s[job.user_id] = work_s.get(job.user_id, 0.0) + job.work_s
    slowdowns = [took_s[user] / max(work_s[user], _LEAST_WORK_S) for user in took_s]
    if not slowdowns:
        return None
    squares = sum(value * value for value in slowdowns)
    even = sum(slowdowns) ** 2 / (len(slowdowns) * squares) if squares else 1.0
    return UserSlowdowns(worst=max(slowdowns), jain=even)
