"""Guards of shared GPUs: which are made while roostd is away, and with which calls."""

import subprocess
from pathlib import Path

import pytest
from tests.slurm_glue.guards.test_orphaned_pins import NOW_S, beat, line

from roost_slurm import command_run
from roost_slurm.guards import seat_guards
from roost_slurm.guards.seat_guards import guard_seats
from roost_slurm.text.commands import Argv

UNITS = Path(__file__).parents[3] / "slurm_glue" / "systemd"
SEATS = ",".join(
    [*(f"gpu:g{i}:1" for i in range(4)), *(f"gpu:s{i}:1" for i in range(4)), "gputoken:4"]
)
PLAIN = ",".join(f"gpu:g{i}:1" for i in range(4))


def node(name: str = "n1", gres: str = SEATS) -> str:
    return (
        f"NodeName={name} CoresPerSocket=16 CPUAlloc=0 CPUTot=16 Gres={gres}"
        f" NodeAddr={name} RealMemory=4000 AllocMem=0 Sockets=1 State=MIXED"
        " Partitions=main,gpu GresUsed=gpu:g0:0(IDX:N/A)\n"
    )


def running(number: int, request: str, **fields: str) -> str:
    """A line of squeue: a job that runs on n1."""
    shown = {"State": "RUNNING", "NodeList": "n1", "tres-per-job": request, "ReqNodes": "N/A"}
    return line(number, **(shown | fields))


def shown(number: int, gres: str) -> str:
    """A record of `scontrol -d show jobs`: a job that holds GPUs of n1."""
    return (
        f"JobId={number} JobName=x UserId=a(1) Priority=1 Account=a QOS=n JobState=RUNNING"
        " Reason=None NumNodes=1 NumTasks=1 ReqNodeList=(null) ExcNodeList=(null)"
        f" NodeList=n1 JOB_GRES=x Nodes=n1 CPU_IDs=0 Mem=0 GRES={gres}"
        " MinCPUsNode=1 MinMemoryNode=0\n"
    )


HOST = running(7, "gres/gpu:g1:1,gres/gputoken:1")
GUEST = running(8, "gres/gpu:s1:1")
HOST_SHOWN = shown(7, "gpu:g1:1(IDX:1),gputoken(CNT:1)")
GUEST_SHOWN = shown(8, "gpu:s1:1(IDX:5)")


class FakeSlurm:
    """Answers commands by program and words; sbatch counts from 100."""

    def __init__(
        self, lines: tuple[str, ...], details: tuple[str, ...], nodes: str, version: str = "24.11.5"
    ) -> None:
        self.lines, self.details, self.nodes, self.release = lines, details, nodes, version
        self.asked: list[Argv] = []
        self.refuses = ""

    def __call__(self, argv: Argv, timeout_s: float) -> str:
        assert 0 < timeout_s <= command_run.DEADLINE_S
        self.asked.append(argv)
        if self.refuses and self.refuses in argv:
            raise subprocess.CalledProcessError(1, argv)
        match argv:
            case ("scontrol", "--version"):
                return f"slurm-wlm {self.release}\n"
            case ("squeue", *_):
                return "".join(self.lines)
            case ("sbatch", *_):
                return f"{99 + len(self.submitted)}\n"
            case (*_, "nodes"):
                return self.nodes
            case (*_, "jobs"):
                return "".join(self.details)
        return ""

    @property
    def submitted(self) -> list[Argv]:
        return [argv for argv in self.asked if argv[0] == "sbatch"]


