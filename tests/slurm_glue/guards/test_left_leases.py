"""Leases of a roostd that was stopped: which jobs are released, and until when they wait on."""

import subprocess
from pathlib import Path

import pytest
from tests.slurm_glue.guards.test_orphaned_pins import FakeSlurm, beat, line

from roost_slurm.guards.left_leases import LONGEST_GROWN_LEASE_S, RoostdRuns, end_leases
from roost_slurm.text.commands import Argv
from roostd.slurm import lease_plan

NOW_S = 1_800_000_000.0  # 2027-01-15T08:00:00
SOON, IN_A_WEEK = "2027-01-15T08:00:50", "2027-01-22T08:00:00"
RELEASED = "AdminComment=roost:let-go"


class Answering(FakeSlurm):
    """Answers a person's command, which may take longer than a hook's."""

    def __call__(self, argv: Argv, timeout_s: float) -> str:
        return super().__call__(argv, min(timeout_s, 5.0))


def leased(number: int, comment: str = "roost:lease", *, until: str = SOON, **fields: str) -> str:
    request = {"tres_per_job": "N/A", "tres_per_node": "gres/gpu:2", "ReqNodes": ""}
    shown = request | {"admin_comment": comment, "StartTime": until, "Reason": "BeginTime"} | fields
    return line(number, eligible=until, **shown)


def ended(folder: Path, slurm: FakeSlurm) -> list[str]:
    return list(end_leases(folder, slurm, wall_clock=lambda: NOW_S))


def test_leased_jobs_start_now_in_one_call(tmp_path: Path) -> None:
    slurm = Answering(leased(1), leased(2, "roost:lease roost:advice waits for 2 GPUs, until 9:00"))
    assert ended(tmp_path, slurm) == ["1", "2"]
    assert slurm.updates == [("jobid=1,2", "StartTime=now", RELEASED)]


def test_a_job_keeps_the_begin_time_that_its_user_asked_for(tmp_path: Path) -> None:
    begin_s = int(NOW_S) + 7 * 86_400
    slurm = Answering(
        leased(1, f"roost:lease begin={begin_s}", until=IN_A_WEEK),
        leased(2, f"roost:lease begin={int(NOW_S) + 30}"),  # within its lease
        leased(3, f"roost:lease begin={int(NOW_S) - 1}"),  # it has come
        leased(4, until=IN_A_WEEK),  # moved by its user after the submission: no lease is so long
        leased(5),
    )
    assert set(ended(tmp_path, slurm)) == {"1", "2", "3", "4", "5"}
    assert set(slurm.updates) == {
        ("jobid=1,4", "StartTime=2027-01-22T08:00:00", RELEASED),
        ("jobid=2", "StartTime=2027-01-15T08:00:30", RELEASED),
        ("jobid=3,5", "StartTime=now", RELEASED),
    }


def test_a_lease_longer_than_an_hour_is_no_begin_time_of_the_users(tmp_path: Path) -> None:
    in_two_hours, begin = "2027-01-15T10:00:00", f"StartTime={IN_A_WEEK}"
    slurm = Answering(leased(1, until=in_two_hours), leased(2, until=IN_A_WEEK))
    released = end_leases(tmp_path, slurm, longest_lease_s=7200.0, wall_clock=lambda: NOW_S)
    assert set(released) == {"1", "2"}
    assert set(slurm.updates) == {
        ("jobid=1", "StartTime=now", RELEASED),
        ("jobid=2", begin, RELEASED),
    }


def test_other_jobs_stay_as_they_are(tmp_path: Path) -> None:
    slurm = Answering(
        leased(1, "N/A"),
        leased(2, "roost:let-go"),
        leased(3, "roost:lease owner=someone"),
        leased(4, until="2027-01-15T07:00:00"),  # eligible: an update would take its age
        line(5, eligible=SOON),  # its pin is for roost-slurm unpin
    )
    assert ended(tmp_path, slurm) == []
    assert slurm.updates == []


def test_tasks_of_an_array_are_named_together(tmp_path: Path) -> None:
    tasks = {"ArrayJobID": "7", "JobArrayID": "7_3"}
    slurm = Answering(
        leased(7, **tasks, ArrayTaskID="3"), leased(7, **tasks, ArrayTaskID="4"), leased(9)
    )
    assert ended(tmp_path, slurm) == ["7_3", "7_4", "9"]
    assert slurm.updates == [("jobid=9,7_[3-4]", "StartTime=now", RELEASED)]


def test_a_job_that_is_gone_keeps_no_other_job_waiting(tmp_path: Path) -> None:
    slurm = Answering(leased(1), leased(2))
    slurm.refused = {"jobid=1,2", "jobid=1"}
    assert ended(tmp_path, slurm) == ["2"]


def test_a_refusal_of_every_job_is_an_error(tmp_path: Path) -> None:
    slurm = Answering(leased(1), leased(2))
    slurm.refused = {"jobid=1,2", "jobid=1", "jobid=2"}
    with pytest.raises(subprocess.CalledProcessError):
        ended(tmp_path, slurm)


def test_it_knows_the_longest_lease_that_roostd_lets_grow() -> None:
    assert LONGEST_GROWN_LEASE_S == lease_plan.LONGEST_S


def test_nothing_is_done_while_roostd_beats(tmp_path: Path) -> None:
    slurm = Answering(leased(1))
    beat(tmp_path, NOW_S - 1)
    with pytest.raises(RoostdRuns, match="stop it first"):
        ended(tmp_path, slurm)
    assert slurm.asked == []
    beat(tmp_path, NOW_S - 60)
    assert ended(tmp_path, slurm) == ["1"]
