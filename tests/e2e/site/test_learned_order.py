"""`order: learned` on every release: short jobs first, unless people or rules say otherwise.

tests/e2e/test_local_learned_order.py has more of it, for one release.
"""

import time
from collections.abc import Iterator
from itertools import cycle

import pytest
from tests.e2e.ledger import Outcome, outcomes, submit, until, wait_until_over
from tests.e2e.site.bed import (
    ALICE,
    BOB,
    CPU_COUNT,
    assert_runs,
    cleared_afterwards,
    occupy,
    queue,
    reason,
    site,
)

from roost_demo.stack import NodeKind, Stack
from roost_proto.v1 import operator_pb2 as pb
from roost_slurm.testing.cluster_plan import ClusterPlan, PartitionPlan
from roost_slurm.testing.site_plan import AccountingPlan
from roost_slurm.text import commands
from roost_slurm.text.versions import parse_version, traits_of

pytestmark = [pytest.mark.slurm, pytest.mark.nvml, pytest.mark.timeout(180)]

NODES = (NodeKind(name="n1", topology="nvswitch8", cpu_count=CPU_COUNT),)
SETTINGS = {"order": {"kind": "learned"}, "slurm": {"poll_interval_s": 1.0}}
PARTITIONS = (
    PartitionPlan(options="PriorityTier=1"),
    PartitionPlan(name="first", options="PriorityTier=10"),
)
PARAMETERS = f"{ClusterPlan.uniform(1).scheduler_parameters},enable_user_top"
LONG_S = 12  # Bob's jobs; Alice's end at once
TURN_S = 40.0  # 8 to 10 s on plain Slurm, see test_turn


@pytest.fixture(scope="module")
def cluster() -> Iterator[Stack]:
    with site(
        nodes=NODES,
        settings=SETTINGS,
        partitions=PARTITIONS,
        scheduler_parameters=PARAMETERS,
        accounting=AccountingPlan(),
    ) as stack:
        accounting = stack.slurm.accounting
        accounting.add_account("physics")
        accounting.add_qos("single", MaxJobsPerUser=1)
        for user in (ALICE, BOB):
            accounting.add_user(user, "physics", qos=("normal", "single"))
        slow = [send(stack, BOB, gpus=1, command=f"sleep {LONG_S}") for _ in range(4)]
        quick = [send(stack, ALICE, gpus=1, command="true") for _ in range(12)]
        wait_until_over(stack.slurm, slow + quick, LONG_S + 120.0)
        yield stack


@pytest.fixture
def stack(cluster: Stack) -> Iterator[Stack]:
    with cleared_afterwards(cluster):
        yield cluster


def send(stack: Stack, user: str, *options: str, gpus: int = 8, command: str = "sleep 1") -> str:
    given = (f"--gres=gpu:{gpus}", "-t30", f"-J{user}-train", *options)
    return submit(stack.slurm, *given, command=command, user=user)


def positions(stack: Stack) -> dict[str, int]:
    """Where each waiting job is in the queue."""
    listed = stack.operator().ListJobs(pb.ListJobsRequest()).jobs
    return {job.job_id: job.turn.position for job in listed if job.HasField("turn")}


def wait_in_order(stack: Stack, order: list[str]) -> None:
    """Wait until these jobs, and no others, are in the queue in this order."""
    deadline_s = time.monotonic() + 60.0
    want = {job_id: place for place, job_id in enumerate(order, 1)}
    while (found := positions(stack)) != want:
        priorities = stack.slurm.run("squeue", "-o", "%i %Q %y %r")
        assert time.monotonic() < deadline_s, f"{found} is not {want}:\n{priorities}"
        time.sleep(0.1)


def ran(stack: Stack, *job_ids: str, timeout_s: float = 60.0) -> dict[str, Outcome]:
    """What became of jobs, once they are over."""
    wait_until_over(stack.slurm, job_ids, timeout_s)
    return outcomes(stack.slurm, job_ids)


def test_short_jobs_start_first_unless_people_or_tiers_say_otherwise(stack: Stack) -> None:
    holder = occupy(stack, "n1")
    early = send(stack, ALICE)
    long_one, long_two, raised = (send(stack, BOB) for _ in range(3))
    late = send(stack, ALICE)
    tiered = send(stack, BOB, "-pfirst")
    until(lambda: len(positions(stack)) == 6, "roostd knows the jobs")
    longs = [long_one, long_two]
    # Since 24.11 jobs of priority/basic all have priority 1, and `top` has nothing to exchange.
    if len(set(stack.slurm.run("squeue", "-h", "-j", ",".join(longs), "-o", "%Q").split())) > 1:
        stack.slurm.run("scontrol", "top", long_two)
        longs.reverse()
    stack.slurm.run("scontrol", "update", f"jobid={raised}", "priority=4294967000")
    order = [tiered, raised, early, late, *longs]
    wait_in_order(stack, order)

    stack.slurm.run("scancel", holder)
    found = ran(stack, *order)
    assert sorted(order, key=lambda job_id: found[job_id].began_s) == order