def words(argv: Argv) -> dict[str, str]:
    pairs = (word.removeprefix("--").partition("=") for word in argv[1:])
    return {name: value for name, _, value in pairs}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A runtime folder whose daemon was killed a minute ago."""
    beat(tmp_path, NOW_S - 60)
    return tmp_path


def guard(folder: Path, slurm: FakeSlurm) -> list[str]:
    return list(guard_seats(folder, slurm, wall_clock=lambda: NOW_S, clock=lambda: 0.0))


def test_a_guard_follows_the_job_on_the_first_seat(folder: Path) -> None:
    slurm = FakeSlurm((HOST, GUEST), (HOST_SHOWN, GUEST_SHOWN), node())
    assert guard(folder, slurm) == ["guard 100 of 8"]
    (argv,) = slurm.submitted
    asked = words(argv)
    assert asked["gres"] == "gpu:g1:1,gputoken:1"
    assert asked["nodelist"] == "n1"
    assert asked["dependency"] == "afterany:7"
    assert asked["priority"] == "4294967293"
    assert asked["partition"] == "main,gpu"
    assert asked["time"] == "60"  # the guest's own: the guard starts later and outlives it
    assert "--jobs=8" in asked["wrap"]
    assert slurm.asked[-2][2:] == ("jobid=100", "AdminComment=roost:guard of=8 gpus=1")


def test_a_guard_of_a_job_that_is_alone_on_second_seats_waits_for_none(folder: Path) -> None:
    slurm = FakeSlurm((GUEST,), (GUEST_SHOWN,), node())
    guard(folder, slurm)
    (argv,) = slurm.submitted
    assert "dependency" not in words(argv)


def test_each_host_of_a_guest_has_a_guard(folder: Path) -> None:
    guest = running(8, "gres/gpu:s1:1,gres/gpu:s2:1")
    details = (HOST_SHOWN, shown(8, "gpu:s1:1(IDX:5),gpu:s2:1(IDX:6)"))
    slurm = FakeSlurm((HOST, guest), details, node())
    assert guard(folder, slurm) == ["guard 100 of 8", "guard 101 of 8"]
    assert [words(argv)["gres"] for argv in slurm.submitted] == [
        "gpu:g1:1,gputoken:1",
        "gpu:g2:1,gputoken:1",
    ]


@pytest.mark.parametrize("state", ["PENDING", "RUNNING"])
def test_a_guard_is_made_once(folder: Path, state: str) -> None:
    known = line(9, State=state, admin_comment="roost:guard of=8 gpus=1", eligible="N/A")
    slurm = FakeSlurm((HOST, GUEST, known), (HOST_SHOWN, GUEST_SHOWN), node())
    assert guard(folder, slurm) == []


def test_a_guard_that_runs_is_not_guarded(folder: Path) -> None:
    known = running(9, "gres/gpu:g1:1,gres/gputoken:1", admin_comment="roost:guard of=8 gpus=1,2")
    details = (shown(9, "gpu:g1:1(IDX:1),gputoken(CNT:1)"), GUEST_SHOWN)
    slurm = FakeSlurm((GUEST, known), details, node())
    assert guard(folder, slurm) == []


def test_a_partition_that_refuses_the_guard_leaves_the_default_one(folder: Path) -> None:
    slurm = FakeSlurm((HOST, GUEST), (HOST_SHOWN, GUEST_SHOWN), node())
    slurm.refuses = "--partition=main,gpu"
    assert guard(folder, slurm) == ["guard 101 of 8"]
    assert "partition" not in words(slurm.submitted[-1])


def test_a_guard_that_slurm_refuses_is_told(folder: Path) -> None:
    slurm = FakeSlurm((HOST, GUEST), (HOST_SHOWN, GUEST_SHOWN), node())
    slurm.refuses = "--no-requeue"
    (told,) = guard(folder, slurm)
    assert told.startswith("no guard of 8: ")


def test_nothing_is_asked_while_roostd_lives(folder: Path) -> None:
    beat(folder, NOW_S - seat_guards.LATE_S)
    slurm = FakeSlurm((HOST, GUEST), (HOST_SHOWN, GUEST_SHOWN), node())
    assert guard(folder, slurm) == []
    assert slurm.asked == []


def test_the_timer_makes_a_guard_within_20_s_of_the_last_beat() -> None:
    """As docs/faults.md says."""
    timer = (UNITS / "roost-unpin.timer").read_text()
    said = dict(line.split("=", 1) for line in timer.splitlines() if line[:1].isalpha())
    interval_s = int(said["OnUnitInactiveSec"]) + int(said["AccuracySec"])
    assert seat_guards.LATE_S + interval_s == 20


def test_a_removed_heartbeat_counts_at_once(tmp_path: Path) -> None:
    slurm = FakeSlurm((HOST, GUEST), (HOST_SHOWN, GUEST_SHOWN), node())
    assert guard(tmp_path, slurm) == ["guard 100 of 8"]


def test_a_cluster_without_second_seats_is_left_alone(folder: Path) -> None:
    slurm = FakeSlurm((HOST, GUEST), (HOST_SHOWN, GUEST_SHOWN), node(gres=PLAIN))
    assert guard(folder, slurm) == []
    assert len(slurm.asked) == 1


UNREADABLE = ",".join(["gres:disk:1"] * 500)  # longer than any request that is read
LEASED = {"admin_comment": "roost:lease", "tres-per-job": "N/A", "ReqNodes": "N/A"}


@pytest.mark.parametrize(
    ("version", "fields", "added"),
    [
        ("22.05.8", {"tres-per-node": "gres:gpu:2"}, "TresPerNode=gres:gpu:2,gres:gputoken:2"),
        ("22.05.8", {"tres-per-node": "gres:gpu:2,gres:gputoken:2"}, None),
        ("22.05.8", {"tres-per-node": "gres:gpu:g1:1"}, None),
        ("22.05.8", {"tres-per-node": "gres:gpu:2", "admin_comment": "a note"}, None),
        ("22.05.8", {"tres-per-node": "gres:gpu:2", "State": "RUNNING", "NodeList": "n1"}, None),
        ("24.11.5", {"tres-per-node": "gres/gpu:2"}, None),
        (
            "22.05.8",
            {"tres-per-node": "gres:gpu:2", "tres-per-task": UNREADABLE},
            "TresPerNode=gres:gpu:2,gres:gputoken:2",
        ),
    ],
)
def test_a_waiting_job_without_tokens_gets_them_where_slurm_takes_none_back(
    folder: Path, version: str, fields: dict[str, str], added: str | None
) -> None:
    slurm = FakeSlurm((line(5, **(LEASED | fields)),), (), node(), version)
    guard(folder, slurm)
    updates = [argv[3] for argv in slurm.asked if argv[1] == "update"]
    assert updates == ([] if added is None else [added])
