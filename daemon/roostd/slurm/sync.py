"""From two views of Slurm to the events in between. Pure: no clock, no I/O.

Slurm tells states, not changes, and may have gone through several between two looks: a job that
ended and whose id was given to another, a requeued one that runs again elsewhere.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from roost_engine.domain.events import (
    Event,
    JobChanged,
    JobEnded,
    JobQueued,
    JobStarted,
    JobWithdrawn,
    NodeLost,
    NodeSeen,
)
from roost_engine.domain.model import JobId, JobSpec, NodeName, NodeShare, NodeSpec
from roost_slurm.scontrol import JobDetail
from roost_slurm.squeue import QueuedJob, SlurmJobState
from roost_slurm.stamp import parse_stamp
from roostd.slurm.jobs import NO_GPUS, JobReader, LeftToSlurm
from roostd.slurm.limits import LONGEST_REASON
from roostd.slurm.port import QueueSnapshot, SlurmNode
from roostd.slurm.request import shares_of

Life: TypeAlias = tuple[int, float, int]  # record number, submission, restarts
Request: TypeAlias = tuple[JobSpec, float]


@dataclass(frozen=True, slots=True)
class QueueView:
    """The queue in the engine's terms.

    Attributes:
        waiting: jobs that Roost may place.
        running: what every other job holds on GPU nodes.
        blocked: waiting jobs that are Roost's, but held, depending or beyond their array's limit;
            the value says which. Their leases must be renewed too, or Slurm starts them by itself
            the moment they become free to go.
        left: pending jobs that are plain Slurm's, and why.
        lives: which life of a job each entry is: a number may be reused, a job requeued.
        numbers: Slurm's own number of each record that is a single job: tasks of an array have
            numbers of their own once they left the array's record.
        rests: engine time before which a requeued job must not start.
        requests: of every running job, what it asked for and since when it runs, engine time; None:
            it is not under Roost.
    """

    waiting: Mapping[JobId, JobSpec] = field(default_factory=dict)
    running: Mapping[JobId, tuple[NodeShare, ...]] = field(default_factory=dict)
    blocked: Mapping[JobId, str] = field(default_factory=dict)
    left: Mapping[JobId, str] = field(default_factory=dict)
    lives: Mapping[JobId, Life] = field(default_factory=dict)
    numbers: Mapping[int, JobId] = field(default_factory=dict)
    rests: Mapping[JobId, float] = field(default_factory=dict)
    requests: Mapping[JobId, Request | None] = field(default_factory=dict)


def view(
    snapshot: QueueSnapshot,
    reader: JobReader,
    gpu_nodes: Collection[NodeName],
    before: QueueView,
    at_s: float,
) -> QueueView:
    """Read a snapshot.

    Args:
        snapshot: of the queue.
        reader: turns records into JobSpecs.
        gpu_nodes: nodes that matter; what jobs hold elsewhere is not the engine's business.
        before: the view before this one.
        at_s: engine time.
    """
    reading = _Reading(snapshot, reader, frozenset(gpu_nodes), before, at_s)
    # Tasks that left their array's record come first: they may have been placed already.
    for job in sorted(snapshot.jobs, key=lambda job: (len(job.task_ids) > 1, job.number)):
        if job.is_holding:
            reading.add_running(job)
        elif job.is_pending:
            for job_id in map(JobId, job.job_ids):
                reading.add_pending(job, job_id)
    return reading.result()


def diff(before: QueueView, after: QueueView, at_s: float) -> tuple[Event, ...]:
    """Return what happened between two views, in an order that never books a GPU twice."""
    return (
        *_ends(before, after, at_s),
        *_withdrawals(before, after, at_s),
        *_starts(before, after, at_s),
        *_requests(before, after, at_s),
    )


def diff_nodes(
    before: Iterable[NodeSpec], after: Iterable[SlurmNode], at_s: float
) -> tuple[Event, ...]:
    """Return how Slurm's nodes changed."""
    known = {spec.name: spec for spec in before}
    seen = {node.spec.name: node.spec for node in after}
    lost = (NodeLost(at_s=at_s, name=name) for name in known if name not in seen)
    new = (NodeSeen(at_s=at_s, node=spec) for name, spec in seen.items() if known.get(name) != spec)
    return (*lost, *new)


