"""Jobs with standing pins when roostd is killed: Slurm's own hook unpins them, or nothing harms."""

import signal
from collections.abc import Iterator

import pytest
from tests.e2e.ledger import let_beat_age, until
from tests.e2e.site.bed import assert_runs, cleared_afterwards, occupy, queue, site

from roost_demo.stack import Stack
from roost_slurm.guards.orphaned_pins import waits_pinned
from roost_slurm.text import commands
from roost_slurm.text.scontrol import parse_jobs
from roost_slurm.text.squeue import QueuedJob, parse_queue
from roost_slurm.text.versions import parse_version, traits_of

pytestmark = [pytest.mark.slurm, pytest.mark.nvml]

USERS_WISH = ("--gres=gpu:2", "-t", "10")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Stack]:
    with site() as stack:
        yield stack


@pytest.fixture
def stack(cluster: Stack) -> Iterator[Stack]:
    with cleared_afterwards(cluster):
        yield cluster


def queued(stack: Stack, job_id: str) -> QueuedJob:
    text = stack.slurm.run("env", "TZ=UTC0", *commands.queue())
    return next(job for job in parse_queue(text).jobs if job.job_ids == (job_id,))


def can_untype(stack: Stack) -> bool:
    return traits_of(parse_version(stack.slurm.run(*commands.version()))).can_untype


def fill(stack: Stack) -> dict[str, str]:
    """Take every GPU; n1 ends first. Returns the job on each node, and a short one on n2."""
    return {
        "n1": occupy(stack, "n1", time_limit="30"),
        "n2": occupy(stack, "n2", range(6), time_limit="60"),
        "short": occupy(stack, "n2", range(6, 8), time_limit="60"),
    }


def pinned_by_hand(stack: Stack) -> str:
    """A job that waits as one would that an earlier roostd has pinned to n1, on any release."""
    stack.slurm.run("scontrol", "hold", job_id := stack.slurm.submit(*USERS_WISH))
    shown = parse_jobs(stack.slurm.show_job(job_id))[int(job_id)]
    ((field, was),) = [item for item in shown.tres.items() if item[0].startswith("TresPer")]
    prefix = was.partition("gpu")[0]
    argv = commands.pin(
        job_id,
        nodes=["n1"],
        gpu_indices=[0, 1],
        writes_per_job=field == "TresPerNode",
        admin_comment=f"roost:lease was={field}:{was}",
        prefix=prefix,
    )
    stack.slurm.run(*argv)
    stack.slurm.run("scontrol", "release", job_id)
    return job_id


def test_the_end_of_a_job_lets_slurm_start_a_pinned_job_elsewhere(stack: Stack) -> None:
    if not can_untype(stack):
        pytest.skip("this release cannot take types back: see the next test")
    held = fill(stack)
    job_id = stack.slurm.submit(*USERS_WISH)
    until(lambda: waits_pinned(queued(stack, job_id)), f"it is pinned:\n{queue(stack.slurm)}")
    before = queued(stack, job_id)
    assert before.required_nodes == "n1"
    stack.stop_roostd(signal.SIGKILL)
    let_beat_age(stack)
    stack.slurm.run("scancel", held["short"])
    assert_runs(stack, job_id)
    after = queued(stack, job_id)
    assert after.nodes == "n2"
    assert after.eligible_epoch_s == before.eligible_epoch_s
    assert dict(after.tres).get("TresPerNode") == "gres/gpu:2"


def test_a_pinned_job_keeps_its_types_alone_where_slurm_cannot_take_them_back(stack: Stack) -> None:
    if can_untype(stack):
        pytest.skip("this release takes types back: see the test before")
    stack.stop_roostd(signal.SIGKILL)
    held = fill(stack)
    job_id = pinned_by_hand(stack)
    before = queued(stack, job_id)
    assert waits_pinned(before)
    let_beat_age(stack)
    stack.slurm.run("scancel", held["short"])
    stack.slurm.wait_for_state(held["short"], "CANCELLED", "")
    after = queued(stack, job_id)
    assert after.tres == before.tres
    # Its nodes are freed by roost-unpin.timer: tests/e2e/test_local_orphans.py.
    stack.slurm.run("scancel", held["n1"])
    assert_runs(stack, job_id)
    assert queued(stack, job_id).nodes == "n1"


def test_a_roostd_that_comes_back_pins_the_job_again_with_its_age(stack: Stack) -> None:
    if not can_untype(stack):
        pytest.skip("this release has no standing pins")
    held = fill(stack)
    job_id = stack.slurm.submit(*USERS_WISH)
    until(lambda: waits_pinned(queued(stack, job_id)), "it is pinned")
    before = queued(stack, job_id)
    stack.stop_roostd(signal.SIGKILL)
    stack.start_roostd()
    until(lambda: "job_pinned" in stack.log("roostd").rpartition("roostd_started")[2], "again")
    until(lambda: waits_pinned(queued(stack, job_id)), "it is pinned")
    assert queued(stack, job_id).eligible_epoch_s == before.eligible_epoch_s
    stack.slurm.run("scancel", held["n1"])
    assert_runs(stack, job_id)
