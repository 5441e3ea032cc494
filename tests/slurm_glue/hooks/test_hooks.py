"""The hooks: what they do when all is well, and that nothing makes them fail or hang."""

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from roost_slurm.hooks import hook_job_map, hooks, spool
from roost_slurm.hooks.hook_agent import Agent, Plan
from roost_slurm.hooks.hook_env import HookEnv, parse_env
from roost_slurm.hooks.hooks import HookName, Surroundings
from roost_slurm.site import config
from roost_slurm.site.config import SiteSettings
from roost_slurm.testing.fake_agent import FakeAgent

PLAN = {
    "managed": True,
    "gpu_indices": [2, 3],
    "rank_order": [3, 2],
    "gpu_uuids": ["GPU-2", "GPU-3"],
    "nics": {"2": "mlx5_0", "3": "mlx5_1"},
}
ONE_NODE = {"SLURM_JOB_NUM_NODES": "1"}
GPU_JOB = {"SLURM_JOB_ID": "77", "SLURMD_NODENAME": "n1", "SLURM_JOB_GPUS": "3"}
# A script ends a hook after 0.8 s, in which a busy machine may not even have started Python.
TRY_COUNT = 20
LIMIT_S = 25.0  # 1 s is promised, of an idle machine; what hangs here hangs for 30 s and more


