"""A job that Slurm would not start leaves its GPUs to the jobs behind it."""

import time
from collections.abc import Iterator

import pytest
from tests.e2e.ledger import until
from tests.e2e.site.bed import (
    ALICE,
    BOB,
    CPU_COUNT,
    assert_runs,
    cleared_afterwards,
    jobs,
    nodes_of,
    occupy,
    queue,
    reason,
    site,
)

from roost_demo.stack import Stack
from roost_slurm.testing.cluster_plan import PartitionPlan
from roost_slurm.testing.local_slurm import LocalSlurmFailed
from roost_slurm.testing.site_plan import AccountingPlan, PriorityPlan
from roost_slurm.text.scontrol import parse_jobs

pytestmark = [pytest.mark.slurm, pytest.mark.nvml, pytest.mark.timeout(240)]

BLOCKED_COUNT = 10  # of two GPUs each: more than the cluster has
SHARE_CPUS = 4  # of each node, for all jobs of the partition "share" together, or "sockets"
SOCKETS = 2
MINUTES = 30  # of a GPU, for the running jobs of a user until their time limits
PINNED_S = 6.0  # by then Roost has pinned a job that fits
HAND_OVER_S = 40.0  # longer than SOON_S: no test passes because of it


@pytest.fixture(scope="module")
def cluster() -> Iterator[Stack]:
    with site(
        partitions=(
            PartitionPlan(),
            PartitionPlan(name="side"),
            PartitionPlan(name="narrow", options="MaxNodes=1"),
            PartitionPlan(name="share", options=f"MaxCPUsPerNode={SHARE_CPUS}"),
            PartitionPlan(name="sockets"),
            # Where a partition does not say so, a reservation of GPUs has all cores of its nodes.
            PartitionPlan(name="reserve", options="DefCpuPerGPU=2"),
        ),
        socket_count=SOCKETS,
        licenses="ansys:1",
        accounting=AccountingPlan(),
        priority=PriorityPlan(),
        settings={"slurm": {"hand_over_s": HAND_OVER_S}},
    ) as stack:
        accounting = stack.slurm.accounting
        accounting.add_account("physics")
        accounting.add_qos("four", MaxTRESPerUser="gres/gpu=4")
        accounting.add_qos("one")
        accounting.add_qos("minutes", MaxTRESRunMinsPU=f"gres/gpu={MINUTES}")
        for user in (ALICE, BOB):
            accounting.add_user(user, "physics", qos=("four", "one", "minutes"))
        yield stack


@pytest.fixture
def stack(cluster: Stack) -> Iterator[Stack]:
    with cleared_afterwards(cluster):
        yield cluster


def submit_many(stack: Stack, *options: str, user: str | None = None) -> list[str]:
    return [stack.slurm.submit(*options, user=user) for _ in range(BLOCKED_COUNT)]


def reserve(stack: Stack, node: str, *words: str) -> str:
    """Reserve a node from 2.5 minutes from now on; return the reservation's name."""
    starts = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(time.time() + 150))
    given = {word.partition("=")[0]: word for word in words or ("users=root", "flags=maint")}
    asked = {"starttime": f"starttime={starts}"} | given
    window = (f"nodes={node}", "duration=60", *asked.values())
    return stack.slurm.run("scontrol", "create", "reservation", *window).split()[-1]


def test_a_limit_of_one_user_leaves_the_rest_of_the_cluster_to_others(stack: Stack) -> None:
    blocked = submit_many(stack, "-q", "four", "--gres=gpu:2", user=ALICE)
    other = stack.slurm.submit("-q", "four", "--gres=gpu:4", user=BOB)
    assert_runs(stack, other)
    assert_runs(stack, *blocked[:2])
    assert [stack.slurm.state(job_id) for job_id in blocked].count("RUNNING") == 2


def test_jobs_of_a_user_who_may_have_one_start_in_order(stack: Stack) -> None:
    """Also the first of them: roostd reads a limit that was set just before."""
    stack.slurm.accounting.change("qos", "one", MaxJobsPerUser=1)
    job_ids = [stack.slurm.submit("-q", "one", "--gres=gpu:2", user=ALICE) for _ in range(3)]
    for count, job_id in enumerate(job_ids, start=1):
        assert_runs(stack, job_id)
        states = [stack.slurm.state(other) for other in job_ids[count:]]
        assert states == ["PENDING"] * (len(job_ids) - count), queue(stack.slurm)
        stack.slurm.run("scancel", job_id)


