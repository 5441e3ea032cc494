"""Polls for a change end once the queue shows it, and not before."""

import time
from collections.abc import Iterable

import pytest

from roost_engine.domain.model import JobId, NodeName, NodeShare
from roost_slurm.hooks.spool import Changed, Ended, Started, Submitted
from roost_slurm.text.squeue import QueuedJob
from roostd.app.polls.awaited_changes import AwaitedChanges
from roostd.app.polls.poll_schedule import PollSchedule
from roostd.slurm.queue_view import SlurmQueueView

SHARES = (NodeShare(NodeName("n1"), (0,)),)
SUBMITTED = Submitted(1, "main")


class Watch:
    """A schedule on which no poll is ever run."""

    def __init__(self) -> None:
        self.schedule = PollSchedule()
        self.edit_count = 0
        self.changes = AwaitedChanges(
            self.schedule, self._count_edit, lambda job_id: job_id.startswith("77_")
        )

    def _count_edit(self) -> None:
        self.edit_count += 1

    @property
    def poll_count(self) -> int:
        return len(self.schedule._polls_due)

    def see(
        self,
        *jobs: QueuedJob,
        waiting: Iterable[str] = (),
        running: Iterable[str] = (),
        asked_s: float | None = None,
    ) -> int:
        """Show the queue of now or of an earlier time; return how many polls are left."""
        view = SlurmQueueView(
            unmanaged={JobId(name): "" for name in waiting},
            running={JobId(name): SHARES for name in running},
            numbers={12: JobId("10_3")},
        )
        self.changes.see(jobs, view, time.monotonic() if asked_s is None else asked_s)
        return self.poll_count


@pytest.fixture
def watch() -> Watch:
    return Watch()


def leased(number: int, array_number: int | None = None) -> QueuedJob:
    return QueuedJob(number=number, array_number=array_number, admin_comment="roost:lease")


def test_a_submission_is_polled_for_until_its_job_is_in_the_queue(watch: Watch) -> None:
    watch.see(leased(1))
    watch.changes.note([SUBMITTED])
    assert watch.see(leased(1), QueuedJob(number=2)) > 0  # 2 was not announced: it has no lease
    assert watch.see(leased(1), leased(3)) == 0


def test_each_of_several_submissions_is_polled_for(watch: Watch) -> None:
    watch.changes.note([SUBMITTED, SUBMITTED])
    assert watch.see(leased(1)) > 0
    assert watch.see(leased(1), leased(2)) == 0


def test_a_submission_that_slurm_refused_is_forgotten_with_its_polls(watch: Watch) -> None:
    watch.changes.note([SUBMITTED])
    watch.schedule.drop(("submission", ""))  # all were made
    watch.changes.note([SUBMITTED])
    assert watch.see(leased(1)) == 0


def test_a_task_that_leaves_its_array_is_no_submission(watch: Watch) -> None:
    watch.see(leased(1, array_number=1))
    watch.changes.note([SUBMITTED])
    assert watch.see(leased(1, array_number=1), leased(2, array_number=1)) > 0
    assert watch.see(leased(3, array_number=3)) == 0


@pytest.mark.parametrize("job_id", ["7", "10_3"])
def test_a_pinned_job_is_polled_for_until_it_has_started_or_is_gone(
    watch: Watch, job_id: str
) -> None:
    watch.changes.note([Ended("1")])
    assert watch.see() == 0
    for running in ([job_id], []):
        watch.changes.await_start(JobId(job_id))
        assert watch.see(waiting=[job_id]) > 0
        assert watch.see(running=running) == 0


def test_without_hooks_polls_after_a_pin_find_the_end_of_a_short_job(watch: Watch) -> None:
    watch.changes.await_start(JobId("7"))
    count = watch.poll_count
    assert watch.see(running=["7"]) == count > 0


def test_the_line_of_a_start_has_the_number_of_a_task(watch: Watch) -> None:
    watch.changes.note([Started("12")])
    assert watch.see(waiting=["10_3"]) > 0
    assert watch.see(running=["10_3"]) == 0


def test_an_end_is_polled_for_until_the_job_holds_nothing(watch: Watch) -> None:
    watch.changes.note([Ended("7")])
    assert watch.see(running=["7"]) > 0
    assert watch.see(waiting=["7"]) == 0  # it was requeued


def test_a_queue_that_was_asked_for_earlier_shows_nothing(watch: Watch) -> None:
    before_s = time.monotonic()
    watch.changes.note([Started("7")])
    assert watch.see(asked_s=before_s) > 0
    assert watch.see() == 0


def test_polls_for_what_is_no_start_are_all_made(watch: Watch) -> None:
    watch.changes.await_start(None)
    count = watch.poll_count
    assert watch.see() == count > 0


def test_a_thousand_changes_by_hand_take_the_polls_of_one(watch: Watch) -> None:
    watch.changes.note([Changed()])
    poll_count = watch.poll_count
    assert poll_count > 0
    for _ in range(500):
        watch.changes.note([Changed(), Changed()])
    assert (watch.poll_count, watch.edit_count) == (poll_count, 1)
    watch.schedule.drop(("edit", ""))
    watch.changes.note([Changed()])
    assert (watch.poll_count, watch.edit_count) == (poll_count, 2)


def test_starts_and_ends_of_jobs_that_slurm_starts_by_itself_share_a_poll(watch: Watch) -> None:
    watch.changes.note([Ended("77_1"), Started("77_2"), Ended("77_3")])
    assert watch.poll_count == 1
    watch.changes.note([Ended("77_2")])
    assert watch.poll_count == 1
    watch.changes.note([Ended("12")])
    assert watch.poll_count == 3