def _ends(before: QueueView, after: QueueView, at_s: float) -> Iterator[Event]:
    for job_id in (*before.running, *before.waiting, *before.blocked):
        if _was_requeued(before, after, job_id):
            continue  # JobQueued says so, and the engine keeps what it knows of its runs
        is_same = before.lives[job_id] == after.lives.get(job_id)
        gave_back = job_id in before.running and job_id not in after.running
        if gave_back or not is_same:
            yield JobEnded(at_s=at_s, job_id=job_id)


def _was_requeued(before: QueueView, after: QueueView, job_id: JobId) -> bool:
    """Whether a job ran and now is Roost's again to place."""
    ran_and_waits = job_id in before.running and job_id in after.waiting
    return ran_and_waits and _came_back(before.lives[job_id], after.lives[job_id])


def _came_back(before: Life | None, after: Life) -> bool:
    # Slurm writes a new submission time when it requeues. A number that is used again starts at 0.
    return before is not None and before[0] == after[0] and before[2] < after[2]


def _withdrawals(before: QueueView, after: QueueView, at_s: float) -> Iterator[Event]:
    told = {**before.blocked, **before.left}
    for job_id, reason in {**after.blocked, **after.left}.items():
        if reason == NO_GPUS and job_id not in before.waiting:
            continue  # most jobs of most clusters; view.left has them
        is_same = before.lives.get(job_id) == after.lives[job_id]
        if not is_same or told.get(job_id) != reason:
            yield JobWithdrawn(at_s=at_s, job_id=job_id, reason=reason)


def _starts(before: QueueView, after: QueueView, at_s: float) -> Iterator[Event]:
    for job_id, shares in after.running.items():
        is_same = before.lives.get(job_id) == after.lives[job_id]
        if not is_same or before.running.get(job_id) != shares:
            unseen = after.requests.get(job_id) if job_id not in before.lives else None
            job, since_s = unseen or (None, None)
            yield JobStarted(at_s=at_s, job_id=job_id, shares=shares, job=job, since_s=since_s)


def _requests(before: QueueView, after: QueueView, at_s: float) -> Iterator[Event]:
    for job_id, spec in after.waiting.items():
        is_same = before.lives.get(job_id) == after.lives[job_id]
        if job_id not in before.waiting or not is_same:
            yield JobQueued(at_s=at_s, job=spec)
        elif before.waiting[job_id] != spec:
            yield JobChanged(at_s=at_s, job=spec)


