"""What a dump of the queue does not show: the jobs' details, and begin times that users changed."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from math import inf

from roost_engine.domain.errors import SlurmRefused
from roost_engine.domain.model import JobId
from roost_slurm.text import commands
from roost_slurm.text.scontrol import JobDetail
from roost_slurm.text.squeue import QueuedJob
from roost_slurm.text.stamp import advice, parse_stamp
from roostd.slurm.lease_plan import lease_of_others_s
from roostd.slurm.request import asked

_BEFORE_BEGIN = ("BeginTime", "")  # "": Slurm has not looked at the job since its last update
_LATE_S = 2.0  # Slurm may show the end of a lease this much later than roostd computed it
FRESH_S = 1.0  # users may change a job in this time, and roostd does not hear of it everywhere
_BULK_COUNT = 12  # more unknown jobs than this are read by one `show jobs` in any case
# Fewer too, where the list is short: 84 jobs that come four at a time on 16 GPUs then take 209
# `show job` and 50 `show jobs` instead of 381 `show job`, 10 % less CPU of roostd and its commands.
_LISTED_COUNT_PER_CALL = 50
_LIMIT_AGE_S = 5.0  # squeue does not show that a user raised the limit of an array


class MovedBegins:
    """The begin times that users gave their jobs after submission.

    Slurm has one begin time for each job, and Roost writes its leases there too. A begin time later
    than any lease is the user's, and counts as such until Slurm shows an earlier one. The begin
    time of a requeued job is Slurm's own. Slurm shows its estimate of a job's start in the same
    place as a begin time: only what is the job's eligible time too is a begin time.

    Where the wall clock is set back, the leases of before end later than any lease of now, until
    they are renewed.

    Args:
        lease_s: returns the configured length of leases; those of a crowd are longer.
        monotonic: the monotonic clock.
    """

    def __init__(
        self, lease_s: Callable[[], float], monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._lease_s, self._monotonic = lease_s, monotonic
        self._known: dict[int, float] = {}  # by record number
        self._at_epoch_s = self._latest_s = float("-inf")
        self._latest_before_s = self._until_s = float("-inf")  # of a wall clock that was set back
        self._longest_until_s = float("-inf")  # the end of the longest lease, monotonic

    def stamp(self, jobs: Sequence[QueuedJob], at_epoch_s: float) -> tuple[QueuedJob, ...]:
        """Return the jobs of a dump with these begin times in their stamps."""
        before, self._known = self._known, {}
        leased_count = sum(len(job.task_ids) or 1 for job in jobs if _is_leased(job))
        latest_s = self._latest_lease_end_s(at_epoch_s, leased_count)
        return tuple(self._stamped(job, latest_s, before) for job in jobs)

    def _longest_lease_s(self, leased_count: int, now_s: float) -> float:
        """Return the longest lease that is left: those of a crowd stay when the crowd has gone."""
        lease_s = lease_of_others_s(self._lease_s(), leased_count)
        if now_s + lease_s >= self._longest_until_s:
            self._longest_until_s = now_s + lease_s
        return max(lease_s, self._longest_until_s - now_s)

    def _latest_lease_end_s(self, at_epoch_s: float, leased_count: int) -> float:
        """Return the latest time at which any lease may end."""
        now_s = self._monotonic()
        lease_s = self._longest_lease_s(leased_count, now_s)
        if at_epoch_s < self._at_epoch_s:
            self._latest_before_s, self._until_s = self._latest_s, now_s + lease_s
        self._at_epoch_s, self._latest_s = at_epoch_s, at_epoch_s + lease_s + _LATE_S
        if now_s < self._until_s:
            self._latest_s = max(self._latest_s, self._latest_before_s)
        return self._latest_s

    def _stamped(self, job: QueuedJob, latest_s: float, before: Mapping[int, float]) -> QueuedJob:
        stamp, begin_s = parse_stamp(job.admin_comment), job.start_epoch_s
        waits = job.is_pending and job.reason in _BEFORE_BEGIN and not job.restart_count
        is_estimate = begin_s != job.eligible_epoch_s
        if stamp is None or begin_s is None or is_estimate or not waits:
            return job
        moved_s = begin_s if begin_s > latest_s else before.get(job.number)
        if moved_s is None or moved_s > begin_s or moved_s == stamp.begin_epoch_s:
            return job
        self._known[job.number] = moved_s
        return replace(job, admin_comment=str(replace(stamp, begin_epoch_s=int(moved_s))))


def _is_leased(job: QueuedJob) -> bool:
    return job.is_pending and parse_stamp(job.admin_comment) is not None


class EndedLeases:
    """The leases that users ended before their time, by `scontrol update StartTime=now`.

    Such a job is eligible while its lease should still hold it. It is not leased again: Slurm may
    start it, and roostd may still pin it.
    """

    def __init__(self) -> None:
        self._ends_s: dict[JobId, float] = {}  # of the leases renewed last
        self._renewed_s: dict[JobId, float] = {}  # when; of leases that no dump may have shown yet
        self._ended: frozenset[JobId] = frozenset()

    def without(
        self,
        job_ids: Iterable[JobId],
        jobs: Collection[QueuedJob],
        now_s: float,
        asked_s: float = inf,
    ) -> list[JobId]:
        """Return the jobs whose leases no user has ended.

        Args:
            job_ids: leased jobs.
            jobs: of a dump of the queue, as fresh as can be.
            now_s: seconds since the epoch.
            asked_s: when Slurm was asked for the dump, monotonic time: a lease renewed since is not
                in it, and the one before may have run out.
        """
        self._renewed_s = {one: at_s for one, at_s in self._renewed_s.items() if at_s >= asked_s}
        eligible = {
            job_id
            for job in jobs
            if job.is_pending and job.eligible_epoch_s is not None and job.eligible_epoch_s <= now_s
            for job_id in map(JobId, job.job_ids)
        }
        held_s = now_s + _LATE_S
        waiting = {job_id for job in jobs if job.is_pending for job_id in map(JobId, job.job_ids)}
        self._ends_s = {one: end_s for one, end_s in self._ends_s.items() if one in waiting}
        self._ended = frozenset(
            job_id
            for job_id in eligible
            if job_id in self._ended
            or (job_id not in self._renewed_s and self._ends_s.get(job_id, 0.0) > held_s)
        )
        return [job_id for job_id in job_ids if job_id not in self._ended]

    def seen(self, jobs: Iterable[QueuedJob], begins: Mapping[JobId, int], now_s: float) -> None:
        """Note until when the leases that jobs got at submission hold them.

        Args:
            jobs: of a dump of the queue.
            begins: the begin times that users asked for; these are no leases.
            now_s: seconds since the epoch.
        """
        for job in jobs:
            end_s = job.eligible_epoch_s
            if end_s is None or end_s <= now_s or not job.is_pending:
                continue
            if parse_stamp(job.admin_comment) is not None:
                for job_id in map(JobId, job.job_ids):
                    if job_id not in begins:
                        self._ends_s.setdefault(job_id, end_s)

    def renewed(self, job_ids: Collection[JobId], ends_s: float, at_s: float = -inf) -> None:
        """Note until when these leases hold their jobs, and since when: monotonic time."""
        self._ends_s |= dict.fromkeys(job_ids, ends_s)
        self._renewed_s |= dict.fromkeys(job_ids, at_s)


class DumpAge:
    """Whether an update of many jobs may go by the last dump of the queue.

    It needs one that shows each change that roostd knows of. A crowd's dumps are seconds apart, and
    while such an update waits for another dump, all pins wait. Where dumps may come more often, the
    update waits for another one.
    """

    def __init__(self) -> None:
        self._began_s = self._ended_s = self._changed_s = -inf

    @property
    def began_s(self) -> float:
        """When Slurm was asked for the last dump."""
        return self._began_s

    def note_dump(self, began_s: float, ended_s: float) -> None:
        """Note when Slurm was asked for a dump, and when it was read; monotonic times."""
        self._began_s, self._ended_s = began_s, ended_s

    def note_change(self, at_s: float) -> None:
        """Note that jobs were changed, in more than their leases."""
        self._changed_s = at_s

    def is_fresh(self, at_s: float) -> bool:
        """Return whether the last dump was read a moment ago and lacks no change."""
        return self._changed_s < self._began_s and at_s < self._ended_s + FRESH_S


class DetailCache:
    """The details of the jobs in the queue; read when a job is new or its request has changed.

    Attributes:
        known: (key, details) by record number; the details are read again when the key changes.

    Args:
        show_all: reads the details of these jobs by one list of all jobs; also returns how many
            jobs the list had, those that have ended a while ago too.
        show_one: reads one job's details; None when the job is gone, or its record is forged.
    """

    def __init__(
        self,
        show_all: Callable[[Collection[int]], Awaitable[tuple[int, dict[int, JobDetail]]]],
        show_one: Callable[[str], Awaitable[JobDetail | None]],
    ) -> None:
        self._show_all, self._show_one = show_all, show_one
        self.known: dict[int, tuple[object, JobDetail]] = {}
        self._unreadable: set[int] = set()  # records that could not be read one by one either
        self._limits_read_s = time.monotonic()
        self._listed_count = self._newest = 0  # jobs in a list now at most, and the latest number

    async def look_up(self, jobs: Sequence[QueuedJob]) -> None:
        """Read the details of jobs that are new or whose request has changed."""
        keys = {job.number: _detail_key(job) for job in jobs if job.is_pending or job.is_holding}
        self.known = {number: known for number, known in self.known.items() if number in keys}
        missing = [n for n, key in keys.items() if self.known.get(n, (None,))[0] != key]
        missing += self._aged_limits(jobs, missing)
        self._listed_count += sum(number > self._newest for number in keys)
        self._newest = max(keys, default=self._newest)
        found: dict[int, JobDetail] = {}
        if len(missing) > min(_BULK_COUNT, 1 + self._listed_count // _LISTED_COUNT_PER_CALL):
            self._listed_count, found = await self._show_all(frozenset(missing))
        # Where a forged record spoils the list of all jobs, the jobs that it imitates are read one
        # by one. The forged ones stay unreadable and come last: otherwise a dozen of them would use
        # up the single reads of every poll.
        unread = [number for number in missing if number not in found]
        singly = sorted(unread, key=lambda number: number in self._unreadable)[:_BULK_COUNT]
        await self._read_singly(singly, found)
        self._unreadable &= keys.keys() - found.keys()
        for number in missing:
            if number in found:
                self.known[number] = (keys[number], found[number])
            else:
                self.known.pop(number, None)

    def forget_limits(self) -> None:
        """Read the limits of waiting arrays again at the next poll."""
        self._limits_read_s = -inf

    def check_unedited(self, details: Iterable[JobDetail]) -> None:
        """Check that what jobs say of sharing GPUs is what the last dump had: squeue lacks it.

        Raises:
            SlurmRefused: a comment or a QoS has changed; the next dump has the new one, and until
                then the answer stays the same.
        """
        for detail in details:
            _, known = self.known.get(detail.number, (None, detail))
            if (known.comment, known.qos) != (detail.comment, detail.qos):
                self.known[detail.number] = None, known
                problem = f"the comment or the QoS of job {detail.number} has changed"
                raise SlurmRefused(commands.show_job(str(detail.number)), 0, problem)

    def check_unchanged(self, job_id: JobId, detail: JobDetail) -> None:
        """Check that a job's request is the one that the engine placed.

        squeue does not show every change: not of -x, --mem or the largest number of nodes.

        Raises:
            SlurmRefused: the user has changed the request; the next dump has the new one.
        """
        key, known = self.known.get(detail.number, (None, detail))
        if known.admin_comment == detail.admin_comment and asked(known) != asked(detail):
            self.known[detail.number] = key, detail
            raise SlurmRefused(commands.show_job(job_id), 0, "its user has changed what it asks")

    async def _read_singly(self, numbers: Sequence[int], found: dict[int, JobDetail]) -> None:
        """Add the details of jobs that are asked for one by one.

        Raises:
            SlurmError: Slurm refuses to show a job, for the first time. A job that it refuses again
                costs no other job anything: slurmctld has answered squeue before.
        """
        shown = (self._show_one(str(number)) for number in numbers)
        answers = await asyncio.gather(*shown, return_exceptions=True)
        first_fault: BaseException | None = None
        for number, answer in zip(numbers, answers, strict=True):
            if isinstance(answer, JobDetail):
                found[answer.number] = answer
            elif isinstance(answer, BaseException):
                is_known = isinstance(answer, SlurmRefused) and number in self._unreadable
                first_fault = first_fault or (None if is_known else answer)
        self._unreadable.update(numbers)
        if first_fault is not None:
            raise first_fault

    def _aged_limits(self, jobs: Sequence[QueuedJob], missing: Sequence[int]) -> list[int]:
        """Return the records of waiting arrays whose limits are due to be read again."""
        now_s = time.monotonic()
        if now_s - self._limits_read_s < _LIMIT_AGE_S:
            return []
        self._limits_read_s = now_s
        limited = {n for n, (_, detail) in self.known.items() if detail.task_limit is not None}
        aged = limited.difference(missing)
        return [job.number for job in jobs if job.is_pending and job.number in aged]


def with_whole_records(job_ids: Sequence[JobId], jobs: Iterable[QueuedJob]) -> list[JobId]:
    """Add the other tasks of each array's record of which one task is named.

    An update of a part of them would make each task of that part a record of its own in slurmctld.

    Args:
        job_ids: to be updated alike.
        jobs: of a dump of the queue, as fresh as can be.
    """
    found = dict.fromkeys(job_ids)
    for job in jobs:
        if job.is_pending and len(job.task_ids) > 1:
            tasks = job.job_ids
            if not found.keys().isdisjoint(tasks):
                found |= dict.fromkeys(map(JobId, tasks))
    return list(found)


def begins_of(jobs: Iterable[QueuedJob]) -> dict[JobId, int]:
    """Return the begin times that users asked for, seconds since the epoch."""
    stamps = ((job, parse_stamp(job.admin_comment)) for job in jobs)
    return {
        JobId(job_id): stamp.begin_epoch_s
        for job, stamp in stamps
        if stamp is not None and stamp.begin_epoch_s is not None
        for job_id in job.job_ids
    }


def comments_of(jobs: Iterable[QueuedJob], reasons: Mapping[JobId, str]) -> dict[str, list[JobId]]:
    """Return the admin comments to write, each with the leased jobs that get it.

    Args:
        jobs: of the last dump.
        reasons: the stated reason of each waiting job. Tasks that share an array's record get the
            reason of one of them.
    """
    groups: dict[str, list[JobId]] = {}
    for job in jobs:
        job_ids = list(map(JobId, job.job_ids))
        reason = next((reasons[job_id] for job_id in job_ids if job_id in reasons), None)
        if reason is None or not job.is_pending or parse_stamp(job.admin_comment) is None:
            continue  # most of thousands of jobs have no new reason
        comment = advice(job.admin_comment, reason)
        if comment != job.admin_comment:
            groups.setdefault(comment, []).extend(job_ids)
    return groups


def by_begin(
    job_ids: Iterable[JobId], begins: Mapping[JobId, int], now_s: float
) -> dict[int | None, list[JobId]]:
    """Group jobs by the begin time that their users asked for; None: none, or it has passed."""
    groups: dict[int | None, list[JobId]] = {}
    for job_id in job_ids:
        begin_s = begins.get(job_id)
        is_past = begin_s is None or begin_s <= now_s
        groups.setdefault(None if is_past else begin_s, []).append(job_id)
    return groups


def _detail_key(job: QueuedJob) -> object:
    """Return what a job's details depend on: not its priority, its reason or its running state."""
    return (
        job.submit_epoch_s,
        job.restart_count,
        job.is_holding,
        job.nodes,
        job.tres,
        job.node_count,
        job.required_nodes,
        job.admin_comment,
    )
