"""An array with a limit has so many tasks at once, those that hold GPUs counted."""

from tests.daemon.slurm.test_queue import detail, queued

from roost_slurm.text.squeue import SlurmJobState
from roostd.slurm.array_limits import ArrayLimits
from roostd.slurm.port import QueueSnapshot


def limits(task_limit: int | None, running_count: int) -> ArrayLimits:
    """The limits of array 7, of which one record waits."""
    running = [
        queued(100 + task, array_number=7, state=SlurmJobState.RUNNING, nodes="n1")
        for task in range(running_count)
    ]
    waiting = queued(7, array_number=7, state=SlurmJobState.PENDING)
    details = {7: detail(7, task_limit=task_limit)}
    snapshot = QueueSnapshot(
        at_epoch_s=0.0, jobs=(*running, waiting), details=details, malformed_count=0
    )
    return ArrayLimits(snapshot)


def test_tasks_start_up_to_the_limit() -> None:
    array = limits(task_limit=3, running_count=1)
    assert [array.take(7) for _ in range(3)] == [True, True, False]


def test_no_task_starts_where_more_run_than_a_lowered_limit_allows() -> None:
    assert not limits(task_limit=1, running_count=3).take(7)


def test_arrays_without_a_limit_and_single_jobs_are_not_counted() -> None:
    array = limits(task_limit=None, running_count=2)
    assert all(array.take(7) for _ in range(5))
    assert array.take(None)
