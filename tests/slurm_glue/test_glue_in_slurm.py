"""job_submit.lua and the hooks inside a real Slurm."""

import re
import socket
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import LocalSlurmFactory
from tests.slurm_glue.conftest import Runtime

from roost_slurm.hooks.hooks import agent_socket
from roost_slurm.site import config
from roost_slurm.site.config import SiteSettings
from roost_slurm.testing import submit_cost
from roost_slurm.testing.cluster_plan import ClusterPlan, HookPlan, NodePlan, PartitionPlan
from roost_slurm.testing.fake_agent import FakeAgent
from roost_slurm.testing.local_slurm import LocalSlurm
from roost_slurm.text import commands
from roost_slurm.text.scontrol import parse_jobs
from roost_slurm.text.tres import prefix_of

pytestmark = pytest.mark.slurm

FORMS = (
    "--gres=gpu:2",
    "--gpus=2",
    "--gpus-per-node=2",
    "--gpus-per-task=1 -n2",
    "--gpus-per-socket=2 --sockets-per-node=1",
    "--gres=gpu:a100:2",
    "--gpus=a100:2",
    "--gres=gpu",
)
# roost-slurm with the time that a busy machine takes: hooks give up after 0.65 s, and then tell and
# enter nothing. tests/slurm_glue/hooks/test_hooks.py has the real limits.
PATIENT = f"""#!{sys.executable}
import sys
from roost_slurm import start
from roost_slurm.hooks import hooks
hooks.DEADLINE_S, hooks.AGENT_TIMEOUT_S, hooks.SCONTROL_TIMEOUT_S = 20.0, 2.0, 10.0
sys.exit(start.main())
"""


@pytest.fixture(scope="module")
def site(local_slurm_factory: LocalSlurmFactory, public_folder: Path) -> tuple[LocalSlurm, Runtime]:
    """A cluster with the generated script and hooks, and its runtime folder."""
    root = public_folder
    (root / "run").mkdir()
    runtime = Runtime(root / "run")
    runtime.spool_file.parent.chmod(0o777)
    runtime.spool_file.touch()
    runtime.spool_file.chmod(0o666)
    (runtime.root / "job-map").mkdir()
    roost_slurm = root / "roost-slurm"
    roost_slurm.write_text(PATIENT)
    roost_slurm.chmod(0o755)
    settings = SiteSettings(runtime_folder=runtime.root, roost_slurm=roost_slurm)
    config.write(config.generate([], settings), root / "etc")
    hooks = root / "etc" / "hooks"
    for script in hooks.iterdir():
        script.write_text(script.read_text().replace("timeout -k 0.1 0.8 ", "timeout -k 1 25 "))
    nodes = (
        NodePlan(name="n1", features=("a100", "big")),
        NodePlan(name="n2", features=("h100",)),
    )
    plan = ClusterPlan(
        nodes=nodes,
        partitions=(PartitionPlan(), PartitionPlan(name="free")),
        job_submit_lua=runtime.script(models=("a100", "h100")),
        hooks=HookPlan(
            prolog=hooks / "prolog.sh",
            epilog=hooks / "epilog.sh",
            task_prolog=hooks / "task-prolog.sh",
            prolog_slurmctld=hooks / "prolog-slurmctld.sh",
            epilog_slurmctld=hooks / "epilog-slurmctld.sh",
        ),
    )
    return local_slurm_factory(plan), runtime


@pytest.fixture
def cluster(site: tuple[LocalSlurm, Runtime]) -> Iterator[LocalSlurm]:
    """The cluster, with every job of the test cancelled afterwards."""
    cluster, runtime = site
    runtime.stop_beating()
    yield cluster
    cluster.run("scancel", "--user=root", check=False)
    _wait_until(lambda: not cluster.run("squeue", "-h").strip(), "jobs remain")


@pytest.fixture
def live(site: tuple[LocalSlurm, Runtime], cluster: LocalSlurm) -> Runtime:
    """The runtime folder with a heartbeat: main is enforced, the lease is a minute."""
    runtime = site[1]
    runtime.beat(lease_s=60, enforce=("main",))
    return runtime


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_held_and_stamped(cluster: LocalSlurm, live: Runtime, form: str) -> None:
    job = cluster.submit(*form.split())
    shown = cluster.show_job(job)
    assert "JobState=PENDING" in shown
    assert "AdminComment=roost:lease" in shown
    _wait_until(lambda: "Reason=BeginTime" in cluster.show_job(job), "not held by its begin time")
    if "a100" in form:
        assert "Features=a100" in shown
        assert "a100:" not in shown.split("TresPer")[1]