def test_holds_dependencies_arrays_and_limits_of_a_qos_win_at_once(stack: Stack) -> None:
    holder = occupy(stack, "n1")
    held, long = send(stack, ALICE, "--hold"), send(stack, BOB)
    after = send(stack, ALICE, f"--dependency=afterok:{long}")
    limited = [send(stack, ALICE, "-qsingle", gpus=2, command="sleep 3") for _ in range(2)]
    array = send(stack, BOB, "--array=1-2%1", gpus=2, command="sleep 3")
    late = send(stack, ALICE, gpus=2, command="sleep 3")
    until(lambda: {long, late, f"{array}_1"} <= positions(stack).keys(), "roostd knows the jobs")
    stack.slurm.run("scontrol", "hold", late)
    until(lambda: late not in positions(stack), "a hold wins at once")
    assert positions(stack).keys().isdisjoint({held, after, f"{array}_2"})

    stack.slurm.run("scancel", holder)
    most_of_qos = most_of_array = 0
    deadline_s = time.monotonic() + 60.0
    while {after, *limited} & set(waits_or_runs(stack)) or f"{array}_2" in waits_or_runs(stack):
        assert time.monotonic() < deadline_s, queue(stack.slurm)
        runs = [name for name, state in waits_or_runs(stack).items() if state == "RUNNING"]
        most_of_qos = max(most_of_qos, len({*runs} & {*limited}))
        most_of_array = max(most_of_array, sum(name.startswith(f"{array}_") for name in runs))
        time.sleep(0.2)
    assert (most_of_qos, most_of_array) == (1, 1)
    found = outcomes(stack.slurm, [long, after])
    assert found[after].began_s >= found[long].ended_s
    assert all(reason(stack, job_id).startswith("JobHeld") for job_id in (held, late))
    stack.slurm.run("scontrol", "release", late)
    assert_runs(stack, late)


def waits_or_runs(stack: Stack) -> dict[str, str]:
    """The state of each job and each task of an array that is not over."""
    lines = stack.slurm.run("squeue", "-h", "-r", "-o", "%i %T").splitlines()
    return dict(line.split() for line in lines)


def test_jobs_without_gpus_and_jobs_left_to_slurm_run_beside_the_queue(stack: Stack) -> None:
    holder = occupy(stack, "n1")
    waiting = [send(stack, ALICE) for _ in range(2)]
    until(lambda: positions(stack).keys() == {*waiting}, "roostd knows the jobs")
    cpu = submit(stack.slurm, "-c1", "-t1")
    left = submit(stack.slurm, "-t1", "--gres=gpu:g3:1")
    wait_until_over(stack.slurm, [cpu], 60.0)
    stack.slurm.run("scancel", holder)
    assert ran(stack, *waiting, left)[left].gpus == {"n1": (3,)}


def test_a_job_that_needs_all_cpus_gets_its_turn_in_a_stream_of_cpu_jobs(stack: Stack) -> None:
    release = parse_version(stack.slurm.run(*commands.version()))
    if not traits_of(release).can_untype:
        pytest.skip("this release has no standing pins that can be taken back: see test_turn")
    durations_s = cycle((2, 3, 5, 7))  # so that never all CPUs are free at once

    def feed() -> None:
        stream = ("-J", "stream", "-c", f"{CPU_COUNT // 4}", "-t", "1")
        queued = stack.slurm.run("squeue", "-h", "-t", "PENDING", "-n", "stream").splitlines()
        for _ in range(4 - len(queued)):
            stack.slurm.submit(*stream, script=f"sleep {next(durations_s)}")

    for _ in range(2):
        feed()
        time.sleep(1.5)
    whole = send(stack, BOB, "-c", f"{CPU_COUNT}", "-t1")
    deadline_s = time.monotonic() + TURN_S
    while stack.slurm.state(whole) == "PENDING":
        assert time.monotonic() < deadline_s, queue(stack.slurm)
        feed()
        time.sleep(0.2)