class _Reading:
    """A view in the making."""

    def __init__(
        self,
        snapshot: QueueSnapshot,
        reader: JobReader,
        gpu_nodes: frozenset[NodeName],
        before: QueueView,
        at_s: float,
    ) -> None:
        self._details, self._reader, self._gpu_nodes = snapshot.details, reader, gpu_nodes
        self._before, self._at_s = before, at_s
        self._room = _array_room(snapshot)
        self._waiting: dict[JobId, JobSpec] = {}
        self._running: dict[JobId, tuple[NodeShare, ...]] = {}
        self._blocked: dict[JobId, str] = {}
        self._left: dict[JobId, str] = {}
        self._lives: dict[JobId, Life] = {}
        self._numbers: dict[int, JobId] = {}
        self._rests: dict[JobId, float] = {}
        self._requests: dict[JobId, Request | None] = {}

    def result(self) -> QueueView:
        """The view."""
        return QueueView(
            waiting=self._waiting,
            running=self._running,
            blocked=self._blocked,
            left=self._left,
            lives=self._lives,
            numbers=self._numbers,
            rests=self._rests,
            requests=self._requests,
        )

    def add_running(self, job: QueuedJob) -> None:
        """Take in a job that holds something."""
        job_id, life = JobId(job.job_ids[0]), self._life_of_holder(job)
        detail = self._details.get(job.number)
        shares = tuple(
            share
            for share in (shares_of(detail) if detail is not None else ())
            if share.node in self._gpu_nodes
        )
        if not shares and self._before.lives.get(job_id) == life:
            shares = self._before.running.get(job_id, ())  # not known at this moment
        if shares:
            self._running[job_id] = shares
            self._lives[job_id] = life
            self._requests[job_id] = self._request(job, job_id, detail)
        self._numbers[job.number] = job_id

    def _request(self, job: QueuedJob, job_id: JobId, detail: JobDetail | None) -> Request | None:
        """What a running job asked for; read once, for no look has the time to read them all."""
        is_same = self._before.lives.get(job_id) == self._lives[job_id]
        if is_same and job_id in self._before.requests:
            return self._before.requests[job_id]
        if job.start_epoch_s is None or parse_stamp(job.admin_comment) is None:
            return None
        asked = self._before.waiting.get(job_id) if is_same else None
        spec = asked or self._reader.read(job, detail, job_id)
        if isinstance(spec, LeftToSlurm):
            return None
        return spec, self._reader.to_engine_s(job.start_epoch_s)

    def _life_of_holder(self, job: QueuedJob) -> Life:
        """Which life a holding job is in: while a requeued one is cleared away, its former one.

        Slurm counts the restart the moment that the requeue is asked for.
        """
        life, known = _life(job), self._before.lives.get(JobId(job.job_ids[0]))
        is_leaving = job.state is SlurmJobState.COMPLETING and _came_back(known, life)
        return known if is_leaving and known is not None else life

    def add_pending(self, job: QueuedJob, job_id: JobId) -> None:
        """Take in a job that waits."""
        self._lives[job_id] = _life(job)
        if len(job.job_ids) == 1:
            self._numbers[job.number] = job_id
        spec = self._reader.read(job, self._details.get(job.number), job_id)
        if isinstance(spec, LeftToSlurm):
            self._left[job_id] = spec.reason
            return
        why_blocked = self._why_blocked(job)
        if why_blocked is not None:
            self._blocked[job_id] = why_blocked
            return
        rest_s = self._rest_s(job, job_id)
        if rest_s is not None:
            self._rests[job_id] = rest_s
            spec = replace(spec, eligible_s=max(spec.eligible_s, rest_s))
        self._waiting[job_id] = self._steady(spec, job)

    def _why_blocked(self, job: QueuedJob) -> str | None:
        if job.priority == 0:
            return "is held"
        if job.dependency:
            return f"depends on {job.dependency}"[:LONGEST_REASON]
        if job.array_number in self._room:
            if self._room[job.array_number] <= 0:
                return "its array has as many tasks running as it may"
            self._room[job.array_number] -= 1
        return None

    def _rest_s(self, job: QueuedJob, job_id: JobId) -> float | None:
        """When a requeued job may start again; stays told for as long as it waits.

        One that a daemon finds waiting at its start may have been stopped the moment before.
        """
        if job_id in self._before.rests:
            return self._before.rests[job_id]
        is_news = bool(job.restart_count) and job_id not in self._before.lives
        if not is_news and job_id not in self._before.running:
            return None
        return self._at_s + self._reader.traits.requeue_pause_s

    def _steady(self, spec: JobSpec, job: QueuedJob) -> JobSpec:
        """Keep the priority of a pinned job: it ages, but nothing hangs on it any more."""
        before, stamp = self._before.waiting.get(spec.job_id), parse_stamp(job.admin_comment)
        if before is not None and stamp is not None and stamp.was:
            return replace(spec, priority=before.priority)
        return spec


def _array_room(snapshot: QueueSnapshot) -> dict[int | None, int]:
    """How many more tasks may start, of each array that has a limit."""
    room: dict[int | None, int] = {}
    holding: defaultdict[int | None, int] = defaultdict(int)
    for job in snapshot.jobs:
        detail = snapshot.details.get(job.number)
        holding[job.array_number] += job.is_holding
        if not job.is_pending or job.array_number is None or detail is None:
            continue  # what is known of a running task is from its start; the limit may be newer
        if detail.task_limit is not None:
            room[job.array_number] = detail.task_limit
    return {array: limit - holding[array] for array, limit in room.items()}


def _life(job: QueuedJob) -> Life:
    # A task that leaves its array's record gets a number of its own and stays the same task.
    number = job.number if job.array_number is None else job.array_number
    return number, job.submit_epoch_s, job.restart_count