@pytest.mark.parametrize("form", FORMS)
def test_with_a_stale_heartbeat_every_form_runs_as_in_plain_slurm(
    cluster: LocalSlurm, live: Runtime, form: str
) -> None:
    live.beat(lease_s=60, age_s=17)
    job = cluster.submit(*form.split())
    cluster.wait_for_state(job, "RUNNING")
    shown = cluster.show_job(job)
    assert "AdminComment" not in shown
    count = 1 if form == "--gres=gpu" else 2
    assert len(re.findall(r"gpu:g\d:1\(IDX", shown)) == count


def test_a_job_whose_lease_is_not_renewed_starts_by_itself(
    cluster: LocalSlurm, live: Runtime
) -> None:
    live.beat(lease_s=3, enforce=("main",))
    job = cluster.submit("--gres=gpu:2")
    assert cluster.state(job) == "PENDING"
    cluster.wait_for_state(job, "RUNNING", timeout_s=30)
    assert "gpu:g0:1(IDX:0),gpu:g1:1(IDX:1)" in cluster.show_job(job)


def test_a_held_job_starts_when_told(cluster: LocalSlurm, live: Runtime) -> None:
    job = cluster.submit("--gpus=2")
    cluster.run("scontrol", "update", f"jobid={job}", "StartTime=now")
    cluster.wait_for_state(job, "RUNNING")


def test_a_users_begin_time_is_stamped(cluster: LocalSlurm, live: Runtime) -> None:
    soon = cluster.show_job(cluster.submit("--gres=gpu:1", "--begin=now+20"))
    late = cluster.show_job(cluster.submit("--gres=gpu:1", "--begin=now+2hours"))
    for shown in (soon, late):
        assert re.search(r"AdminComment=roost:lease begin=\d{10}", shown)


@pytest.mark.parametrize(
    "options",
    ["", "--gres=gpu:1 -p free", "--gres=gpu:1 --exclusive", "--gres=gpu:g3:1", "--gres=gpu:0"],
)
def test_other_jobs_start_at_once(cluster: LocalSlurm, live: Runtime, options: str) -> None:
    job = cluster.submit(*options.split())
    cluster.wait_for_state(job, "RUNNING")
    assert "AdminComment" not in cluster.show_job(job)


def test_a_heterogeneous_job_is_left_alone(cluster: LocalSlurm, live: Runtime) -> None:
    job = cluster.submit("--gres=gpu:1", ":", "--gres=gpu:2")
    assert "roost:lease" not in cluster.show_job(job)


def test_an_interactive_job_waits_and_runs(cluster: LocalSlurm, live: Runtime) -> None:
    live.beat(lease_s=2, enforce=("main",))
    out = cluster.run("srun", "--gres=gpu:2", "printenv", "SLURM_STEP_GPUS", timeout_s=60)
    assert out == "0,1\n"


def test_an_immediate_job_is_not_refused(cluster: LocalSlurm, live: Runtime) -> None:
    assert cluster.run("srun", "-I", "--gres=gpu:1", "echo", "ran") == "ran\n"


def test_a_whole_array_is_held(cluster: LocalSlurm, live: Runtime) -> None:
    job = cluster.submit("--gres=gpu:1", "--array=1-3")
    assert cluster.run("squeue", "-h", "-r", "-j", job, "-o", "%T").split() == ["PENDING"] * 3


def test_the_owner_may_still_change_and_cancel(cluster: LocalSlurm, live: Runtime) -> None:
    job = cluster.submit("--gres=gpu:1")
    cluster.run("scontrol", "update", f"jobid={job}", "TimeLimit=10")
    cluster.run("scancel", job)
    assert cluster.state(job) == "CANCELLED"


def test_the_spool_tells_submission_start_and_end(cluster: LocalSlurm, live: Runtime) -> None:
    live.spool_file.write_text("")
    job = cluster.submit("--gres=gpu:1", script="true")
    cluster.run("scontrol", "update", f"jobid={job}", "StartTime=now")
    wanted = ["submit 0 main", f"start {job}", f"end {job}"]
    _wait_until(lambda: spooled(live, job) == wanted, f"not {wanted}")


def spooled(live: Runtime, job: str) -> list[str]:
    """Submissions and what was told of a job and its tasks: an earlier job's end may come late."""
    words = [line.split() for line in live.spool_lines()]
    return [
        " ".join(line) for line in words if line[0] == "submit" or line[1].partition("_")[0] == job
    ]


def test_array_tasks_are_spooled_by_their_own_id(cluster: LocalSlurm, live: Runtime) -> None:
    live.spool_file.write_text("")
    job = cluster.submit("--array=4-5", script="true")
    wanted = {f"{word} {job}_{task}" for word in ("start", "end") for task in (4, 5)}
    _wait_until(lambda: set(spooled(live, job)) - {"submit 0 main"} == wanted, f"not {wanted}")