def test_jobs_that_wait_for_a_licence_leave_their_gpus_to_others(stack: Stack) -> None:
    holder = stack.slurm.submit("-L", "ansys", "-c1")
    stack.slurm.wait_for_state(holder, "RUNNING")
    blocked = submit_many(stack, "-L", "ansys", "--gres=gpu:2")
    other = stack.slurm.submit("--gres=gpu:4")
    assert_runs(stack, other)
    stack.slurm.run("scancel", holder)
    assert_runs(stack, blocked[0])


def test_jobs_of_a_partition_that_is_down_leave_their_gpus_to_others(stack: Stack) -> None:
    stack.slurm.run("scontrol", "update", "partitionname=side", "state=down")
    blocked = submit_many(stack, "-p", "side", "--gres=gpu:2")
    other = stack.slurm.submit("--gres=gpu:4")
    assert_runs(stack, other)
    stack.slurm.run("scontrol", "update", "partitionname=side", "state=up")
    assert_runs(stack, blocked[0])


def test_jobs_beyond_the_node_limit_of_their_partition_leave_their_gpus_to_others(
    stack: Stack,
) -> None:
    blocked = submit_many(stack, "-p", "narrow", "-N2", "--gres=gpu:1")
    other = stack.slurm.submit("--gres=gpu:8")
    assert_runs(stack, other)
    said = 4 * HAND_OVER_S
    until(lambda: reason(stack, blocked[0]) == "PartitionNodeLimit", "Slurm says why", said)


def test_a_job_that_would_run_into_a_reservation_goes_to_another_node(stack: Stack) -> None:
    for node in ("n1", "n2"):
        name = reserve(stack, node)
        job_ids = [stack.slurm.submit("--gres=gpu:2", "-t", "10") for _ in range(4)]
        assert_runs(stack, *job_ids)
        assert all(node not in nodes_of(stack, job_id) for job_id in job_ids)
        stack.slurm.run("scancel", *job_ids)
        stack.slurm.run("scontrol", "delete", f"reservationname={name}")


def test_a_job_that_ends_before_a_reservation_uses_its_node(stack: Stack) -> None:
    occupy(stack, "n2")
    reserve(stack, "n1")
    assert_runs(stack, stack.slurm.submit("--gres=gpu:2", "-t", "1"))


def test_jobs_that_share_the_cpus_of_a_partition_leave_their_gpus_to_others(stack: Stack) -> None:
    sharing = [stack.slurm.submit("-p", "share", "-c2", "--gres=gpu:1") for _ in range(6)]
    assert_runs(stack, *sharing[:4])
    other = [stack.slurm.submit("--gres=gpu:6") for _ in stack.nodes]
    assert_runs(stack, *other)
    assert [stack.slurm.state(job_id) for job_id in sharing[4:]] == ["PENDING"] * 2
    stack.slurm.run("scancel", sharing[0])
    assert_runs(stack, sharing[4])


def test_jobs_that_share_the_cpus_of_sockets_leave_their_gpus_to_others(stack: Stack) -> None:
    """22.05 has no such limit: there is nothing to compute."""
    limit = ("partitionname=sockets", f"maxcpuspersocket={SHARE_CPUS // SOCKETS}")
    if not limits_sockets(stack):
        with pytest.raises(LocalSlurmFailed, match="is not supported: maxcpuspersocket"):
            stack.slurm.run("scontrol", "update", *limit)
        return
    stack.slurm.run("scontrol", "update", *limit)
    sharing = [stack.slurm.submit("-p", "sockets", "-c2", "--gres=gpu:1") for _ in range(6)]
    assert_runs(stack, *sharing[:4])
    other = [stack.slurm.submit("--gres=gpu:6") for _ in stack.nodes]
    assert_runs(stack, *other)
    assert [stack.slurm.state(job_id) for job_id in sharing[4:]] == ["PENDING"] * 2
    stack.slurm.run("scancel", sharing[0])
    assert_runs(stack, sharing[4])


