"""Makes a real slurmctld 22.05 count a GPU as used that no job has: see gres_used."""

import time
from contextlib import suppress

from roost_slurm.testing.local_slurm import LocalSlurm, LocalSlurmFailed
from roost_slurm.text.commands import show_nodes
from roost_slurm.text.scontrol import ShownNode, parse_jobs, parse_nodes
from roost_slurm.text.stranded import Held, stranded

STRANDING_RELEASE = "slurm-wlm 22.05"
# A job must start in the 4 s before the node has registered, and usually does so after 2 s. On a
# busy machine the node may register first: then it is tried again, and each try takes about 7 s.
_PATIENCE_S = 240.0


def strand_gpu(slurm: LocalSlurm) -> None:
    """Strand a GPU of a cluster of one node with a GPU to spare; other jobs there run on."""
    end_s = time.monotonic() + _PATIENCE_S
    while not _start_before_registration(slurm):
        if time.monotonic() > end_s:
            raise TimeoutError(f"no job started before its node had registered, in {_PATIENCE_S} s")


def node_of(slurm: LocalSlurm) -> ShownNode:
    """Return the node of a cluster of one, as slurmctld shows it."""
    (node,) = parse_nodes(slurm.run(*show_nodes()))
    return node


def stranded_count(node: ShownNode) -> int:
    """Return how many GPUs slurmctld counts as used on an idle node without suspended jobs."""
    if not node.state.startswith("idle"):
        return 0
    return len(stranded(node.used_gpus, node.cpu_allocated_count, node.state, Held()))


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
    while node_of(slurm).state.endswith("unregistered"):
        time.sleep(0.2)
    (work / "second").touch()
    slurm.wait_for_state(second, "COMPLETED")
    while "completing" in node_of(slurm).state:
        time.sleep(0.2)
    return not any(node.gpu_indices for node in record.allocated)


def _until_exists(name: str) -> str:
    return f"until [ -e {name} ]; do sleep 0.05; done"