def test_the_job_map_lives_as_long_as_the_job(cluster: LocalSlurm, live: Runtime) -> None:
    job = cluster.submit("--gres=gpu:g2:1,gpu:g5:1")
    folder = live.root / "job-map"

    def names() -> set[str]:  # the hooks write and remove meanwhile
        return {path.name for path in folder.iterdir()}

    cluster.wait_for_state(job, "RUNNING")
    _wait_until(lambda: names() == {"2", "5"}, "not entered")
    assert [(folder / name).read_text() for name in ("2", "5")] == [f"{job}\n"] * 2
    cluster.run("scancel", job)
    _wait_until(lambda: names() == set(), "not removed")


def test_the_task_prolog_orders_the_ranks_and_srun_gets_the_pinned_gpus(
    cluster: LocalSlurm, live: Runtime
) -> None:
    plan: dict[str, Any] = {
        "managed": True,
        "gpu_indices": [2, 5],
        "rank_order": [5, 2],
        "nics": {},
    }
    replies = {"plan": plan, "allocated": {"as_planned": True}}
    with FakeAgent(agent_socket(live.root), replies) as agent:
        job = cluster.submit(
            "--gpus-per-node=2", script="echo $CUDA_VISIBLE_DEVICES; srun printenv SLURM_STEP_GPUS"
        )
        prefix = prefix_of(parse_jobs(cluster.show_job(job))[int(job)].tres["TresPerNode"])
        cluster.run(
            *commands.pin(job, nodes=["n2"], gpu_indices=[2, 5], writes_per_job=True, prefix=prefix)
        )
        cluster.wait_for_state(job, "COMPLETED", "FAILED")
    assert cluster.output(job).split() == ["5,2", "2,5"]
    assert {"op": "allocated", "job_id": int(job), "gpu_indices": [2, 5]} in agent.asked


def test_a_hanging_agent_drains_no_node(cluster: LocalSlurm, live: Runtime) -> None:
    with FakeAgent(agent_socket(live.root), misbehave=_hang):
        job = cluster.submit("--gres=gpu:g1:1", script="true")
        cluster.wait_for_state(job, "COMPLETED")
    assert "drain" not in cluster.run("sinfo", "-h", "-o", "%T")


def test_a_missing_installation_drains_no_node(
    local_slurm_factory: LocalSlurmFactory, tmp_path: Path
) -> None:
    settings = SiteSettings(runtime_folder=tmp_path, roost_slurm=tmp_path / "gone")
    config.write(config.generate([], settings), tmp_path)
    names = {"prolog": "prolog", "epilog": "epilog", "task_prolog": "task-prolog"}
    scripts = {key: tmp_path / "hooks" / f"{name}.sh" for key, name in names.items()}
    plan = replace(ClusterPlan.uniform(1, 1), hooks=HookPlan(**scripts))
    cluster = local_slurm_factory(plan)
    job = cluster.submit("--gres=gpu:1", script="true")
    cluster.wait_for_state(job, "COMPLETED")
    assert "drain" not in cluster.run("sinfo", "-h", "-o", "%T")


def test_a_user_needs_no_access_to_anything(cluster: LocalSlurm, live: Runtime) -> None:
    live.spool_file.write_text("")
    as_nobody = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    answer = cluster.run(*as_nobody, "sbatch", "--parsable", "--gres=gpu:2", "--wrap", "id -u")
    job = answer.strip()
    assert "submit 65534 main" in live.spool_lines()
    cluster.run("scontrol", "update", f"jobid={job}", "StartTime=now")
    cluster.wait_for_state(job, "COMPLETED")
    _wait_until(lambda: cluster.run("sinfo", "-h", "-o", "%T") == "idle\n", "a node is not idle")


def test_its_cost_can_be_measured_inside_slurmctld(live: Runtime) -> None:
    script = live.script(models=("a100",))
    took_s = submit_cost.measure_s(script, "--gres=gpu:a100:2", call_count=50)
    assert len(took_s) == 50
    assert took_s == sorted(took_s)


def test_a_broken_heartbeat_harms_no_submission(cluster: LocalSlurm, live: Runtime) -> None:
    live.heartbeat_file.write_bytes(b"roost 1 \xff\x00\n" * 100)
    job = cluster.submit("--gres=gpu:1")
    cluster.wait_for_state(job, "RUNNING")
    assert "job left to Slurm" not in cluster.controller_log


def _hang(connection: socket.socket) -> None:
    while connection.recv(4096):  # until the hook gives up
        pass


def _wait_until(done: Callable[[], bool], complaint: str, timeout_s: float = 60.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not done():
        assert time.monotonic() < deadline, complaint
        time.sleep(0.05)
