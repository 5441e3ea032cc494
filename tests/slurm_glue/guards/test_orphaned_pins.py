"""Pins that outlive roostd: which jobs get their own requests back, when, and with which calls."""

import os
import re
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from roost_slurm import cli, command_run
from roost_slurm.guards import seat_guards
from roost_slurm.guards.orphaned_pins import MOST_JOBS, is_roostd_gone, unpin_orphans
from roost_slurm.hooks import heartbeat
from roost_slurm.hooks.heartbeat import Heartbeat
from roost_slurm.site import config
from roost_slurm.site.config import SiteSettings
from roost_slurm.text.commands import Argv
from roost_slurm.text.squeue import FIELDS, SEPARATOR

NOW_S = 1_800_000_000.0
TYPED = "gres/gpu:g0:1,gres/gpu:g1:1"
PINNED = "roost:lease was=TresPerNode:gres/gpu:2"
ABSENT = {"ArrayTaskID": "N/A", "Reason": "Resources", "TimeLimit": "1:00:00", "State": "PENDING"}
COUNTS = dict.fromkeys(("UserID", "PriorityLong", "NumTasks", "NumCPUs", "RestartCnt"), "1")


def line(number: int, *, eligible: str = "2027-01-15T07:00:00", **fields: str) -> str:
    """One record of squeue: a job with a standing pin on n1, eligible an hour before NOW_S."""
    shown = {
        **ABSENT,
        **COUNTS,
        "JobID": str(number),
        "NumNodes": "1",
        "tres-per-job": TYPED,
        "ReqNodes": "n1",
        "admin_comment": PINNED,
        "EligibleTime": eligible,
        "StartTime": eligible,
    }
    shown |= {name.replace("_per_", "-per-"): value for name, value in fields.items()}
    return "".join(f"{shown.get(field, 'N/A')}{SEPARATOR}" for field in FIELDS) + "\n"


