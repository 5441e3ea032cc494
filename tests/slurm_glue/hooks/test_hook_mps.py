"""MPS for jobs that share a GPU: who gets it, and when it starts and stops. No GPU is needed."""

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.conftest import LocalSlurmFactory, open_folder
from tests.e2e.ledger import until
from tests.slurm_glue.hooks.test_hooks import World

from roost_slurm.hooks import hook_mps, hooks
from roost_slurm.hooks.hook_env import HookEnv
from roost_slurm.hooks.hook_mps import InsideJob, Mps
from roost_slurm.hooks.hooks import HookName
from roost_slurm.testing.cluster_plan import ClusterPlan

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="hooks start MPS as another user: root")

ALICE, BOB = 65_501, 65_502
# Records who asked what, with which environment; answers as long as it was started and not ended.
CONTROL = """\
#!/bin/sh
if [ "$1" = -d ]; then word=-d; else read -r word; fi
echo "$(id -u) $CUDA_VISIBLE_DEVICES $word" >>{log}
case $word in
-d) [ ! -e {log}.broken ] && touch "$CUDA_MPS_PIPE_DIRECTORY/up" ;;
quit) rm "$CUDA_MPS_PIPE_DIRECTORY/up" ;;
*) [ -e "$CUDA_MPS_PIPE_DIRECTORY/up" ] ;;
esac
"""


class Node:
    """A node whose control program only records what it is asked."""

    def __init__(self, root: Path) -> None:
        self.log = root / "log"
        self.log.touch()
        self.log.chmod(0o666)
        (root / "bin").mkdir()
        program = root / "bin" / "nvidia-cuda-mps-control"
        program.write_text(CONTROL.format(log=self.log))
        program.chmod(0o755)
        self.mps = Mps(root / "mps", str(root / "bin"), root / "driver")

    @property
    def asked(self) -> list[str]:
        return self.log.read_text().splitlines()

    def crash(self, gpu: int) -> None:
        (self.mps.folder / str(gpu) / "pipe" / "up").unlink()


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Iterator[Node]:
    monkeypatch.setattr(hook_mps, "TIMEOUT_S", 10.0)  # a busy machine
    monkeypatch.setattr(hooks, "DEADLINE_S", 60.0)
    with open_folder() as folder:
        yield Node(folder)


def test_two_jobs_of_a_user_share_one_daemon_that_ends_with_the_last(node: Node) -> None:
    assert node.mps.start(7, ALICE, 3)
    assert node.mps.start(8, ALICE, 3)
    assert node.mps.lines(7) == node.mps.lines(8)
    assert node.mps.lines(7) == [
        f"export CUDA_MPS_PIPE_DIRECTORY={node.mps.folder}/3/pipe",
        f"export CUDA_MPS_LOG_DIRECTORY={node.mps.folder}/3/log",
        "export CUDA_VISIBLE_DEVICES=0",
    ]
    node.mps.stop(7)
    assert node.asked == [f"{ALICE} 3 -d", f"{ALICE} 3 get_server_list"]
    node.mps.stop(8)
    assert node.asked[2:] == [f"{ALICE} 3 quit"]
    assert list(node.mps.folder.iterdir()) == []
    assert node.mps.lines(8) == []


def test_a_job_of_another_user_does_without(node: Node) -> None:
    assert node.mps.start(7, ALICE, 3)
    assert not node.mps.start(8, BOB, 3)
    assert node.mps.lines(8) == []
    node.mps.stop(8)
    assert node.asked == [f"{ALICE} 3 -d"]
    assert node.mps.start(9, BOB, 4)
    assert node.asked[1:] == [f"{BOB} 4 -d"]


def test_the_pipe_is_its_users_alone(node: Node) -> None:
    node.mps.start(7, ALICE, 3)
    for name in ("pipe", "log"):
        status = (node.mps.folder / "3" / name).stat()
        assert (status.st_uid, status.st_mode & 0o777) == (ALICE, 0o700)
    assert (node.mps.folder / "3").stat().st_uid == 0


def test_a_crashed_daemon_is_started_again_for_the_next_job(node: Node) -> None:
    node.mps.start(7, ALICE, 3)
    node.crash(3)
    assert node.mps.start(8, ALICE, 3)
    assert node.asked == [f"{ALICE} 3 -d", f"{ALICE} 3 get_server_list", f"{ALICE} 3 -d"]
    assert node.mps.lines(7) == []
    node.mps.stop(8)
    assert node.asked[-1] == f"{ALICE} 3 quit"


LeftOver = Callable[[int, int], "subprocess.Popen[bytes]"]


