"""The GPU types of a node change just when a job is pinned there and has not started yet."""

from collections.abc import Iterator
from functools import partial

import pytest
from tests.e2e.ledger import planned, until
from tests.e2e.site.bed import assert_runs, nodes_of, site

from roost_demo.stack import Stack

pytestmark = [pytest.mark.slurm, pytest.mark.nvml]

LEASE_S = 15
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
    job_id, pinned = stopped_with_a_pin(stack)
    give_stock_types(stack, pinned)
    stack.slurm.start_controller()
    stack.slurm.stop_node(pinned)
    stack.slurm.start_node(pinned)
    assert_runs(stack, job_id, within_s=90.0)
    assert pinned not in nodes_of(stack, job_id)


def is_pinned(stack: Stack, job_id: str) -> bool:
    return f"event=job_pinned job_id={job_id} " in stack.log("roostd")


def stopped_with_a_pin(stack: Stack) -> tuple[str, str]:
    """Stop slurmctld while a job is pinned and waits; return the job, and the node of its pin."""
    slurm = stack.slurm
    for _ in range(5):
        job_id = slurm.submit("--gres=gpu:2")
        until(partial(is_pinned, stack, job_id), "it is pinned")
        if slurm.state(job_id) == "PENDING":
            slurm.stop_controller()
            (node,) = planned(stack, job_id)
            return job_id, node
        slurm.run("scancel", job_id)  # a turn of Slurm's scheduler came just after the pin
    raise AssertionError("each job started as soon as it was pinned")


def give_stock_types(stack: Stack, node: str) -> None:
    """Change the types of a node as an administrator would who knows nothing of Roost."""
    folder = stack.slurm.folder
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
