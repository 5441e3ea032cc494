"""The throw-away cluster: comes up, obeys, and leaves nothing behind."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conftest import LocalSlurmFactory
from tests.e2e.ledger import end_jobs, until

from roost_slurm.testing.cluster_plan import ClusterPlan, NodePlan, PartitionPlan
from roost_slurm.testing.local_slurm import LocalSlurm, LocalSlurmFailed

pytestmark = [pytest.mark.slurm, pytest.mark.usefixtures("local_slurm_factory")]


@pytest.fixture(scope="module")
def running(local_slurm_factory: LocalSlurmFactory) -> LocalSlurm:
    nodes = (
        NodePlan(name="n1", features=("a100",)),
        NodePlan(name="n2", gpu_count=4, cpu_count=8, memory_mib=2000),
        NodePlan(name="cpu1", gpu_count=0),
    )
    return local_slurm_factory(
        ClusterPlan(
            nodes=nodes,
            partitions=(PartitionPlan(), PartitionPlan(name="debug", nodes=("n2",))),
            racks={"rack1": ("n1", "n2"), "rack2": ("cpu1",)},
        )
    )


@pytest.fixture
def cluster(running: LocalSlurm) -> Iterator[LocalSlurm]:
    yield running
    end_jobs(running)


def test_allocates_typed_gpus_by_index(cluster: LocalSlurm) -> None:
    job = cluster.submit("--gres=gpu:g2:1,gpu:g5:1", script="echo $SLURM_JOB_GPUS; sleep 600")
    cluster.wait_for_state(job, "RUNNING")
    assert "GRES=gpu:g2:1(IDX:2),gpu:g5:1(IDX:5)" in cluster.show_job(job)


def test_steps_run(cluster: LocalSlurm) -> None:
    job = cluster.submit("-N2", script="srun echo $SLURM_JOB_NODELIST")
    cluster.wait_for_state(job, "COMPLETED")
    assert cluster.output(job).split() == ["n[1-2]"] * 2


def test_shows_partitions_racks_and_features(cluster: LocalSlurm) -> None:
    assert cluster.run("sinfo", "-h", "-o", "%P").split() == ["main*", "debug"]
    assert "SwitchName=rack1 Level=0" in cluster.run("scontrol", "show", "topology")
    assert "AvailableFeatures=a100" in cluster.run("scontrol", "show", "node", "n1")


def test_jobs_survive_a_controller_restart(cluster: LocalSlurm) -> None:
    job = cluster.submit()
    cluster.wait_for_state(job, "RUNNING")
    cluster.restart_controller()
    assert cluster.state(job) == "RUNNING"


def test_a_killed_controller_comes_back(cluster: LocalSlurm) -> None:
    before = cluster.controller_pid
    cluster.restart_controller(kill=True)
    assert cluster.controller_pid != before
    cluster.wait_for_state(cluster.submit(script="true"), "COMPLETED")


def test_a_command_that_fails_says_why(cluster: LocalSlurm) -> None:
    with pytest.raises(LocalSlurmFailed, match="invalid partition"):
        cluster.submit("-p", "nowhere")


def test_stop_leaves_no_file_and_no_process() -> None:
    with LocalSlurm(ClusterPlan.uniform(1, 2)) as cluster:
        root = cluster.folder.root
        job = cluster.submit(script="trap '' TERM; while :; do sleep 1; done")
        cluster.wait_for_state(job, "RUNNING")
    cluster.stop()  # a second time does no harm
    assert not root.exists()
    assert _processes_of(root) == []


def test_a_cluster_that_cannot_start_is_cleaned_up() -> None:
    plan = ClusterPlan(nodes=(NodePlan(name="n1"),), extra_lines=("NoSuchKey=1",))
    cluster = LocalSlurm(plan)
    with pytest.raises(LocalSlurmFailed, match="NoSuchKey"):
        cluster.start()
    with pytest.raises(LocalSlurmFailed, match="not running"):
        _ = cluster.folder


def test_the_command_cleans_up_on_an_interrupt() -> None:
    argv = [sys.executable, "-m", "roost_slurm.testing", "--nodes=1", "--gpus=1"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        conf = Path(process.stdout.readline().strip().removeprefix("export SLURM_CONF="))
        assert conf.is_file()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 0
    assert not conf.parent.parent.exists()
    assert _processes_of(conf.parent.parent) == []


def _processes_of(root: Path) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if str(root).encode() in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


START_AND_RUN = """
from roost_slurm.testing.cluster_plan import ClusterPlan
from roost_slurm.testing.local_slurm import LocalSlurm
with LocalSlurm(ClusterPlan.uniform(1)) as slurm:
    slurm.wait_for_state(slurm.submit("--gres=gpu:1", script="true"), "COMPLETED")
"""


@pytest.mark.usefixtures("local_slurm_factory")
@pytest.mark.parametrize("own_line", ["127.0.1.1 vm1", ""], ids=["debian", "nameless"])
def test_runs_whatever_the_machine_is_called(tmp_path: Path, own_line: str) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text(f"127.0.0.1 localhost\n{own_line}\n")
    rename = f"hostname vm1 && mount --bind {hosts} /etc/hosts"
    argv = ("unshare", "--uts", "--mount", "sh", "-c", f'{rename} || exit 77; exec "$@"', "-")
    done = subprocess.run(
        (*argv, sys.executable, "-c", START_AND_RUN), capture_output=True, text=True, check=False
    )
    if done.returncode == 77 or done.stderr.startswith("unshare:"):
        pytest.skip("this machine lets nobody make a namespace")
    assert done.returncode == 0, done.stderr


def test_a_killed_command_leaves_nothing_behind() -> None:
    argv = [sys.executable, "-m", "roost_slurm.testing", "--nodes=1", "--gpus=1"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        conf = Path(process.stdout.readline().strip().removeprefix("export SLURM_CONF="))
        root = conf.parent.parent
        assert _processes_of(root)
        process.kill()
    until(lambda: not root.exists() and not _processes_of(root), "all of it is gone")
