import pytest

from roost_slurm.text.stamp import parse_stamp
from roostd.testing.slurm_stand_in_submission import jobs_of


def test_an_array_is_one_job_for_each_task_with_numbers_in_order() -> None:
    tasks = list(jobs_of({"gpus": 1, "array": (0, 3)}, 7, 1000.0, "gres:", 60))
    assert [(task.number, task.job_id, task.array_number) for task in tasks] == [
        (7, "7_0", 7),
        (8, "7_3", 7),
    ]


@pytest.mark.parametrize(
    ("begin_s", "lease_s", "begins_s", "stamped"),
    [
        (None, 60, 1060.0, None),
        (1030.0, 60, 1060.0, 1030),
        (5000.0, 60, 5000.0, 5000),
    ],
)
def test_a_lease_is_never_shorter_than_the_users_begin(
    begin_s: float | None, lease_s: int, begins_s: float, stamped: int | None
) -> None:
    (job,) = jobs_of({"gpus": 1, "begin_epoch_s": begin_s}, 7, 1000.0, "gres:", lease_s)
    stamp = parse_stamp(job.admin_comment)
    assert stamp is not None
    assert (job.begin_epoch_s, stamp.begin_epoch_s) == (begins_s, stamped)


@pytest.mark.parametrize("lease_s", [60, None])
def test_jobs_without_gpus_get_no_lease(lease_s: int | None) -> None:
    (job,) = jobs_of({}, 7, 1000.0, "gres:", lease_s)
    assert (job.begin_epoch_s, job.admin_comment, job.tres) == (1000.0, "", {})


def test_requests_are_spelled_as_the_release_does() -> None:
    (job,) = jobs_of({"gpus_per_task": 2, "tasks": 3}, 7, 1000.0, "gres/", None)
    assert (job.tres, job.task_count) == ({"TresPerTask": "gres/gpu:2"}, 3)
