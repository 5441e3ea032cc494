"""Jobs that Slurm's own rules hold back, and for how long. Pure: no clock, no I/O.

A job that Slurm would not start gets no GPUs: they would idle. The account of the site's rules says
so before a pin where it can (`rules`); otherwise Slurm says so after the pin, as the reason why the
job waits. Jobs of the same user, account, QoS and partition then need no attempt of their own.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from roost_engine.domain.model import JobId
from roost_slurm.text.scontrol import JobDetail
from roost_slurm.text.squeue import QueuedJob
from roost_slurm.text.stamp import parse_stamp
from roostd.slurm.rules.reasons import ReasonClass, reason_class
from roostd.slurm.rules.site_rules import SiteRules

NO_SUCH_GPUS = "BadConstraints"
RETRY_S = 5.0

Kin: TypeAlias = tuple[int, str, str, str, str]  # user, account, QoS, partition, licenses


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldBack:
    """A job that one of Slurm's rules holds back.

    Attributes:
        reason: Slurm's name for it, with details where they are known.
        since_s: engine time from which the job has been held back.
        until_s: engine time from which it is tried again.
    """

    reason: str
    since_s: float
    until_s: float


@dataclass(frozen=True, slots=True)
class HeldBackJobs:
    """The jobs held back by the last view of the queue, and what Slurm refused of late.

    Attributes:
        jobs: by job; a job that is being tried again stays in it for a while.
        refusals: by kin: Slurm's reason, and engine time until which it counts for all of them.
    """

    jobs: Mapping[JobId, HeldBack] = field(default_factory=dict)
    refusals: Mapping[Kin, tuple[str, float]] = field(default_factory=dict)


class HoldingBack:
    """Decides which jobs of one view are held back.

    Args:
        before: of the view before.
        rules: the site's rules.
        at_s: engine time.
    """

    def __init__(self, before: HeldBackJobs, rules: SiteRules, at_s: float) -> None:
        self._before, self._rules, self._at_s = before, rules, at_s
        self._jobs = dict[JobId, HeldBack]()
        self._refusals = {
            kin: refusal for kin, refusal in before.refusals.items() if refusal[1] > at_s
        }

    def result(self) -> HeldBackJobs:
        """Return what the next view needs."""
        return HeldBackJobs(self._jobs, self._refusals)

    def judge(
        self, job: QueuedJob, detail: JobDetail | None, job_id: JobId, is_same: bool
    ) -> HeldBack | None:
        """Return what holds a job back now, if anything does.

        Args:
            job: waits, under Roost.
            detail: of it.
            job_id: its id.
            is_same: whether the view before has the same life of the job.
        """
        earlier = self._before.jobs.get(job_id) if is_same else None
        reason, until_s = self._reason(job, detail, earlier)
        if reason:
            since_s = earlier.since_s if earlier is not None else self._at_s
            self._jobs[job_id] = HeldBack(reason=reason, since_s=since_s, until_s=until_s)
            return self._jobs[job_id]
        if earlier is not None and self._at_s < earlier.until_s + RETRY_S:
            self._jobs[job_id] = earlier  # it is being tried again
        return None

    def _reason(
        self, job: QueuedJob, detail: JobDetail | None, earlier: HeldBack | None
    ) -> tuple[str, float]:
        by_rules = self._rules.why_not(job, detail)
        if by_rules is not None:
            return by_rules, self._at_s
        kin = _kin_of(job)
        if is_pinned_comment(job.admin_comment) and reason_class(job.reason) is ReasonClass.LIMIT:
            is_known = earlier is not None and self._at_s < earlier.until_s
            if not is_known:
                self._refusals[kin] = job.reason, self._at_s + RETRY_S
        if earlier is not None and self._at_s < earlier.until_s:
            return earlier.reason, earlier.until_s
        return self._refusals.get(kin, ("", 0.0))


def _kin_of(job: QueuedJob) -> Kin:
    return job.user_id, job.account, job.qos, job.partition, job.licenses


def is_pinned_comment(admin_comment: str) -> bool:
    """Return whether an admin comment says that Roost has pinned the job."""
    stamp = parse_stamp(admin_comment) if " was=" in admin_comment else None
    return stamp is not None and bool(stamp.was)


def is_held_by_pin(reason: str, admin_comment: str) -> bool:
    """Return whether Slurm holds a job, with priority 0, as no node has the GPUs of its pin.

    It is as if a user held it, but the next pin, or taking this one back, ends that: any update of
    its nodes or its begin gives it a priority again (22.05, measured).
    """
    return reason == NO_SUCH_GPUS and is_pinned_comment(admin_comment)