class FakeSlurm:
    """Answers commands by program and first word; records the updates, and may refuse jobs."""

    def __init__(self, *lines: str, version: str = "24.11.5") -> None:
        self.lines, self.release = lines, version
        self.asked: list[Argv] = []
        self.refused: set[str] = set()
        self.on_update: Callable[[], None] = lambda: None

    def __call__(self, argv: Argv, timeout_s: float) -> str:
        assert 0 < timeout_s <= command_run.DEADLINE_S
        self.asked.append(argv)
        if argv[:2] == ("scontrol", "--version"):
            return f"slurm-wlm {self.release}\n"
        if argv[0] == "squeue":
            return "".join(self.lines)
        self.on_update()
        if argv[2] in self.refused:
            raise subprocess.CalledProcessError(1, argv)
        return ""

    @property
    def updates(self) -> list[Argv]:
        return [argv[2:] for argv in self.asked if argv[1] == "update"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A runtime folder whose daemon was killed a minute ago."""
    beat(tmp_path, NOW_S - 60)
    return tmp_path


def beat(folder: Path, at_epoch_s: float) -> None:
    heartbeat.write(folder / "heartbeat", Heartbeat(at_epoch_s=int(at_epoch_s), lease_s=60))


def unpin(folder: Path, slurm: FakeSlurm, clock: Callable[[], float] = lambda: 0.0) -> list[str]:
    return list(unpin_orphans(folder, slurm, wall_clock=lambda: NOW_S, clock=clock))


def test_a_pinned_job_gets_its_own_request_back_in_one_call_and_keeps_its_age(folder: Path) -> None:
    slurm = FakeSlurm(line(7))
    assert unpin(folder, slurm) == ["7"]
    (update,) = slurm.updates
    assert update == (
        "jobid=7",
        "TresPerTask=",
        "TresPerSocket=",
        "TresPerJob=",
        "TresPerNode=gres/gpu:2",
        "ReqNodeList=",
    )


def test_what_the_user_wrote_beside_gpus_comes_back_too(folder: Path) -> None:
    was = "TresPerJob:gres/gpu:8;CpusPerTres:gres/gpu:3;ReqNodeList:n[1-2];NumNodes:1-4"
    slurm = FakeSlurm(
        line(7, admin_comment=f"roost:lease begin=5 was={was} roost:advice is next", NumNodes="1")
    )
    assert unpin(folder, slurm) == ["7"]
    (update,) = slurm.updates
    given = {"TresPerJob=gres/gpu:8", "CpusPerTres=gres/gpu:3", "ReqNodeList=n[1-2]"}
    assert given | {"NumNodes=1-4"} <= set(update)


def test_a_range_without_an_upper_end_is_not_written(folder: Path) -> None:
    slurm = FakeSlurm(
        line(7, admin_comment="roost:lease was=TresPerJob:gres/gpu:2;NumNodes:1"),
    )
    unpin(folder, slurm)
    assert not [word for word in slurm.updates[0] if word.startswith("NumNodes")]


def test_nodes_of_a_users_own_are_named_only_while_the_job_cannot_start(folder: Path) -> None:
    several = line(7, admin_comment=f"{PINNED};ReqNodeList:n1", NumNodes="2", ReqNodes="n[1-2]")
    slurm = FakeSlurm(several)
    assert unpin(folder, slurm) == ["7"]
    first, second = slurm.updates
    assert first[-1] == "StartTime=now+10"
    assert "TresPerNode=gres/gpu:2" in first
    assert second == ("jobid=7", "ReqNodeList=n1", "StartTime=now")


def test_of_a_job_whose_nodes_alone_were_chosen_the_nodes_are_freed(folder: Path) -> None:
    fields = {"tres-per-job": "N/A", "tres-per-node": "gres/gpu:2"}
    slurm = FakeSlurm(line(7, **fields))
    assert unpin(folder, slurm) == ["7"]


def test_a_task_of_an_array_is_unpinned_by_its_own_id(folder: Path) -> None:
    slurm = FakeSlurm(line(9, ArrayJobID="5", ArrayTaskID="2"))
    assert unpin(folder, slurm) == ["5_2"]


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"eligible": "2027-01-15T08:00:30"}, id="under a lease"),
        pytest.param({"eligible": "N/A"}, id="depends on another"),
        pytest.param({"admin_comment": "roost:lease"}, id="never pinned"),
        pytest.param({"admin_comment": "roost:let-go"}, id="released"),
        pytest.param({"admin_comment": "a note"}, id="not under Roost"),
        pytest.param({"State": "RUNNING", "NodeList": "n1"}, id="runs"),
        pytest.param(
            {"tres-per-job": "N/A", "tres-per-node": "gres/gpu:2", "ReqNodes": "N/A"},
            id="restored already",
        ),
        pytest.param(
            {
                "tres-per-job": "gres/gpu:g0:0,gres/gpu:g1:0",
                "tres-per-node": "gres/gpu:2",
                "ReqNodes": "N/A",
            },
            id="restored, with types that Slurm still shows",
        ),
        pytest.param({"tres-per-job": "gres/gpu:3"}, id="changed by its user"),
        pytest.param({"tres-per-job": "==="}, id="unreadable"),
    ],
)
def test_other_jobs_are_left_alone(folder: Path, fields: dict[str, str]) -> None:
    slurm = FakeSlurm(line(7, **fields))
    assert unpin(folder, slurm) == []
    assert slurm.updates == []


def test_nothing_is_asked_while_roostd_lives(folder: Path) -> None:
    beat(folder, NOW_S - 10)
    slurm = FakeSlurm(line(7))
    assert unpin(folder, slurm) == []
    assert slurm.asked == []


def test_after_a_move_the_pins_of_the_old_roostd_are_taken_back_though_the_new_one_lives(
    folder: Path,
) -> None:
    beat(folder, NOW_S - 1)
    mine = heartbeat.owner_of(folder, socket.gethostname())
    slurm = FakeSlurm(
        line(7, admin_comment=PINNED.replace("was", "owner=0ddba11 was")),
        line(8, admin_comment=PINNED.replace("was", f"owner={mine} was")),
        line(9),  # an earlier job_submit.lua wrote no owner: the roostd that lives has it
    )
    assert unpin(folder, slurm) == []

    found = unpin_orphans(folder, slurm, is_of_others=True, wall_clock=lambda: NOW_S)

    assert list(found) == ["7"]
    assert [update[0] for update in slurm.updates] == ["jobid=7"]


def test_a_release_that_cannot_take_types_back_frees_the_nodes_alone(folder: Path) -> None:
    named = line(8, admin_comment=f"{PINNED};ReqNodeList:n[1-4]")
    free = line(9, ReqNodes="(null)")
    slurm = FakeSlurm(line(7), named, free, version="22.05.8")
    assert unpin(folder, slurm) == ["7", "8"]
    assert slurm.updates == [("jobid=7", "ReqNodeList="), ("jobid=8", "ReqNodeList=n[1-4]")]


def test_a_roostd_that_comes_back_takes_over(folder: Path) -> None:
    slurm = FakeSlurm(line(7), line(8))
    slurm.on_update = lambda: beat(folder, NOW_S)
    assert unpin(folder, slurm) == ["7"]


def test_a_job_that_has_started_meanwhile_does_not_stop_the_others(folder: Path) -> None:
    slurm = FakeSlurm(line(7), line(8))
    slurm.refused = {"jobid=7"}
    assert unpin(folder, slurm) == ["8"]


def test_a_run_has_an_end_and_takes_the_first_in_order(folder: Path) -> None:
    lines = [line(n, PriorityLong=str(n)) for n in range(1, MOST_JOBS + 11)]
    done = unpin(folder, FakeSlurm(*lines))
    assert done == [str(n) for n in range(MOST_JOBS + 10, 10, -1)]


def test_a_slow_slurm_is_given_up(folder: Path) -> None:
    times = iter([0.0, 0.1, 1.0, 2.0, 6.0])
    slurm = FakeSlurm(line(7), line(8))
    with pytest.raises(subprocess.TimeoutExpired):
        unpin(folder, slurm, clock=lambda: next(times))
    assert len(slurm.updates) == 1


@pytest.mark.parametrize(
    ("age_s", "is_gone"), [(0.0, False), (14.0, False), (16.0, True), (-60.0, True)]
)
def test_a_removed_heartbeat_was_there_when_its_folder_last_changed(
    tmp_path: Path, age_s: float, is_gone: bool
) -> None:
    os.utime(tmp_path, (NOW_S - age_s, NOW_S - age_s))
    assert is_roostd_gone(tmp_path, NOW_S) is is_gone


def test_without_a_readable_heartbeat_roostd_is_gone(tmp_path: Path) -> None:
    assert is_roostd_gone(tmp_path / "nowhere", NOW_S)
    (tmp_path / "heartbeat").write_text("yes\n")
    assert is_roostd_gone(tmp_path, NOW_S)


def test_the_command_says_what_it_cannot_reach(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "nowhere.conf"))
    monkeypatch.setattr(command_run, "_SEARCH_PATH", str(tmp_path))
    assert cli.main(["unpin", "--runtime-folder", str(tmp_path / "gone")]) == cli.BAD_INPUT
    assert "roost-slurm unpin:" in capsys.readouterr().err


PING = "see that slurmctld answers: scontrol ping"


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (
            subprocess.CalledProcessError(1, ("squeue", "-a"), stderr="not in a\nno slurmctld\n"),
            f"squeue: no slurmctld; {PING}",
        ),
        (
            subprocess.CalledProcessError(1, ("squeue",), stderr=" \n"),
            f"squeue: exit code 1; {PING}",
        ),
        (
            subprocess.TimeoutExpired(("squeue", "-O", "JobID:|"), 3.7, stderr=b"retry"),
            f"squeue: no answer in 5 s; {PING}",
        ),
        (
            FileNotFoundError(2, "No such file or directory", "squeue"),
            "squeue: No such file or directory",
        ),
        (OSError(), "OSError"),
    ],
)
def test_the_command_says_why_slurm_failed(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    why: str,
) -> None:
    def fail(runtime_folder: Path) -> None:
        raise error

    monkeypatch.setattr(seat_guards, "guard_seats", fail)
    assert cli.main(["unpin"]) == cli.BAD_INPUT
    (line,) = capsys.readouterr().err.splitlines()
    assert line == f"roost-slurm unpin: {why}"


# -- the controller's script --------------------------------------------------------------------


class Controller:
    """The generated script of EpilogSlurmctld, with a stand-in for roost-slurm."""

    def __init__(self, root: Path, command: str = 'echo "$@" >>"$0.ran"') -> None:
        self.folder, self.program = root / "run", root / "roost-slurm"
        (self.folder / "spool").mkdir(parents=True)
        self.program.write_text(f"#!/bin/sh\n{command}\n")
        self.program.chmod(0o755)
        settings = SiteSettings(runtime_folder=self.folder, roost_slurm=self.program)
        config.write(config.generate([], settings), root / "etc", force=True)
        self.hooks = root / "etc" / "hooks"

    def run(self, hook: str = "epilog-slurmctld") -> float:
        """Run the hook, which must exit 0. Returns how long it took."""
        began_s = time.monotonic()
        environ = {"SLURM_JOB_ID": "77"}
        subprocess.run([self.hooks / f"{hook}.sh"], env=environ, capture_output=True, check=True)
        return time.monotonic() - began_s

    def allow(self, limit: str) -> None:
        """Let a run take another time, in the words of timeout(1)."""
        script = self.hooks / "epilog-slurmctld.sh"
        text = script.read_text()
        assert text.count("timeout -k ") == 1
        script.write_text(re.sub(r"timeout -k \S+ \S+", f"timeout {limit}", text))

    def calls(self, count: int, within_s: float = 60.0) -> list[str]:
        """Return the arguments of each call so far, once there are so many."""
        ran = self.program.with_name("roost-slurm.ran")
        ends_s = time.monotonic() + within_s
        while True:
            found = ran.read_text().splitlines() if ran.exists() else []
            if len(found) >= count or time.monotonic() > ends_s:
                return found
            time.sleep(0.02)


@pytest.mark.parametrize(
    "left", ["nothing", "a stale beat", "no folder", "garbage", "a full spool"]
)
def test_the_end_of_a_job_unpins_when_roostd_is_dead(tmp_path: Path, left: str) -> None:
    site = Controller(tmp_path)
    match left:
        case "a stale beat":
            beat(site.folder, time.time() - 16)
        case "no folder":
            (site.folder / "spool").rmdir()
            site.folder.rmdir()
        case "garbage":
            (site.folder / "heartbeat").write_text("roost 1 08x; 3\n")
        case "a full spool":
            (site.folder / "spool" / "events").touch()
            os.truncate(site.folder / "spool" / "events", 4 << 20)
        case _:
            pass
    site.run()
    assert site.calls(1) == [f"unpin --runtime-folder {site.folder}"]


def test_a_fresh_beat_and_the_start_of_a_job_cost_no_python(tmp_path: Path) -> None:
    site = Controller(tmp_path)
    site.run("prolog-slurmctld")
    beat(site.folder, time.time())
    site.run()
    assert site.calls(1, within_s=0.5) == []


def test_many_ends_at_once_make_one_run_and_none_waits_for_it(tmp_path: Path) -> None:
    hangs = 'echo "$@" >>"$0.ran"; while [ ! -e "$0.may-end" ]; do sleep 0.1; done'
    site = Controller(tmp_path, hangs)
    site.allow("-k 1 100")
    assert max(site.run() for _ in range(10)) < 50.0
    assert len(site.calls(1)) == 1
    site.program.with_name("roost-slurm.may-end").touch()


def test_a_missing_roost_slurm_harms_nothing(tmp_path: Path) -> None:
    site = Controller(tmp_path)
    site.program.unlink()
    site.run()
    assert (site.folder / "spool" / "events").read_text() == "end 77\n"


def test_a_run_that_hangs_is_ended(tmp_path: Path) -> None:
    site = Controller(tmp_path, 'echo "$$" >>"$0.ran"; trap "" TERM; while :; do sleep 0.1; done')
    for limit in ("-k 0.1 0.2", "-k 1 3", "-k 1 20"):  # a busy machine may not have started it yet
        site.allow(limit)
        site.run()
        if pids := site.calls(1, within_s=3.0):
            break
    (pid,) = pids
    ends_s = time.monotonic() + 60.0
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < ends_s
        time.sleep(0.05)