@pytest.fixture
def left_over(node: Node) -> Iterator[LeftOver]:
    """Starts what stands for a daemon of a GPU that does not answer, as a user."""
    program = node.log.with_name("nvidia-cuda-mps-server")
    shutil.copy("/bin/sleep", program)
    started = list[subprocess.Popen[bytes]]()

    def start(gpu: int, user_id: int) -> subprocess.Popen[bytes]:
        pipe = str(node.mps.folder / str(gpu) / "pipe")
        environment = {"CUDA_MPS_PIPE_DIRECTORY": pipe}
        process = subprocess.Popen([program, "600"], env=environment, user=user_id)
        started.append(process)
        name = Path(f"/proc/{process.pid}/comm")
        until(lambda: name.read_text() == "nvidia-cuda-mps\n", "the stand-in runs")
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


def test_a_daemon_that_does_not_answer_is_left_to_its_clients(
    node: Node, left_over: LeftOver
) -> None:
    node.mps.start(7, ALICE, 3)
    busy = left_over(3, ALICE)
    node.crash(3)
    before = node.mps.lines(7)
    assert not node.mps.start(8, ALICE, 3)
    assert busy.poll() is None
    assert node.mps.lines(7) == before
    assert node.mps.lines(8) == []


def test_what_does_not_end_is_killed_once_it_has_no_clients(
    node: Node, left_over: LeftOver
) -> None:
    node.mps.start(7, ALICE, 3)
    mine, of_another_gpu = left_over(3, ALICE), left_over(5, ALICE)
    node.crash(3)
    node.mps.stop(7)
    assert mine.wait(60) == -signal.SIGKILL
    assert of_another_gpu.poll() is None


def test_what_another_user_s_jobs_left_is_killed_and_replaced(
    node: Node, left_over: LeftOver
) -> None:
    node.mps.start(7, ALICE, 3)
    (node.mps.folder / "3" / "jobs" / "7").unlink()  # Epilog was killed there
    old = left_over(3, ALICE)
    assert node.mps.start(8, BOB, 3)
    assert old.wait(60) == -signal.SIGKILL
    assert node.mps.owner(3) == BOB


def test_a_folder_that_is_half_removed_keeps_no_later_job_away(node: Node) -> None:
    node.mps.start(7, ALICE, 3)
    shutil.rmtree(node.mps.folder / "3" / "jobs")
    assert node.mps.start(8, BOB, 3)
    shutil.rmtree(node.mps.folder / "3" / "pipe")
    node.mps.stop(8)
    assert list(node.mps.folder.iterdir()) == []


@pytest.mark.parametrize("umask", [0o077, 0o000])
def test_whatever_umask_slurmd_has_the_pipe_is_reached_by_its_user_alone(
    node: Node, umask: int
) -> None:
    before = os.umask(umask)
    try:
        node.mps.start(7, ALICE, 3)
    finally:
        os.umask(before)
    modes = {name: (node.mps.folder / name).stat().st_mode & 0o777 for name in ("", "3", "3/jobs")}
    assert set(modes.values()) == {0o755}
    assert (node.mps.folder / "3" / "pipe").stat().st_mode & 0o777 == 0o700


def test_a_prolog_inside_the_job_starts_nothing(node: Node, tmp_path: Path) -> None:
    cgroups = tmp_path / "cgroup"
    cgroups.write_text("0::/system.slice/slurmstepd.scope/job_7/step_extern/user\n")
    with pytest.raises(InsideJob, match="RunInJob"):
        replace(node.mps, cgroups=cgroups).start(7, ALICE, 3)
    assert node.asked == []
    cgroups.write_text("0::/system.slice/slurmd.service\n")
    assert replace(node.mps, cgroups=cgroups).start(7, ALICE, 3)


def test_a_user_with_jobs_on_two_gpus_has_a_daemon_on_each(node: Node) -> None:
    node.mps.start(7, ALICE, 3)
    node.mps.start(8, ALICE, 5)
    assert node.mps.lines(7)[0] != node.mps.lines(8)[0]
    node.mps.stop(7)
    assert node.asked == [f"{ALICE} 3 -d", f"{ALICE} 5 -d", f"{ALICE} 3 quit"]
    assert node.mps.lines(8) != []


def test_a_crash_leaves_nothing_to_the_next_user(node: Node) -> None:
    node.mps.start(7, ALICE, 3)
    node.crash(3)
    node.mps.stop(7)
    assert list(node.mps.folder.iterdir()) == []
    assert node.mps.start(8, BOB, 3)


def test_a_daemon_that_does_not_start_leaves_the_job_without(node: Node) -> None:
    node.log.with_name("log.broken").touch()
    with pytest.raises(subprocess.CalledProcessError):
        node.mps.start(7, ALICE, 3)
    assert node.mps.lines(7) == []
    node.mps.stop(7)
    assert list(node.mps.folder.iterdir()) == []


def test_a_gpu_is_named_by_its_uuid_where_the_driver_tells_it(node: Node) -> None:
    uuids = [f"GPU-{letter * 8}-0000-0000-0000-000000000000" for letter in "ab"]
    for address, minor, uuid in (("0000:81:00.0", 0, uuids[0]), ("0000:01:00.0", 1, uuids[1])):
        folder = node.mps.driver / address
        folder.mkdir(parents=True)
        text = f"Model: \t A100\nGPU UUID: \t {uuid}\nDevice Minor: \t {minor}\n"
        (folder / "information").write_text(text)
    assert [node.mps.device(gpu) for gpu in (0, 1, 2)] == [*uuids, "2"]