def test_gpus_in_a_reservation_are_left_to_the_jobs_of_it(stack: Stack) -> None:
    """22.05 makes no such reservation. Slurm keeps jobs that ask for exact GPUs on them itself."""
    words = ("users=root", "partition=reserve", "tres=gres/gpu=3")
    if not limits_sockets(stack):  # both came in 23.02 and later
        with pytest.raises(LocalSlurmFailed, match="'gres/gpu' not supported with reservations"):
            reserve(stack, "n1", *words)
        return
    name = reserve(stack, "n1", *words)
    occupy(stack, "n2")
    beside = [stack.slurm.submit("--gres=gpu:2", "-t", "10") for _ in range(3)]
    assert_runs(stack, *beside[:2])
    assert {gpu for job_id in beside[:2] for gpu in gpus_of(stack, job_id)} <= set(range(3, 8))
    time.sleep(PINNED_S)
    assert stack.slurm.state(beside[2]) == "PENDING"
    stack.slurm.run("scancel", beside[2])
    before = stack.slurm.submit("--gres=gpu:4", "-t", "1")  # ends before the window
    assert_runs(stack, before)
    stack.slurm.run("scancel", before, *beside)
    stack.slurm.run("scontrol", "delete", f"reservationname={name}")
    until(lambda: len(jobs(stack.slurm)) == 1, "the jobs beside it have ended")

    # Roost may see the ends before or after the reservation.
    name = reserve(stack, "n1", *words, "starttime=now")
    beside = [stack.slurm.submit("--gres=gpu:1", "-t", "10") for _ in range(5)]
    assert_runs(stack, *beside)
    inside = stack.slurm.submit(f"--reservation={name}", "--gres=gpu:3", "-t", "5")
    assert_runs(stack, inside)
    assert gpus_of(stack, inside) == (0, 1, 2)


def test_running_minutes_of_a_user_are_limited_where_slurm_limits_them(stack: Stack) -> None:
    """22.05 stores the limit and does not enforce it: there is nothing to compute."""
    asked = ("-q", "minutes", "--gres=gpu:2", "-t", "10")
    blocked = [stack.slurm.submit(*asked, user=ALICE) for _ in range(8)]
    other = stack.slurm.submit("-q", "minutes", "--gres=gpu:2", "-t", "10", user=BOB)
    assert_runs(stack, blocked[0])
    if limits_minutes(stack):
        assert_runs(stack, other)
        assert [stack.slurm.state(job_id) for job_id in blocked].count("RUNNING") == 1
    else:
        assert_runs(stack, *blocked)


def test_cores_in_a_reservation_leave_the_rest_of_their_nodes_to_others(stack: Stack) -> None:
    reserved = CPU_COUNT - 4
    reserve(stack, "n1", "users=root", f"corecnt={reserved}")
    occupy(stack, "n2")
    beside = [stack.slurm.submit("-c2", "--gres=gpu:1", "-t", "10") for _ in range(4)]
    assert_runs(stack, *beside[:2])
    before = stack.slurm.submit("-c2", "--gres=gpu:6", "-t", "1")  # ends before the window
    assert_runs(stack, before)
    assert [stack.slurm.state(job_id) for job_id in beside[2:]] == ["PENDING"] * 2
    stack.slurm.run("scancel", beside[0])
    assert_runs(stack, beside[2])


def test_a_magnetic_reservation_takes_in_jobs_of_its_users_alone(stack: Stack) -> None:
    reserve(stack, "n1", "starttime=now", f"users={ALICE}", "flags=magnetic")
    occupy(stack, "n2", range(6))
    hers = stack.slurm.submit("-q", "four", "--gres=gpu:4", "-t", "10", user=ALICE)
    his = stack.slurm.submit("-q", "four", "--gres=gpu:2", "-t", "10", user=BOB)
    assert_runs(stack, hers, his)
    assert (nodes_of(stack, hers), nodes_of(stack, his)) == (["n1"], ["n2"])


def test_a_node_drained_just_before_gets_no_job(stack: Stack) -> None:
    for node in ("n1", "n2"):
        stack.slurm.run("scontrol", "update", f"nodename={node}", "state=drain", "reason=fan")
        job_ids = [stack.slurm.submit("--gres=gpu:2") for _ in range(4)]
        assert_runs(stack, *job_ids)
        assert all(node not in nodes_of(stack, job_id) for job_id in job_ids)
        stack.slurm.run("scancel", *job_ids)
        stack.slurm.run("scontrol", "update", f"nodename={node}", "state=resume")


def limits_sockets(stack: Stack) -> bool:
    """Whether this release has limits on the CPUs of each socket."""
    return "MaxCPUsPerSocket" in stack.slurm.run("scontrol", "-o", "show", "partitions")


def gpus_of(stack: Stack, job_id: str) -> tuple[int, ...]:
    """The GPUs that a running job has on its node."""
    (node,) = parse_jobs(stack.slurm.show_job(job_id))[int(job_id)].allocated
    return node.gpu_indices


def limits_minutes(stack: Stack) -> bool:
    """Whether this release prints running minutes of users: it enforces limits on them then."""
    return "MaxTRESRunMinsPU" in stack.slurm.run("scontrol", "-o", "show", "assoc_mgr", "flags=qos")
