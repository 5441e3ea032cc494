"""Limits on single nodes: parts of nodes in reservations, MAGNETIC ones, MaxCPUsPerNode."""

from dataclasses import replace

import pytest
from tests.daemon.slurm.recorded_site import details, job

from roost_engine.domain.model import NodeName, NodeSpec
from roost_engine.testing.builders import node
from roost_slurm.text.partitions import Partition
from roost_slurm.text.reservations import Reservation
from roost_slurm.text.scontrol import AllocatedNode, JobDetail
from roost_slurm.text.squeue import QueuedJob, SlurmJobState
from roostd.slurm.rules.node_limits import NodeLimits

NOW_S = 1_000_000.0
HOUR_S = 3_600.0
CORES = "CPUs beside reservation cores"
PARTITION = "MaxCPUsPerNode main"


def nodes(*names: str, cpu_count: int = 32) -> dict[NodeName, NodeSpec]:
    return {NodeName(name): replace(node(name), cpu_count=cpu_count) for name in names}


def limits(
    *reservations: Reservation,
    most_cpus: int | None = None,
    by_socket: int | None = None,
    **user_ids: int,
) -> NodeLimits:
    most = Partition(name="main", max_cpus_per_node=most_cpus, max_cpus_per_socket=by_socket)
    return NodeLimits(
        reservations=reservations,
        partitions={"main": most},
        nodes=nodes("n1", "n2"),
        socket_counts={NodeName("n1"): 2},
        user_ids=user_ids,
        group_members={"staff": frozenset({9, 10})},
        read_epoch_s=NOW_S,
    )


def reservation(name: str = "cores", *flags: str, **changes: object) -> Reservation:
    """From an hour from now on for an hour."""
    one = Reservation(
        name=name,
        start_epoch_s=NOW_S + HOUR_S,
        end_epoch_s=NOW_S + 2 * HOUR_S,
        nodes=("n1", "n2"),
        flags=frozenset(flags),
    )
    return replace(one, **changes)  # type: ignore[arg-type]  # of Reservation


PART = reservation(cores={"n1": 8, "n2": 6}, cpu_count=14)


def running(number: int, cpu_count: int, name: str = "n1", **changes: object) -> QueuedJob:
    base = job(number, 1, state=SlurmJobState.RUNNING, nodes=name, cpu_count=cpu_count)
    return replace(base, **{"start_epoch_s": NOW_S - 60.0, **changes})  # type: ignore[arg-type]


def allocated(cpu_counts: dict[str, int]) -> JobDetail:
    held = tuple(AllocatedNode(name, (0,), count, 0) for name, count in cpu_counts.items())
    return replace(next(iter(details("24.11").values())), allocated=held)


# -- reservations of some cores ----------------------------------------------------------------


def test_a_reservation_of_some_cores_closes_no_node() -> None:
    assert limits(PART).closed_nodes(job(1, 2, time_limit_s=2 * HOUR_S), NOW_S) == set()


def test_only_jobs_that_would_run_into_its_window_leave_its_cores_alone() -> None:
    site = limits(PART)
    assert site.quotas(job(1, 2, time_limit_s=2 * HOUR_S), NOW_S) == (CORES,)
    assert site.quotas(job(1, 2, time_limit_s=HOUR_S), NOW_S) == ()
    assert site.quotas(job(1, 2, time_limit_s=2 * HOUR_S, reservation="cores"), NOW_S) == ()


def test_the_cores_beside_it_are_shared_by_the_jobs_that_run_into_its_window() -> None:
    queue = [
        running(1, 20, time_limit_s=2 * HOUR_S),
        running(2, 6, time_limit_s=HOUR_S),  # ends before: may have any core
        running(3, 4, time_limit_s=2 * HOUR_S, reservation="cores"),
        job(4, 2, time_limit_s=2 * HOUR_S),
    ]
    assert limits(PART).cpus_left(queue, {}, NOW_S) == {CORES: {"n1": 4.0, "n2": 26.0}}


def test_a_running_job_counts_from_its_start() -> None:
    """One that has run for an hour of two ends before the window; started now, it would not."""
    old = running(1, 20, time_limit_s=2 * HOUR_S, start_epoch_s=NOW_S - HOUR_S)
    assert limits(PART).cpus_left([old], {}, NOW_S) == {CORES: {"n1": 24.0, "n2": 26.0}}


def test_fewer_cpus_than_its_nodes_have_tell_a_part_where_slurm_prints_no_cores() -> None:
    part = reservation(cpu_count=16)
    site = limits(part)
    long = job(1, 2, time_limit_s=2 * HOUR_S)
    assert site.closed_nodes(long, NOW_S) == set()
    assert site.cpus_left([], {}, NOW_S) == {CORES: {"n1": 24.0, "n2": 24.0}}
    whole = limits(reservation(cpu_count=64))
    assert whole.closed_nodes(long, NOW_S) == {"n1", "n2"}
    assert whole.cpus_left([], {}, NOW_S) == {}


