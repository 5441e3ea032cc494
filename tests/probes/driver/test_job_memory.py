"""Processes belong to the job that Slurm put them in, whatever they or their users say."""

import os
from pathlib import Path

import pytest

from roost_probe.driver.job_memory import MOST_PROCESSES, NO_JOB, by_job, job_of

V2 = "0::/system.slice/slurmstepd.scope/job_{0}/step_0/user/task_0\n"


@pytest.mark.parametrize(
    ("cgroups", "job"),
    [
        (V2.format(12), 12),
        ("0::/system.slice/n1_slurmstepd.scope/job_12/step_extern/user/task_special\n", 12),
        ("0::/system.slice/slurmstepd.scope/job_12\n", 12),
        ("0::/docker/0a1b/system.slice/slurmstepd.scope/job_12/step_0/user/task_0\n", 12),
        ("9:devices:/slurm/uid_1000/job_12/step_0/task_0\n1:name=systemd:/x.service\n", 12),
        ("1:name=systemd:/x.service\n9:memory:/slurm_n1/uid_0/job_12/step_batch/task_0\n", 12),
        # A job may make folders below its own ...
        (V2.format(12).strip() + "/system.slice/slurmstepd.scope/job_13/step_0\n", 12),
        ("9:devices:/slurm/uid_1000/job_12/step_0/slurm/uid_0/job_13\n", 12),
        # ... and a user below the session's.
        (
            "0::/user.slice/user-1000.slice/user@1000.service/system.slice/slurmstepd.scope/job_9\n",
            NO_JOB,
        ),
        ("0::/system.slice/slurmd.service\n", NO_JOB),
        ("0::/system.slice/slurmstepd.scope/system\n", NO_JOB),
        ("0::/system.slice/slurmstepd.scope/job_12a/step_0\n", NO_JOB),
        ("0::/system.slice/docker-1.scope/job_12\n", NO_JOB),
        ("0::/system.slice/slurmstepd.scope/job_99999999999\n", NO_JOB),
        ("", NO_JOB),
    ],
)
def test_the_job_is_the_first_one_in_a_path_that_slurm_made(cgroups: str, job: int) -> None:
    assert job_of(cgroups) == job


def process(proc: Path, pid: int, cgroups: str, started_s: float = 10.0) -> None:
    folder = proc / str(pid)
    folder.mkdir()
    (folder / "cgroup").write_text(cgroups)
    name = "a) b (c"  # any that a user gives it
    fields = ["S", *["0"] * 18, str(int(started_s * 100)), "0"]
    (folder / "stat").write_text(f"{pid} ({name}) {' '.join(fields)}\n")


def test_sums_by_job_and_keeps_processes_of_no_job_apart(tmp_path: Path) -> None:
    process(tmp_path, 1, "0::/system.slice/nvidia-cuda-mps.service\n")
    process(tmp_path, 2, V2.format(12))
    process(tmp_path, 3, V2.format(12))
    process(tmp_path, 4, V2.format(13))

    found = by_job({1: 5, 2: 100, 3: 10, 4: 7}, 20.0, tmp_path)

    me = os.getuid()
    assert found == ((NO_JOB, 5, me), (12, 110, me), (13, 7, me))
    assert by_job({}, 20.0, tmp_path) == ()


def test_the_user_is_that_of_the_process_that_uses_most(tmp_path: Path) -> None:
    if os.getuid():
        pytest.skip("only root may give files away")
    for pid, user_id in enumerate((1001, 1002, 1003), 1):
        process(tmp_path, pid, V2.format(12))
        os.chown(tmp_path / str(pid), user_id, 0)

    assert by_job({1: 7, 2: 9, 3: 8}, 20.0, tmp_path) == ((12, 24, 1002),)


@pytest.mark.parametrize(
    "used_bytes",
    [
        pytest.param({2: None}, id="the driver does not say how much"),
        pytest.param({3: 1}, id="ended, or hidden"),
        pytest.param({4: 1}, id="another process has its number"),
        pytest.param({5: 1}, id="no stat"),
        pytest.param(dict.fromkeys(range(10, 11 + MOST_PROCESSES), 1), id="too many"),
    ],
)
def test_what_is_not_known_of_one_process_is_not_known_of_the_gpu(
    used_bytes: dict[int, int | None], tmp_path: Path
) -> None:
    process(tmp_path, 1, V2.format(12))
    process(tmp_path, 2, V2.format(12))
    process(tmp_path, 4, V2.format(12), started_s=20.01)
    process(tmp_path, 5, V2.format(12))
    (tmp_path / "5" / "stat").write_text("5 (x")

    assert by_job({1: 5, **used_bytes}, 20.0, tmp_path) is None
