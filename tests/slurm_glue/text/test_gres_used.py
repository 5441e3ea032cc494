"""GPUs that slurmctld does not know yet, or counts as used where no job is; and why, on a Slurm."""

import time
from contextlib import suppress

import pytest
from tests.conftest import LocalSlurmFactory

from roost_slurm.testing.cluster_plan import ClusterPlan
from roost_slurm.testing.local_slurm import LocalSlurm, LocalSlurmFailed
from roost_slurm.text.commands import show_nodes
from roost_slurm.text.gres_used import has_registered, stranded_gpu_count
from roost_slurm.text.scontrol import ShownNode, parse_jobs, parse_nodes

COUNTS = "gpu:g0:1,gpu:g1:0"
INDICES = "gpu:g0:1(IDX:0),gpu:g1:0(IDX:N/A)"
_TRIES = 5  # on a busy machine a node may register before a job starts there


@pytest.mark.parametrize(
    ("used", "started", "registered"),
    [
        (COUNTS, "None", False),
        (INDICES, "None", True),
        (COUNTS, "2026-11-28T09:00:05", True),  # GPUs without device files have no index
        ("gpu:0", "None", False),
        ("nic:2", "None", True),
        ("", "None", True),
    ],
)
def test_a_node_has_registered_once_slurm_knows_which_gpu_is_which(
    used: str, started: str, registered: bool
) -> None:
    assert has_registered({"GresUsed": used, "SlurmdStartTime": started}) is registered


@pytest.mark.parametrize(
    ("used", "cpus", "flags", "count"),
    [
        (INDICES, "0", {"IDLE"}, 1),
        ("gpu:a100:4(IDX:0-3),nic:2", "0", {"IDLE", "DRAIN"}, 4),
        (INDICES, "2", {"MIXED"}, 0),
        (INDICES, "0", {"IDLE", "COMPLETING"}, 0),
        (COUNTS, "0", {"IDLE"}, 0),  # until the node has registered
        ("gpu:g0:0(IDX:N/A)", "0", {"IDLE"}, 0),
        ("", "0", {"IDLE"}, 0),
        ("gpu:a100:4(IDX:3-0)", "0", {"IDLE"}, 0),  # cannot be read
    ],
)
def test_used_gpus_of_an_idle_node_are_stranded(
    used: str, cpus: str, flags: set[str], count: int
) -> None:
    assert stranded_gpu_count({"GresUsed": used, "CPUAlloc": cpus}, flags) == count


@pytest.mark.parametrize(
    ("state", "shown", "is_open"),
    [
        ("MIXED", "mixed+unregistered", False),
        ("IDLE+POWERED_DOWN", "idle+powered_down", True),  # Slurm boots it first
        ("DOWN", "down", False),
    ],
)
def test_a_node_that_has_not_registered_takes_no_job_of_roosts(
    state: str, shown: str, is_open: bool
) -> None:
    line = (
        f"NodeName=n1 CPUAlloc=0 CPUTot=4 RealMemory=10 AllocMem=0 State={state}"
        f" Gres=gpu:g0:1,gpu:g1:1 GresUsed={COUNTS} SlurmdStartTime=None"
    )
    (node,) = parse_nodes(line)
    assert (node.state, node.is_open) == (shown, is_open)
    (node,) = parse_nodes(line.replace(COUNTS, INDICES))
    assert (node.state, node.is_open) == (state.lower(), state != "DOWN")


@pytest.mark.slurm
@pytest.mark.timeout(400)
def test_slurm_22_05_strands_a_gpu_where_a_job_starts_before_its_node_has_registered(
    local_slurm_factory: LocalSlurmFactory,
) -> None:
    """The cause, on a Slurm without Roost, and the cure."""
    slurm = local_slurm_factory(ClusterPlan.uniform(1, 2))
    if not slurm.run("scontrol", "--version").startswith("slurm-wlm 22.05"):
        pytest.skip("later releases were not seen to do that")
    for _ in range(_TRIES):
        if _start_before_registration(slurm):
            break
    else:
        pytest.fail(f"no job started before its node had registered, in {_TRIES} restarts")

    assert _node(slurm).stranded_gpu_count == 1
    waiting = slurm.submit("--gres=gpu:2", script="true")
    time.sleep(5.0)  # more than two passes of its scheduler
    assert slurm.state(waiting) == "PENDING"

    slurm.run("scontrol", "reconfigure")
    slurm.wait_for_state(waiting, "COMPLETED")
    assert _node(slurm).stranded_gpu_count == 0


def _start_before_registration(slurm: LocalSlurm) -> bool:
    """Restart slurmctld, start a job before the node has registered, and end the job after that."""
    work = slurm.folder.root / "work"
    for name in ("first", "second"):
        (work / name).unlink(missing_ok=True)
    first = slurm.submit("--gres=gpu:1", script=_until_exists("first"))
    slurm.wait_for_state(first, "RUNNING")
    slurm.restart_controller()
    (work / "first").touch()  # its end opens the node
    second = ""
    while not second:
        with suppress(LocalSlurmFailed):  # refused until the node has GPUs
            second = slurm.submit("--gres=gpu:1", script=_until_exists("second"))
    slurm.wait_for_state(second, "RUNNING")
    (record,) = parse_jobs(slurm.show_job(second)).values()
    while _node(slurm).state.endswith("unregistered"):
        time.sleep(0.2)
    (work / "second").touch()
    slurm.wait_for_state(second, "COMPLETED")
    time.sleep(1.0)  # until the node has completed
    return not any(node.gpu_indices for node in record.allocated)


def _until_exists(name: str) -> str:
    return f"until [ -e {name} ]; do sleep 0.05; done"


def _node(slurm: LocalSlurm) -> ShownNode:
    (node,) = parse_nodes(slurm.run(*show_nodes()))
    return node
