"""Short jobs of one GPU start as under plain Slurm while no other job waits.

Roost needs some tenths of a second from the end of a job to the start of the next one, mostly for
Slurm's commands: a third of the throughput where jobs run for a second. A job of one GPU has no
links, and what it takes from another job is over in seconds. So jobs of a kind whose last runs were
all short are opened, while only such jobs wait: Slurm may start them. They keep the stamp of their
lease, and get a lease again as soon as another job waits, or one of their kind runs longer.

A requeued job is never opened: until its old credential has expired, two minutes after its end, a
start on its old node may fail there, which drains the node; see OldCredentials.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from roost_engine.domain.actions import Action
from roost_engine.domain.events import Event, JobEnded, JobQueued, JobStarted
from roost_engine.domain.model import JobId, JobSpec
from roost_slurm.text.squeue import QueuedJob
from roost_slurm.text.stamp import parse_stamp
from roostd.slurm.port import QueueSnapshot
from roostd.slurm.queue_reading import ARRAY_IS_FULL, OPENED, has_one_gpu
from roostd.slurm.queue_view import SlurmQueueView
from roostd.slurm.rules.held_back import is_pinned_comment
from roostd.state import DaemonState

_RUN_COUNT = 8  # runs of a kind that must have been short, all of them
_KIND_COUNT = 2_000  # that are remembered
_LAST_COUNT = 50_000  # arrays and jobs whose kind is remembered
_CALM_S = 1.0  # without other jobs before jobs are opened again: each change is an update of all
_RETRY_S = 2.0  # between two looks for opened jobs that have a lease all the same
Kind: TypeAlias = tuple[int, str, str]  # user, job name, partition: finer than job_kind.kind_of
Update: TypeAlias = Callable[[Sequence[JobId]], None]


def _no_update(_job_ids: Sequence[JobId]) -> None:
    pass


@dataclass(slots=True)
class _Runs:
    """The last runs of a kind in seconds, and when those that run now were seen to start."""

    last_s: deque[float] = field(default_factory=lambda: deque(maxlen=_RUN_COUNT))
    since_s: dict[JobId, float] = field(default_factory=dict)


class ShortRuns:
    """Observes the engine's steps, and reviews each poll.

    Args:
        state: of the daemon.
        open_jobs: lets Slurm start these leased jobs.
        close_jobs: leases these again.

    Attributes:
        opened: the jobs that Slurm may start: the numbers of their arrays, or their own.
    """

    def __init__(
        self, state: DaemonState, open_jobs: Update = _no_update, close_jobs: Update = _no_update
    ) -> None:
        self._state, self._open, self._close = state, open_jobs, close_jobs
        self.opened: frozenset[int] = frozenset()
        self._ever_opened: set[int] = set()  # those that were opened and are in the queue still
        self._runs: dict[Kind, _Runs] = {}
        self._kinds: dict[int, Kind] = {}  # of the arrays and jobs in the queue that may be opened
        self._calm_from_s = self._retry_s = 0.0  # engine time

    def is_opened(self, job_id: str) -> bool:
        """Return whether a job or a task was opened, and others like it still are."""
        return bool(self.opened) and _number(JobId(job_id)) in self._ever_opened

    def observe(self, event: Event, actions: Sequence[Action]) -> None:
        """Learn how long jobs run; see loop.StepObserver."""
        match event:
            case JobStarted():
                if (runs := self._runs_of(event.job_id)) is not None:
                    runs.since_s.setdefault(event.job_id, event.at_s)
            case JobQueued():
                self._note_kind(event.job)
                # Again, where it ran: that run says nothing of the next one.
                if (runs := self._runs_of(event.job.job_id)) is not None:
                    runs.since_s.pop(event.job.job_id, None)
            case JobEnded():
                self._note_end(event)
            case _:
                pass

    def _note_kind(self, spec: JobSpec) -> None:
        if spec.binding and has_one_gpu(spec):
            self._kinds[_number(spec.job_id)] = spec.user_id, spec.name, spec.partition

    def _runs_of(self, job_id: JobId) -> _Runs | None:
        kind = self._kinds.get(_number(job_id))
        return None if kind is None else self._runs.setdefault(kind, _Runs())

    def _note_end(self, event: JobEnded) -> None:
        runs = self._runs_of(event.job_id)
        seen_s = None if runs is None else runs.since_s.pop(event.job_id, None)
        if runs is None or seen_s is None:
            return
        reported = self._state.reported_runs.get(event.job_id)
        began_s = None if reported is None else reported.started_s
        ended_s = None if reported is None else reported.ended_s
        runs.last_s.append((ended_s or event.at_s) - (began_s or seen_s))

    def review(self, snapshot: QueueSnapshot, view: SlurmQueueView) -> bool:
        """Open and close jobs by a poll; return whether anything has changed.

        Args:
            snapshot: of the queue.
            view: of the same poll.
        """
        jobs = snapshot.jobs
        now_s, before = self._state.clock.now_s(), self.opened
        found = self._openable(jobs, view, now_s) if self._may_open() else set[int]()
        if found is None:
            self._calm_from_s = now_s + _CALM_S
        self.opened = frozenset() if now_s < self._calm_from_s else frozenset(found or ())
        self._forget(jobs)
        known = before
        if now_s >= self._retry_s:
            self._retry_s = now_s + _RETRY_S
            if before:  # where Slurm did not answer, or a lease was renewed in that moment
                leased = (job for job in jobs if _is_leased(job, snapshot.at_epoch_s))
                known = before.difference(job.submission_number for job in leased)
        own = [job for job in jobs if _is_own(job, view)]
        _update(self._open, own, self.opened - known)
        _update(self._close, own, before - self.opened)
        return self.opened != before

    def _may_open(self) -> bool:
        """Whether Slurm's own choice of a GPU does no harm on this cluster."""
        state, cluster = self._state, self._state.engine.cluster
        if not state.config.slurm.short_run_s or state.partly_given_out():
            return False
        return cluster.seats is None and not cluster.foreign.used_bytes

    def _openable(
        self, jobs: Iterable[QueuedJob], view: SlurmQueueView, now_s: float
    ) -> set[int] | None:
        """Return the arrays and jobs that may be opened; None: another job waits."""
        found = set[int]()
        for job in jobs:
            if not job.is_pending:
                continue
            number, first = job.submission_number, JobId(job.first_id)
            spec = view.waiting.get(first)
            if spec is None:
                reason = view.blocked.get(first) or view.unmanaged.get(first)
                if reason == ARRAY_IS_FULL and number in self.opened and _is_edited(job, view):
                    self._kinds.pop(number, None)
                if reason in (ARRAY_IS_FULL, OPENED) and self._runs_short(number, now_s):
                    found.add(number)
            elif spec.binding:
                if not has_one_gpu(spec) or job.restart_count or first in view.forgotten_on:
                    return None
                self._note_kind(spec)
                if not self._runs_short(number, now_s):
                    return None
                found.add(number)
        return found

    def _runs_short(self, number: int, now_s: float) -> bool:
        kind, longest_s = self._kinds.get(number), self._state.config.slurm.short_run_s
        runs = None if kind is None else self._runs.get(kind)
        if runs is None or len(runs.last_s) < _RUN_COUNT or max(runs.last_s) > longest_s:
            return False
        return all(now_s - since_s <= longest_s for since_s in runs.since_s.values())

    def _forget(self, jobs: Iterable[QueuedJob]) -> None:
        """Forget the jobs that have left the queue, and the kinds that came first."""
        self._ever_opened |= self.opened
        if self._ever_opened:
            self._ever_opened &= {job.submission_number for job in jobs}
        while len(self._kinds) > _LAST_COUNT:  # the ends of some that have left are yet to come
            del self._kinds[next(iter(self._kinds))]
        while len(self._runs) > _KIND_COUNT:
            del self._runs[next(iter(self._runs))]