def test_nodes_without_gpus_make_a_reservation_a_whole_one_unless_slurm_prints_cores() -> None:
    part = reservation(nodes=("n1", "login"), cpu_count=16)
    long = job(1, 2, time_limit_s=2 * HOUR_S)
    assert limits(part).closed_nodes(long, NOW_S) == {"n1", "login"}
    told = replace(part, cores={"n1": 8, "login": 8})
    assert limits(told).closed_nodes(long, NOW_S) == set()
    assert limits(told).cpus_left([], {}, NOW_S) == {CORES: {"n1": 24.0}}


# -- reservations that draw jobs in ------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "is_open"),
    [
        ({"users": frozenset({"news"})}, True),
        ({"users": frozenset({"mail"})}, False),
        ({"users": frozenset({"unknown"})}, False),
        ({"users": frozenset({"-mail"})}, True),
        ({"users": frozenset({"-news"})}, False),
        ({"accounts": frozenset({"phys"})}, True),
        ({"accounts": frozenset({"bio"})}, False),
        ({"accounts": frozenset({"-bio"})}, True),
        ({"users": frozenset({"news"}), "accounts": frozenset({"phys"})}, True),
        ({"users": frozenset({"news"}), "accounts": frozenset({"bio"})}, False),
        ({"groups": frozenset({"staff"})}, True),
        ({"groups": frozenset({"unknown", "staff"})}, True),
        ({"groups": frozenset({"unknown"})}, False),
        ({"groups": frozenset({"-staff"})}, False),
        ({"groups": frozenset({"staff"}), "accounts": frozenset({"bio"})}, False),
        ({}, False),
    ],
)
def test_a_magnetic_reservation_is_open_to_its_users_and_accounts(
    changes: dict[str, object], is_open: bool
) -> None:
    one = reservation("magnet", "MAGNETIC", start_epoch_s=NOW_S - 1.0, **changes)
    site = limits(one, news=9, mail=8)
    long = job(1, 2, user_id=9, account="phys", time_limit_s=2 * HOUR_S)
    assert site.closed_nodes(long, NOW_S) == (set() if is_open else {"n1", "n2"})


def test_a_magnetic_reservation_to_come_closes_its_nodes_to_its_users_too() -> None:
    """22.05 starts no job there that would run into the window, and draws in none before it."""
    one = reservation("magnet", "MAGNETIC", users=frozenset({"news"}))
    long = job(1, 2, user_id=9, time_limit_s=2 * HOUR_S)
    assert limits(one, news=9).closed_nodes(long, NOW_S) == {"n1", "n2"}


# -- MaxCPUsPerNode ----------------------------------------------------------------------------


def test_jobs_of_a_partition_share_its_cpus_of_each_node() -> None:
    site = limits(most_cpus=6)
    queue = [
        running(1, 2),
        running(2, 6, "n[1-2]"),
        running(3, 8, partition="other"),
        running(4, 1, state=SlurmJobState.COMPLETING),
        job(5, 2, cpu_count=2),
    ]
    known = {2: allocated({"n1": 1, "n2": 5})}
    assert site.cpus_left(queue, known, NOW_S) == {PARTITION: {"n1": 2.0, "n2": 1.0}}
    assert site.quotas(queue[4], NOW_S) == (PARTITION,)
    assert site.quotas(job(5, 2, partition="other"), NOW_S) == ()


def test_a_job_of_unknown_shares_holds_even_parts() -> None:
    assert limits(most_cpus=6).cpus_left([running(1, 6, "n[1-2]")], {}, NOW_S) == {
        PARTITION: {"n1": 3.0, "n2": 3.0}
    }
    broken = running(1, 6, "n[1")
    assert limits(most_cpus=6).cpus_left([broken], {}, NOW_S)[PARTITION] == {"n1": 6.0, "n2": 6.0}


def test_jobs_of_a_partition_share_its_cpus_of_each_socket() -> None:
    """24.11.5: with 2 of each of two sockets, jobs of 3 and 1 CPUs run together, and no third."""
    site = limits(by_socket=2)
    socket = "MaxCPUsPerSocket main"
    assert site.cpus_left([running(1, 3)], {}, NOW_S) == {socket: {"n1": 1.0, "n2": 2.0}}
    assert site.quotas(job(5, 2), NOW_S) == (socket,)
    both = limits(most_cpus=3, by_socket=2)
    assert both.cpus_left([], {}, NOW_S) == {
        PARTITION: {"n1": 3.0, "n2": 3.0},
        socket: {"n1": 4.0, "n2": 2.0},
    }
    assert both.quotas(job(5, 2), NOW_S) == (PARTITION, socket)


def test_only_reservations_of_gpus_are_told_to_jobs_that_run_into_their_windows() -> None:
    gpus = reservation("gpus", cores={"n1": 6}, cpu_count=6, gpu_count=3)
    site = limits(PART, gpus)
    assert site.reserving(job(1, 2, time_limit_s=2 * HOUR_S), NOW_S) == {"gpus"}
    assert site.reserving(job(1, 2, time_limit_s=HOUR_S), NOW_S) == set()
    assert site.reserving(job(1, 2, reservation="gpus", time_limit_s=2 * HOUR_S), NOW_S) == set()


def test_a_site_without_such_limits_counts_nothing() -> None:
    assert limits().cpus_left([running(1, 6)], {}, NOW_S) == {}
    assert limits().quotas(job(1, 2), NOW_S) == ()
