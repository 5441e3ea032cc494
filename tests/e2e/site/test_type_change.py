"""The GPU types of a node change just when a job is pinned there and has not started yet."""

from collections.abc import Iterator
from functools import partial

import pytest
from tests.e2e.ledger import until
from tests.e2e.site.bed import assert_runs, nodes_of, site

from roost_demo.stack import Stack

pytestmark = [pytest.mark.slurm, pytest.mark.nvml]

LEASE_S = 15
_TRIES = 5
# So that a pinned job does not start at once.
SLOW = "defer,batch_sched_delay=10,sched_interval=10,sched_min_interval=10000000,bf_interval=10"


@pytest.fixture
def stack() -> Iterator[Stack]:
    with site(scheduler_parameters=SLOW, lease_s=LEASE_S) as stack:
        yield stack


@pytest.mark.timeout(180)
def test_a_job_that_is_pinned_to_types_that_its_node_loses_runs_on_another_one(
    stack: Stack,
) -> None:
    """Slurm 22.05 holds it meanwhile: `BadConstraints`, priority 0."""
    slurm = stack.slurm
    job_id = pinned_job(stack)
    (pinned,) = slurm.run("squeue", "-h", "-j", job_id, "-o", "%n").split()
    give_stock_types(stack, pinned)
    assert_runs(stack, job_id, within_s=90.0)
    assert pinned not in nodes_of(stack, job_id)


def pinned_job(stack: Stack) -> str:
    """Return a job that is pinned and has not started: Slurm may look at its queue just then."""
    for _ in range(_TRIES):
        job_id = stack.slurm.submit("--gres=gpu:2")
        line = f"event=job_pinned job_id={job_id} "
        until(partial(_has_logged, stack, line), "it is pinned")
        if stack.slurm.state(job_id) == "PENDING":
            return job_id
        stack.slurm.run("scancel", job_id)
    pytest.fail(f"each of {_TRIES} jobs started as soon as it was pinned")


def _has_logged(stack: Stack, text: str) -> bool:
    return text in stack.log("roostd")


def give_stock_types(stack: Stack, node: str) -> None:
    """Change the types of a node as an administrator would who knows nothing of Roost."""
    slurm, folder = stack.slurm, stack.slurm.folder
    typed = ",".join(f"gpu:g{index}:1" for index in range(8))
    conf = folder.slurm_conf.read_text().splitlines()
    changed = [
        line.replace(typed, "gpu:a100:8") if line.startswith(f"NodeName={node} ") else line
        for line in conf
    ]
    assert changed != conf
    gres = folder.etc / "gres.conf"
    kept = [line for line in gres.read_text().splitlines() if f"NodeName={node} " not in line]
    kept += [
        f"NodeName={node} Name=gpu Type=a100 File={folder.device(index)}" for index in range(8)
    ]
    folder.slurm_conf.write_text("\n".join(changed) + "\n")
    gres.write_text("\n".join(kept) + "\n")
    slurm.restart_controller()
    slurm.stop_node(node)
    slurm.start_node(node)