def _update(update: Update, jobs: Iterable[QueuedJob], numbers: frozenset[int]) -> None:
    if not numbers:
        return
    pending = (job for job in jobs if job.is_pending and not job.restart_count)
    chosen = (job for job in pending if job.submission_number in numbers)
    if job_ids := [JobId(job_id) for job in chosen for job_id in job.job_ids]:
        update(job_ids)


def _is_edited(job: QueuedJob, view: SlurmQueueView) -> bool:
    """Whether only its user can be the reason why an opened job no longer counts as one."""
    is_on_its_way = job.restart_count or is_pinned_comment(job.admin_comment)
    return not is_on_its_way and JobId(job.first_id) not in view.forgotten_on


def _is_own(job: QueuedJob, view: SlurmQueueView) -> bool:
    """Whether a job is Roost's to lease: its user, or a reload, may have changed that."""
    first = JobId(job.first_id)
    spec = view.waiting.get(first)
    if spec is not None:
        return spec.binding
    return view.unmanaged.get(first, OPENED) == OPENED


def _is_leased(job: QueuedJob, at_epoch_s: float) -> bool:
    """Whether a lease, and not its user, keeps a job from starting for a while yet."""
    if not job.is_pending or (job.eligible_epoch_s or 0.0) < at_epoch_s + _RETRY_S:
        return False
    stamp = parse_stamp(job.admin_comment)
    return stamp is not None and stamp.begin_epoch_s is None


def _number(job_id: JobId) -> int:
    text = job_id.partition("_")[0]
    return int(text) if text.isdecimal() else -1  # what a reservation holds counts as a job
