"""The changes in Slurm that polls are scheduled for: polls that nothing needs any more are dropped.

The spool names a change before the queue shows it, and how long that takes depends on slurmctld's
other work. So several polls follow, and those after the one that shows it are needless. Where the
controller's hooks report no ends, polls after a pin find those of short jobs too, and all are made.
"""

import time
from collections.abc import Callable, Iterable

from roost_engine.domain.model import JobId
from roost_slurm.hooks.spool import Changed, Ended, SpoolEvent, Started, Submitted
from roost_slurm.text.squeue import QueuedJob
from roost_slurm.text.stamp import parse_stamp
from roostd.app.polls.poll_schedule import Cause, PollSchedule
from roostd.slurm.queue_view import SlurmQueueView

_POLLS_AFTER_PIN_S = (0.1, 0.4, 1.0, 2.5, 5.0)
_POLLS_AFTER_CHANGE_S = (0.0, 0.5)
_POLLS_AFTER_EDIT_S = (0.05, 0.5)
_POLL_OF_OPENED_S = 1.0
_START, _END = "start", "end"
_SUBMISSION: Cause = ("submission", "")
_EDIT: Cause = ("edit", "")
_OPENED: Cause = ("opened", "")


class AwaitedChanges:
    """Schedules polls for changes, and drops those for changes that were seen.

    Args:
        schedule: of the polls.
        on_edit: called when a user changes leased jobs, before the poll.
        is_opened: whether Slurm starts a job by itself, one after the other; see short_runs.
    """

    def __init__(
        self,
        schedule: PollSchedule,
        on_edit: Callable[[], None] = lambda: None,
        is_opened: Callable[[str], bool] = lambda job_id: False,
    ) -> None:
        self._schedule, self._on_edit, self._is_opened = schedule, on_edit, is_opened
        self._unseen_count = 0  # submissions
        self._newest_job = 0
        self._has_hooks = False
        self._since_s: dict[Cause, float] = {}  # when polls were scheduled for it, monotonic

    def await_start(self, job_id: JobId | None) -> None:
        """Poll soon: Slurm was asked to start a job; None: to do anything else."""
        if job_id is None:
            self._schedule.add(_POLLS_AFTER_PIN_S)
        else:
            self._await(_POLLS_AFTER_PIN_S, (_START, job_id))

    def note(self, events: Iterable[SpoolEvent]) -> None:
        """Poll soon for what the spool reports."""
        submitted_count, has_edits = 0, False
        for event in events:
            match event:
                case Started(job_id) | Ended(job_id) if self._is_opened(job_id):
                    self._has_hooks = True
                    if not self._schedule.awaits(_OPENED):  # nothing waits for what it frees
                        self._schedule.add((_POLL_OF_OPENED_S,), _OPENED)
                case Submitted():
                    submitted_count += 1
                case Changed():
                    has_edits = True
                case Started(job_id):
                    self._has_hooks = True
                    self._await(_POLLS_AFTER_CHANGE_S, (_START, job_id))
                case Ended(job_id):
                    self._has_hooks = True
                    self._await(_POLLS_AFTER_CHANGE_S, (_END, job_id))
        if has_edits and not self._schedule.awaits(_EDIT):  # a user may make a thousand a second
            self._on_edit()
            self._schedule.add(_POLLS_AFTER_EDIT_S, _EDIT)
        if submitted_count:
            if not self._schedule.awaits(_SUBMISSION):
                self._unseen_count = 0  # Slurm refused the others, or was slow
            self._unseen_count += submitted_count
            self._schedule.add_submissions(submitted_count, _SUBMISSION)

    def see(self, jobs: Iterable[QueuedJob], view: SlurmQueueView, asked_s: float) -> None:
        """Drop the polls for changes that a dump of the queue shows.

        Args:
            jobs: of the dump.
            view: of the dump.
            asked_s: before Slurm was asked for it: what was reported since may be missing.
        """
        new = [job for job in jobs if job.number > self._newest_job]
        self._newest_job = max((job.number for job in new), default=self._newest_job)
        self._unseen_count = max(0, self._unseen_count - sum(map(_is_submission, new)))
        if not self._unseen_count:
            self._schedule.drop(_SUBMISSION)
        seen = [
            cause
            for cause, since_s in self._since_s.items()
            if since_s < asked_s and _shows(view, *cause)
        ]
        for cause in seen:
            del self._since_s[cause]
            if self._has_hooks:
                self._schedule.drop(cause)

    def _await(self, delays_s: tuple[float, ...], cause: Cause) -> None:
        self._schedule.add(delays_s, cause)
        self._since_s[cause] = time.monotonic()


def _is_submission(job: QueuedJob) -> bool:
    """Whether a record that is new in the queue was announced in the spool.

    A task that leaves its array's record is new too.
    """
    is_task = job.array_number not in (None, job.number)
    return parse_stamp(job.admin_comment) is not None and not is_task


def _shows(view: SlurmQueueView, kind: str, name: str) -> bool:
    """Whether a job has started or is gone, or has freed its GPUs.

    Args:
        view: of the queue.
        kind: of the cause.
        name: the job's id, or the number of its record.
    """
    job_id = view.numbers.get(int(name), JobId(name)) if name.isdecimal() else JobId(name)
    if kind == _END:
        return job_id not in view.running
    return not any(job_id in jobs for jobs in (view.waiting, view.blocked, view.unmanaged))