class World:
    """A runtime folder with hooks around it, and what they said."""

    def __init__(self, root: Path, allocated: tuple[int, ...] | None = (2, 3)) -> None:
        self.root = root
        self.said: list[str] = []
        self.warned: list[str] = []
        self.around = Surroundings(
            agent=Agent(root / "agent.sock", 20.0),
            spool_file=root / "spool" / "events",
            job_map_folder=root / "job-map",
            allocation=lambda _env: allocated,
            say=self.said.append,
            warn=self.warned.append,
        )
        (root / "spool").mkdir()
        (root / "job-map").mkdir()

    def run(self, name: HookName, **environ: str) -> None:
        hooks.run(name, {**GPU_JOB, **environ}, self.around)

    @property
    def job_map(self) -> dict[str, str]:
        return {path.name: path.read_text() for path in (self.root / "job-map").iterdir()}


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A world in which a hook has the time that a busy machine takes."""
    monkeypatch.setattr(hooks, "DEADLINE_S", 60.0)
    return World(tmp_path)


def test_prolog_reports_the_whole_allocation(world: World) -> None:
    with FakeAgent(
        world.root / "agent.sock", {"plan": PLAN, "allocated": {"as_planned": True}}
    ) as a:
        world.run(HookName.PROLOG)
    assert a.asked == [
        {"op": "plan", "job_id": 77},
        {"op": "allocated", "job_id": 77, "gpu_indices": [2, 3]},
    ]
    assert world.job_map == {"2": "77\n", "3": "77\n"}
    assert world.warned == []


@pytest.mark.parametrize(
    ("plan", "job_gpus", "has_map", "asks"),
    [
        (PLAN, "2,3", True, False),
        (PLAN, "3", True, True),  # Slurm up to 25.05 names the GPUs of the last type only
        (PLAN, "10,11", True, True),  # second seats
        (PLAN, "1,2,3", True, True),
        ({"managed": False}, "2,3", True, True),
        ({"managed": False}, "2,3", False, False),
    ],
)
def test_prolog_asks_slurm_only_for_what_it_does_not_know(
    world: World, plan: dict[str, Any], job_gpus: str, *, has_map: bool, asks: bool
) -> None:
    asked = list[int]()

    def allocation(env: HookEnv) -> tuple[int, ...]:
        asked.append(env.job_id)
        return (2, 3)

    world.around = world.around._replace(allocation=allocation)
    if not has_map:
        (world.root / "job-map").rmdir()
    answers = {"plan": plan, "allocated": {"as_planned": True}}
    with FakeAgent(world.root / "agent.sock", answers) as agent:
        world.run(HookName.PROLOG, SLURM_JOB_GPUS=job_gpus)
    assert asked == ([77] if asks else [])
    told = [asked for asked in agent.asked if asked["op"] == "allocated"]
    assert [one["gpu_indices"] for one in told] == ([[2, 3]] if plan is PLAN else [])
    assert world.warned == []
    assert not has_map or world.job_map == {"2": "77\n", "3": "77\n"}


def test_prolog_warns_of_another_allocation_than_planned(world: World) -> None:
    with FakeAgent(world.root / "agent.sock", {"plan": PLAN, "allocated": {"as_planned": False}}):
        world.run(HookName.PROLOG)
    assert world.warned == ["job 77 got GPUs (2, 3), roostd chose (2, 3)"]


def test_prolog_leaves_jobs_without_gpus_alone(world: World) -> None:
    with FakeAgent(world.root / "agent.sock", {"plan": PLAN}) as agent:
        world.run(HookName.PROLOG, SLURM_JOB_GPUS="")
    assert agent.asked == []
    assert world.job_map == {}


def test_a_job_that_roostd_does_not_manage_is_mapped_too(world: World) -> None:
    with FakeAgent(world.root / "agent.sock", {"plan": {"managed": False}}) as agent:
        world.run(HookName.PROLOG)
    assert len(agent.asked) == 1
    assert world.job_map == {"2": "77\n", "3": "77\n"}


def test_epilog_removes_only_its_own_job(world: World) -> None:
    hook_job_map.write(world.root / "job-map", 77, [0, 1])
    hook_job_map.write(world.root / "job-map", 777, [2])
    world.run(HookName.EPILOG)
    assert world.job_map == {"2": "777\n"}


def test_the_controllers_hooks_write_the_spool(world: World) -> None:
    world.run(HookName.PROLOG_SLURMCTLD)
    world.run(HookName.EPILOG_SLURMCTLD, SLURM_ARRAY_JOB_ID="70", SLURM_ARRAY_TASK_ID="7")
    assert (world.root / "spool" / "events").read_text() == "start 77\nend 70_7\n"


@pytest.mark.parametrize("user", ["", "77; rm -rf /", "-1", "٧", "99999999999", "7\n8"])
def test_a_job_id_that_is_no_number_does_nothing(world: World, user: str) -> None:
    for name in HookName:
        world.run(name, SLURM_JOB_ID=user)
    assert len(world.warned) == len(HookName)
    assert not (world.root / "spool" / "events").exists()


@pytest.mark.parametrize(
    ("env", "lines"),
    [
        ({"visible_gpus": (2, 3), "job_gpus": (2, 3)}, ["export CUDA_VISIBLE_DEVICES=3,2"]),
        ({"visible_gpus": (2, 3), "step_gpus": (2, 3)}, ["export CUDA_VISIBLE_DEVICES=3,2"]),
        # Hidden by the devices cgroup: CUDA counts from 0.
        ({"visible_gpus": (0, 1), "job_gpus": (2, 3)}, []),
        # A task bound to one GPU.
        ({"visible_gpus": (2,), "step_gpus": (2,)}, []),
        # Not what was planned.
        ({"visible_gpus": (2, 4), "job_gpus": (2, 4)}, []),
        ({"visible_gpus": ()}, []),
    ],
)
def test_task_prolog_orders_only_what_is_allocated(
    env: dict[str, tuple[int, ...]], lines: list[str]
) -> None:
    plan = Plan(managed=True, gpu_indices=(2, 3), rank_order=(3, 2))
    assert hooks.task_prolog_lines(HookEnv(job_id=1, **env), plan) == lines  # type: ignore[arg-type]


def test_task_prolog_takes_the_model_out_of_what_srun_would_ask_for() -> None:
    env = parse_env(
        {
            "SLURM_JOB_ID": "5",
            "SLURM_GPUS": "h100:8",
            "SLURM_GPUS_PER_NODE": "4",
            "SLURM_GPUS_PER_TASK": "a100:1;reboot",
        }
    )
    assert hooks.task_prolog_lines(env, Plan(managed=False)) == ["export SLURM_GPUS=8"]


@pytest.mark.parametrize(
    ("nics", "chooses", "lines"),
    [
        ({2: "mlx5_0", 3: "mlx5_1"}, False, ["export NCCL_IB_HCA==mlx5_1,mlx5_0"]),
        ({2: "mlx5_0", 3: "mlx5_0"}, False, ["export NCCL_IB_HCA==mlx5_0"]),
        ({2: "mlx5_0", 3: "mlx5_1"}, True, []),
        ({2: "mlx5_0"}, False, []),
        ({}, False, []),
    ],
)
def test_task_prolog_hints_the_nearest_nics(
    nics: dict[int, str], chooses: bool, lines: list[str]
) -> None:
    plan = Plan(managed=True, gpu_indices=(2, 3), rank_order=(3, 2), nics=nics)
    assert hooks.task_prolog_lines(HookEnv(job_id=1, chooses_nics=chooses), plan) == lines


def test_task_prolog_leaves_a_job_alone_that_is_not_managed() -> None:
    env = HookEnv(job_id=1, visible_gpus=(2, 3), job_gpus=(2, 3))
    assert hooks.task_prolog_lines(env, Plan(managed=False)) == []


class Installed:
    """The generated hook scripts, run as Slurm runs them."""

    def __init__(self, root: Path) -> None:
        self.runtime = root / "run"
        (self.runtime / "spool").mkdir(parents=True)
        (self.runtime / "job-map").mkdir()
        self.roost_slurm = Path(sys.executable).parent / "roost-slurm"
        self.scripts = root / "etc"
        self.install()

    def install(self) -> None:
        settings = SiteSettings(runtime_folder=self.runtime, roost_slurm=self.roost_slurm)
        config.write(config.generate([], settings), self.scripts, force=True)

    def run(self, name: str, *, shell_prefix: str = "", **environ: str) -> tuple[int, str, float]:
        """Return the exit code, stdout, and the seconds it took."""
        script = self.scripts / "hooks" / f"{name}.sh"
        start = time.monotonic()
        done = subprocess.run(
            ["/bin/sh", "-c", f"{shell_prefix} exec {shlex.quote(str(script))}"],
            env={**GPU_JOB, **environ},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout, time.monotonic() - start


@pytest.fixture
def installed(tmp_path: Path) -> Installed:
    return Installed(tmp_path)


HOOKS = pytest.mark.parametrize("name", [name.value for name in HookName])


@HOOKS
def test_survives_a_missing_agent(installed: Installed, name: str) -> None:
    code, _, took_s = installed.run(name)
    assert code == 0
    assert took_s < LIMIT_S


@pytest.fixture
def stopped_agent(installed: Installed) -> Iterator[None]:
    """A real process that listens, and is then stopped."""
    code = (
        "import socket, sys, time\n"
        "s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(1)\n"
        "print('up', flush=True); time.sleep(600)"
    )
    path = hooks.agent_socket(installed.runtime)
    path.parent.mkdir()
    argv = [sys.executable, "-c", code, str(path)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGSTOP)
        yield
        process.kill()


@HOOKS
@pytest.mark.usefixtures("stopped_agent")
def test_survives_a_stopped_agent(installed: Installed, name: str) -> None:
    for _ in range(3):  # the backlog fills up
        code, out, took_s = installed.run(name)
        assert (code, out) == (0, "")
        assert took_s < LIMIT_S


@HOOKS
def test_survives_a_full_disk(installed: Installed, name: str) -> None:
    code, _, took_s = installed.run(name, shell_prefix="ulimit -f 0; trap '' XFSZ;")
    assert code == 0
    assert took_s < LIMIT_S
    assert not any((installed.runtime / "job-map").iterdir())


@pytest.mark.parametrize("name", ["prolog", "task-prolog"])  # the script is one for all
@pytest.mark.parametrize("command", ["missing", "hangs", "ignores-term", "crashes"])
def test_survives_a_broken_installation(installed: Installed, name: str, command: str) -> None:
    installed.roost_slurm = installed.runtime / command
    script = {
        "hangs": "#!/bin/sh\nsleep 600\n",
        "ignores-term": "#!/bin/sh\ntrap '' TERM\nwhile :; do sleep 0.05; done\n",
        "crashes": "#!/bin/sh\nkill -SEGV $$\n",
    }
    if command in script:
        installed.roost_slurm.write_text(script[command])
        installed.roost_slurm.chmod(0o755)
    installed.install()
    code, out, took_s = installed.run(name)
    assert (code, out) == (0, "")
    assert took_s < LIMIT_S


@HOOKS
def test_survives_a_hostile_environment(installed: Installed, name: str, tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit(3)")
    evil = {"PYTHONPATH": str(tmp_path), "PYTHONHOME": "/nowhere", "PATH": str(tmp_path)}
    code, _, _ = installed.run(name, **evil)
    assert code == 0
    if name == "prolog-slurmctld":
        events = spool.SpoolReader(installed.runtime / "spool" / "events").drain().events
        assert events == (spool.Started("77"),)


@pytest.mark.parametrize(
    ("name", "environ", "line"),
    [
        ("prolog-slurmctld", {}, "start 77"),
        ("epilog-slurmctld", {}, "end 77"),
        (
            "epilog-slurmctld",
            {"SLURM_ARRAY_JOB_ID": "70", "SLURM_ARRAY_TASK_ID": "7"},
            "end 70_7",
        ),
    ],
)
def test_the_controllers_scripts_write_the_spool(
    installed: Installed, name: str, environ: dict[str, str], line: str
) -> None:
    installed.run(name, **environ)
    assert (installed.runtime / "spool" / "events").read_text() == f"{line}\n"


@pytest.mark.parametrize("job_id", ["", "7;x", "-7", "7\nend 8", "$(id)"])
def test_the_controllers_scripts_refuse_odd_ids(installed: Installed, job_id: str) -> None:
    assert installed.run("prolog-slurmctld", SLURM_JOB_ID=job_id)[0] == 0
    assert not (installed.runtime / "spool" / "events").exists()


@pytest.mark.parametrize("kind", ["pipe", "link", "folder", "full", "no folder"])
def test_the_controllers_scripts_leave_an_odd_spool_alone(
    installed: Installed, kind: str, tmp_path: Path
) -> None:
    path = installed.runtime / "spool" / "events"
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "link":
            path.symlink_to(tmp_path / "target")
        case "folder":
            path.mkdir()
        case "full":
            path.touch()
            os.truncate(path, spool.REFUSE_BYTES)
        case _:
            path.parent.rmdir()
    code, _, took_s = installed.run("epilog-slurmctld")
    assert code == 0
    assert took_s < LIMIT_S
    assert not (tmp_path / "target").exists()
    assert kind != "full" or path.stat().st_size == spool.REFUSE_BYTES


@pytest.mark.parametrize(
    ("name", "environ", "folder", "starts"),
    [
        ("prolog", {}, "", False),
        ("prolog", {}, "run/job-map", True),
        ("prolog", {}, "run-seats", True),
        ("prolog", {"SLURM_JOB_GPUS": ""}, "run/job-map", False),
        ("task-prolog", {}, "", True),
        ("task-prolog", {"SLURM_JOB_GPUS": ""}, "run/job-map", False),
        ("task-prolog", {"SLURM_JOB_GPUS": "", "CUDA_VISIBLE_DEVICES": "0"}, "", True),
        ("task-prolog", {"SLURM_JOB_GPUS": "", "SLURM_GPUS_PER_TASK": "a100:1"}, "", True),
        ("task-prolog", ONE_NODE | {"CUDA_VISIBLE_DEVICES": "0"}, "", False),
        ("task-prolog", ONE_NODE | {"CUDA_VISIBLE_DEVICES": "0", "SLURM_GPUS": "1"}, "", False),
        ("task-prolog", ONE_NODE | {"CUDA_VISIBLE_DEVICES": "0"}, "run-seats", True),
        ("task-prolog", ONE_NODE | {"CUDA_VISIBLE_DEVICES": "0,1"}, "", True),
        ("task-prolog", ONE_NODE | {"SLURM_GPUS": "a100:1"}, "", True),
        ("task-prolog", {"SLURM_JOB_NUM_NODES": "2", "CUDA_VISIBLE_DEVICES": "0"}, "", True),
        ("epilog", {}, "", False),
        ("epilog", {}, "run/job-map", True),
        ("epilog", {}, "run-seats", True),
    ],
)
def test_the_script_starts_python_only_where_there_is_something_to_do(
    installed: Installed, name: str, environ: dict[str, str], folder: str, *, starts: bool
) -> None:
    (installed.runtime / "job-map").rmdir()
    if folder:
        (installed.runtime.parent / folder).mkdir()
    installed.roost_slurm = installed.runtime / "roost-slurm"
    installed.roost_slurm.write_text(f"#!/bin/sh\necho $2 >{installed.runtime}/started\n")
    installed.roost_slurm.chmod(0o755)
    installed.install()
    for _ in range(TRY_COUNT if starts else 1):
        assert installed.run(name, **environ)[0] == 0
        if (installed.runtime / "started").exists():
            break
    assert (installed.runtime / "started").exists() is starts


def test_the_script_passes_on_what_the_task_should_know(installed: Installed) -> None:
    given = {"CUDA_VISIBLE_DEVICES": "2,3", "SLURM_JOB_GPUS": "2,3", "NCCL_IB_HCA": "mine"}
    with FakeAgent(hooks.agent_socket(installed.runtime), {"plan": PLAN}):
        for _ in range(TRY_COUNT):
            _, out, _ = installed.run("task-prolog", **given)
            if out:
                break
    assert out == "export CUDA_VISIBLE_DEVICES=3,2\n"


def test_a_hook_that_hangs_gives_up(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hooks, "DEADLINE_S", 0.2)

    def hang(_env: HookEnv) -> None:
        time.sleep(30)

    around = Surroundings(
        agent=world.around.agent,
        spool_file=world.around.spool_file,
        job_map_folder=world.around.job_map_folder,
        allocation=hang,
        say=world.said.append,
        warn=world.warned.append,
    )
    start = time.monotonic()
    hooks.run(HookName.PROLOG, GPU_JOB, around)
    assert time.monotonic() - start < LIMIT_S
    assert world.warned[-1].endswith("gave up after 0.2 s")


def test_no_deadline_interrupts_the_warning_of_a_fault(world: World) -> None:
    warned: list[tuple[str, float]] = []

    def warn(text: str) -> None:
        warned.append((text, signal.getitimer(signal.ITIMER_REAL)[0]))

    nowhere = world.root / "nowhere" / "events"
    hooks.run(
        HookName.EPILOG_SLURMCTLD, GPU_JOB, world.around._replace(spool_file=nowhere, warn=warn)
    )
    hooks.run(HookName.PROLOG, GPU_JOB, world.around._replace(warn=warn))
    (spool_fault, left_s), (_, of_agent_s) = warned
    assert spool_fault.startswith("roost-slurm hook epilog-slurmctld: FileNotFoundError")
    assert left_s == 0.0
    assert of_agent_s > 0.0  # of a step: the deadline holds


def test_a_step_that_fails_keeps_no_later_step_from_its_work(world: World) -> None:
    """An unsafe job map, a Slurm that raises, a folder of seats that is a file."""

    def fail(_env: HookEnv) -> None:
        raise RuntimeError("no answer")

    (world.root / "seats").write_text("no folder")
    around = world.around._replace(
        allocation=fail, has_seats=True, seats_folder=world.root / "seats"
    )
    hooks.run(HookName.PROLOG, GPU_JOB, around)
    assert world.warned[-1] == "job 77: allocation: RuntimeError: no answer"
    assert world.job_map == {"3": "77\n"}  # what Prolog's own variable says

    world.warned.clear()
    hooks.run(HookName.PROLOG, GPU_JOB, around._replace(allocation=lambda _env: (2, 3)))
    assert world.warned[-1].startswith("job 77: seats: ")
    assert world.job_map == {"2": "77\n", "3": "77\n"}


def test_no_step_is_done_after_the_deadline(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hooks, "DEADLINE_S", 0.2)

    def hang(_env: HookEnv) -> None:
        time.sleep(30)

    hooks.run(HookName.PROLOG, GPU_JOB, world.around._replace(allocation=hang))
    assert world.warned[-1].endswith("gave up after 0.2 s")
    assert world.job_map == {}


def test_scontrol_is_not_found_in_the_users_path(tmp_path: Path) -> None:
    fake = tmp_path / "scontrol"
    fake.write_text("#!/bin/sh\ntouch $0.ran\n")
    fake.chmod(0o755)
    before = os.environ["PATH"]
    try:
        os.environ["PATH"] = f"{tmp_path}:{before}"
        hooks.ask_scontrol(HookEnv(job_id=1, node="n1"), "/nowhere/slurm.conf")
    finally:
        os.environ["PATH"] = before
    assert not (tmp_path / "scontrol.ran").exists()


@pytest.mark.parametrize(
    ("env", "lines"),
    [
        ({"visible_gpus": (11, 13), "job_gpus": (11, 13)}, ["export CUDA_VISIBLE_DEVICES=3,5"]),
        (
            {"visible_gpus": (13,), "step_gpus": (13,), "job_gpus": (11, 13)},
            ["export CUDA_VISIBLE_DEVICES=5"],
        ),
        ({"visible_gpus": (0, 1), "job_gpus": (11, 13)}, []),  # by the devices cgroup
        ({"visible_gpus": (3, 5), "job_gpus": (3, 5)}, []),  # first seats
        ({"visible_gpus": (), "job_gpus": ()}, []),
    ],
)
@pytest.mark.parametrize("managed", [False, True])
def test_task_prolog_tells_cuda_the_gpus_of_second_seats(
    tmp_path: Path, env: dict[str, tuple[int, ...]], lines: list[str], *, managed: bool
) -> None:
    around = World(tmp_path, allocated=(3, 5)).around._replace(has_seats=True)
    plan = Plan(managed=managed, gpu_indices=(3, 5) if managed else ())
    found = HookEnv(job_id=1, **env)  # type: ignore[arg-type]
    assert hooks.second_seat_lines(found, plan, around) == lines
    assert hooks.second_seat_lines(found, plan, around._replace(has_seats=False)) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="TaskProlog believes what root has written")
def test_the_tasks_of_a_job_ask_slurm_once_together(tmp_path: Path) -> None:
    world, asked = World(tmp_path, allocated=(3, 5)), list[int]()

    def allocation(env: HookEnv) -> tuple[int, ...]:
        asked.append(env.job_id)
        return (3, 5)

    folder = tmp_path / "seats"
    around = world.around._replace(has_seats=True, seats_folder=folder, allocation=allocation)
    world.around = around
    world.run(HookName.PROLOG, SLURM_JOB_GPUS="13")
    for _ in range(4):
        world.run(HookName.TASK_PROLOG, SLURM_JOB_GPUS="11,13", CUDA_VISIBLE_DEVICES="11,13")
    assert asked == [77]
    assert world.said == ["export CUDA_VISIBLE_DEVICES=3,5"] * 4
    world.run(HookName.EPILOG)
    assert list(folder.iterdir()) == []
