"""GPUs that slurmctld does not know yet, or counts as used where no job is; and why, on a Slurm."""

import time

import pytest
from tests.conftest import LocalSlurmFactory
from tests.slurm_glue.stranding import STRANDING_RELEASE, node_of, strand_gpu, stranded_count

from roost_slurm.testing.cluster_plan import ClusterPlan
from roost_slurm.text.gres_used import has_registered, is_registering, used_gpus
from roost_slurm.text.scontrol import parse_nodes

COUNTS = "gpu:g0:1,gpu:g1:0"
INDICES = "gpu:g0:1(IDX:0),gpu:g1:0(IDX:N/A)"


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
    ("state", "started", "awaited"),
    [
        ("UNKNOWN", "None", True),
        ("MIXED", "None", True),
        ("ALLOCATED+DRAIN", "None", True),
        ("IDLE", "2026-11-28T09:00:05", False),
        ("IDLE*", "None", False),  # does not answer
        ("DOWN", "None", False),
        ("IDLE+CLOUD+POWERED_DOWN", "None", False),
        ("FUTURE", "None", False),
    ],
)
def test_a_node_that_may_come_is_awaited_until_it_has_registered(
    state: str, started: str, awaited: bool
) -> None:
    assert is_registering({"State": state, "SlurmdStartTime": started}) is awaited


@pytest.mark.parametrize(
    ("used", "indices"),
    [
        (INDICES, (0,)),
        ("gpu:a100:4(IDX:0-3),nic:2", (0, 1, 2, 3)),
        (COUNTS, ()),  # until the node has registered
        ("gpu:g0:0(IDX:N/A)", ()),
        ("", ()),
        ("gpu:a100:4(IDX:3-0)", ()),  # cannot be read
    ],
)
def test_slurm_tells_which_gpus_it_counts_as_used(used: str, indices: tuple[int, ...]) -> None:
    assert used_gpus({"GresUsed": used}) == indices


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
    if not slurm.run("scontrol", "--version").startswith(STRANDING_RELEASE):
        pytest.skip("later releases were not seen to do that")
    strand_gpu(slurm)

    assert stranded_count(node_of(slurm)) == 1
    waiting = slurm.submit("--gres=gpu:2", script="true")
    time.sleep(5.0)  # more than two passes of its scheduler
    assert slurm.state(waiting) == "PENDING"

    slurm.run("scontrol", "reconfigure")
    slurm.wait_for_state(waiting, "COMPLETED")
    assert stranded_count(node_of(slurm)) == 0