@pytest.mark.parametrize(
    ("allocated", "is_in", "has_mps"),
    [((3,), True, True), ((3,), False, False), ((3, 5), True, False)],
)
def test_hooks_start_it_for_jobs_with_one_gpu_that_opted_in(
    node: Node, tmp_path: Path, allocated: tuple[int, ...], *, is_in: bool, has_mps: bool
) -> None:
    (tmp_path / "world").mkdir()
    world = World(tmp_path / "world", allocated=allocated)
    world.around = world.around._replace(mps=node.mps, has_opted_in=lambda _env: is_in)
    ids = {"SLURM_JOB_UID": str(ALICE)}
    world.run(HookName.PROLOG, **ids)
    assert bool(node.asked) is has_mps
    world.run(HookName.TASK_PROLOG)
    assert any("CUDA_MPS_PIPE_DIRECTORY" in line for line in world.said) is has_mps
    world.run(HookName.EPILOG, **ids)
    assert not list(node.mps.folder.glob("*"))


def test_a_hook_without_the_control_program_only_warns(tmp_path: Path) -> None:
    world = World(tmp_path, allocated=(3,))
    mps = Mps(tmp_path / "mps", str(tmp_path / "nowhere"))
    world.around = world.around._replace(mps=mps, has_opted_in=lambda _env: True)
    world.run(HookName.PROLOG, SLURM_JOB_UID=str(ALICE))
    assert "nvidia-cuda-mps-control" in world.warned[-1]
    world.run(HookName.TASK_PROLOG)
    assert not any("MPS" in line for line in world.said)


def test_hooks_start_and_stop_it_though_the_job_map_cannot_be_written(
    node: Node, tmp_path: Path
) -> None:
    (tmp_path / "world").mkdir()
    world = World(tmp_path / "world", allocated=(3,))
    world.around = world.around._replace(mps=node.mps, has_opted_in=lambda _env: True)
    (world.root / "job-map").chmod(0o777)  # others may write: not used

    world.run(HookName.PROLOG, SLURM_JOB_UID=str(ALICE))
    assert node.mps.lines(77) != []
    assert "job map: JobMapError" in world.warned[-1]

    world.run(HookName.EPILOG, SLURM_JOB_UID=str(ALICE))
    assert node.mps.lines(77) == []
    assert node.asked[-1] == f"{ALICE} 3 quit"


def test_the_mark_of_a_job_whose_epilog_was_lost_keeps_no_other_user_away(node: Node) -> None:
    assert node.mps.start(7, ALICE, 3)
    assert not node.mps.start(8, BOB, 3, lambda: {7, 8})
    assert not node.mps.start(8, BOB, 3, lambda: None)  # Slurm does not answer
    assert not node.mps.start(8, BOB, 3, set)  # or another Slurm does, which has no such job

    assert node.mps.start(8, BOB, 3, lambda: {8, 9})

    assert node.mps.lines(7) == []
    assert node.mps.owner(3) == BOB
    node.mps.stop(8)
    assert list(node.mps.folder.iterdir()) == []


def test_slurm_is_asked_for_lost_jobs_only_where_a_gpu_has_other_clients(node: Node) -> None:
    asked = list[str]()

    def jobs_on_node() -> frozenset[int]:
        asked.append("squeue")
        return frozenset({8})

    node.mps.start(7, ALICE, 3, jobs_on_node)
    node.mps.start(7, ALICE, 3, jobs_on_node)
    assert asked == []
    node.mps.start(8, ALICE, 3, jobs_on_node)
    assert asked == ["squeue"]
    node.mps.stop(8)  # the lost job keeps no daemon either
    assert node.asked[-1] == f"{ALICE} 3 quit"


@pytest.mark.slurm
def test_slurm_tells_the_jobs_of_a_node(
    local_slurm_factory: LocalSlurmFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hooks, "SCONTROL_TIMEOUT_S", 30.0)  # a busy machine
    slurm = local_slurm_factory(ClusterPlan.uniform(2, 2))
    here, there = (slurm.submit("-w", name) for name in ("n1", "n2"))
    waiting = slurm.submit("-w", "n1", "--exclusive")
    for job_id in (here, there):
        slurm.wait_for_state(job_id, "RUNNING")
    conf = str(slurm.folder.slurm_conf)
    assert slurm.state(waiting) == "PENDING"
    assert hooks.ask_jobs_on_node(HookEnv(job_id=1, node="n1"), conf) == frozenset({int(here)})
    assert hooks.ask_jobs_on_node(HookEnv(job_id=1, node="n1"), "/nowhere/slurm.conf") is None
    assert hooks.ask_jobs_on_node(HookEnv(job_id=1, node=None), conf) is None
