"""A site's rules: the jobs that Slurm would not start, closed nodes, preemption."""

from dataclasses import replace

import pytest
from tests.daemon.slurm.recorded_site import details, job, jobs, rules, tree
from tests.slurm_glue.recorded import RELEASES

from roost_engine.domain.model import NodeName
from roost_slurm.text.assoc_mgr import Association, AssocMgr, Qos
from roost_slurm.text.partitions import Partition
from roost_slurm.text.qos import PARTITION_MAX_NODES, PARTITION_TIME_LIMIT, QosTraits
from roost_slurm.text.reservations import Reservation
from roost_slurm.text.scheduling import Scheduling
from roostd.slurm.rules.site_rules import SiteRules

NOW_S = 1_000_000.0
HOUR_S = 3_600.0


def at(partition: Partition, **parts: object) -> SiteRules:
    return SiteRules(partitions={partition.name: partition}, **parts)  # type: ignore[arg-type]  # of SiteRules


def named(reason: str | None) -> str | None:
    return None if reason is None else reason.partition(":")[0]


# -- why_not -----------------------------------------------------------------------------------


@pytest.mark.parametrize("release", RELEASES)
def test_what_slurm_never_starts_is_found_under_slurms_name(release: str) -> None:
    site, queue, known = rules(release), jobs(release), details(release)
    found = {name: named(site.why_not(one, known[name])) for name, one in queue.items()}
    assert {name: reason for name, reason in found.items() if reason} == {
        "closed": queue["closed"].reason,
        "too-long": queue["too-long"].reason,
        "group-full": "AssocGrpGRES",
    }


@pytest.mark.parametrize(
    ("partition", "reason"),
    [
        (Partition(name="main"), None),
        (Partition(name="main", state="DOWN"), "PartitionDown"),
        (Partition(name="main", state="INACTIVE"), "PartitionInactive"),
        (Partition(name="main", state="DRAIN"), None),
        (Partition(name="main", max_time_s=1_800.0), "PartitionTimeLimit"),
        (Partition(name="main", max_time_s=3_600.0), None),
        (Partition(name="main", max_node_count=1), None),
        (Partition(name="main", max_node_count=0), "PartitionNodeLimit"),
        (Partition(name="main", allowed_accounts=frozenset({"bio"})), "AccountNotAllowed"),
        (Partition(name="main", allowed_accounts=frozenset({"phys"})), None),
        (Partition(name="main", allowed_accounts=frozenset({"science"})), None),
        (Partition(name="main", denied_accounts=frozenset({"phys"})), "AccountNotAllowed"),
        (Partition(name="main", allowed_qos=frozenset({"high"})), "QOSNotAllowed"),
        (Partition(name="main", denied_qos=frozenset({"normal"})), "QOSNotAllowed"),
        (Partition(name="main", denied_qos=frozenset({"high"})), None),
    ],
)
def test_partition_that_cannot_take_a_job_is_named(
    partition: Partition, reason: str | None
) -> None:
    accounts = tree(Association(account="phys", parent="science"), Association(account="science"))
    site = at(partition, accounting=AssocMgr({}, accounts))
    assert named(site.why_not(job(1, 2), None)) == reason


def test_more_cpus_of_a_node_than_the_partition_has_there_are_named() -> None:
    site = at(Partition(name="main", max_cpus_per_node=4))
    known = replace(next(iter(details("24.11").values())), min_node_count=1)

    def why(cpu_count: int, most_nodes: int | None) -> str | None:
        asked = job(1, 2, cpu_count=cpu_count)
        return named(site.why_not(asked, replace(known, max_node_count=most_nodes)))

    assert why(4, 1) is None
    assert why(5, 1) == "Resources"
    assert why(8, 2) is None
    assert why(9, 2) == "Resources"
    assert why(9, None) is None  # it may spread
    site = at(Partition(name="main", max_cpus_per_socket=2), socket_counts={NodeName("n1"): 2})
    assert why(4, 1) is None
    assert why(5, 1) == "Resources"


def test_flags_of_a_qos_lift_limits_of_the_partition() -> None:
    small = Partition(name="main", max_time_s=60.0, max_node_count=0)
    flags = frozenset({PARTITION_TIME_LIMIT, PARTITION_MAX_NODES})
    lifted = at(small, qos_traits={"normal": QosTraits(name="normal", flags=flags)})
    assert at(small).why_not(job(1, 2), None) is not None
    assert lifted.why_not(job(1, 2), None) is None


def test_unknown_partition_and_site_without_rules_bind_no_job() -> None:
    assert SiteRules().why_not(job(1, 2), None) is None
    assert at(Partition(name="other", state="DOWN")).why_not(job(1, 2), None) is None
    assert SiteRules().quotas(job(1, 2)) == ()
    assert SiteRules().free([job(1, 2)]) == {}


# -- closed_nodes ------------------------------------------------------------------------------


def reservation(start_s: float, end_s: float, *flags: str, **changes: object) -> Reservation:
    return Reservation(
        **{
            "name": "maint",
            "start_epoch_s": NOW_S + start_s,
            "end_epoch_s": NOW_S + end_s,
            "nodes": ("n1", "n2"),
            "flags": frozenset(flags),
            **changes,
        }  # type: ignore[arg-type]  # of Reservation
    )


def closed(one: Reservation, *, read_s: float = NOW_S, **changes: object) -> set[str]:
    site = SiteRules(reservations=(one,), read_epoch_s=read_s)
    return set(site.closed_nodes(job(1, 2, **changes), NOW_S))


def test_window_closes_nodes_to_jobs_that_would_run_into_it() -> None:
    assert closed(reservation(HOUR_S - 1, 2 * HOUR_S)) == {"n1", "n2"}
    assert closed(reservation(HOUR_S, 2 * HOUR_S)) == set()
    assert closed(reservation(-HOUR_S, 1)) == {"n1", "n2"}
    assert closed(reservation(-HOUR_S, 0)) == set()
    assert closed(reservation(10.0, 10.0)) == set()
    assert closed(reservation(10 * HOUR_S, 11 * HOUR_S), time_limit_s=None) == {"n1", "n2"}


def test_job_without_a_time_limit_has_the_partitions() -> None:
    site = SiteRules(
        reservations=(reservation(HOUR_S, 2 * HOUR_S),),
        partitions={"main": Partition(name="main", max_time_s=600.0)},
        read_epoch_s=NOW_S,
    )
    assert site.closed_nodes(job(1, 2, time_limit_s=None), NOW_S) == set()


def test_reservation_that_floats_stays_as_far_ahead_as_it_was_read() -> None:
    """Read 100 s ago as beginning in 600 s: it still begins in 600 s."""
    floats = reservation(500.0, 4_000.0, "TIME_FLOAT")
    assert closed(floats, read_s=NOW_S - 100.0, time_limit_s=600.0) == set()
    assert closed(floats, read_s=NOW_S - 100.0, time_limit_s=601.0) == {"n1", "n2"}
    fixed = reservation(500.0, 4_000.0)
    assert closed(fixed, read_s=NOW_S - 100.0, time_limit_s=600.0) == {"n1", "n2"}


@pytest.mark.parametrize("flag", ["FLEX", "OVERLAP", "MAINT", "IGNORE_JOBS"])
def test_flags_open_a_reservation_to_no_job_that_does_not_name_it(flag: str) -> None:
    users = frozenset({"news"})
    assert closed(reservation(0.0, HOUR_S, flag, users=users)) == {"n1", "n2"}
    assert closed(reservation(0.0, HOUR_S, flag), reservation="maint") == set()
    assert closed(reservation(0.0, HOUR_S, flag), reservation="other") == {"n1", "n2"}


def test_magnetic_reservation_is_open_to_the_accounts_it_draws_in() -> None:
    magnetic = reservation(0.0, HOUR_S, "MAGNETIC", accounts=frozenset({"phys"}))
    assert closed(magnetic) == set()
    assert closed(magnetic, account="bio") == {"n1", "n2"}


# -- preemption --------------------------------------------------------------------------------


@pytest.mark.parametrize("release", RELEASES)
def test_preemption_by_qos_is_read(release: str) -> None:
    site, queue = rules(release), jobs(release)
    assert site.preempts(queue["account-full"]) == {"qos:low", "qos:normal"}
    assert site.preempt_class(queue["low"]) in site.preempts(queue["account-full"])
    assert site.preempts(queue["low"]) == set()
    assert site.preempt_class(queue["remote"]) == "qos:big jobs"


@pytest.mark.parametrize(
    ("of_cluster", "of_qos", "frees"),
    [
        ({"REQUEUE"}, "cluster", True),
        ({"CANCEL"}, "cluster", True),
        ({"SUSPEND", "GANG"}, "cluster", False),
        ({"SUSPEND", "GANG"}, "requeue", True),
        ({"REQUEUE"}, "suspend", False),
        ({"REQUEUE"}, "within", True),
    ],
)
def test_only_modes_that_free_gpus_count(of_cluster: set[str], of_qos: str, frees: bool) -> None:
    site = SiteRules(
        scheduling=Scheduling(preempt_type="preempt/qos", preempt_modes=frozenset(of_cluster)),
        qos_traits={
            "high": QosTraits(name="high", preempts=frozenset({"normal"})),
            "normal": QosTraits(name="normal", preempt_modes=frozenset({of_qos})),
        },
    )
    assert site.preempt_class(job(1, 1)) == ("qos:normal" if frees else "")
    assert site.preempts(job(2, 1, qos="high")) == ({"qos:normal"} if frees else set())


def test_mode_of_a_qos_is_slurmctlds_where_slurmdbd_does_not_answer() -> None:
    site = SiteRules(
        scheduling=Scheduling(preempt_type="preempt/qos", preempt_modes=frozenset({"SUSPEND"})),
        accounting=AssocMgr({"normal": Qos(name="normal", preempt_mode="REQUEUE")}),
    )
    assert site.preempt_class(job(1, 1)) == "qos:normal"
    assert site.preempts(job(1, 1)) == set()


def test_preemption_by_partition_goes_by_tier_and_spares_partitions_that_are_off() -> None:
    requeue, off = frozenset({"REQUEUE"}), frozenset({"OFF"})
    partitions = (
        Partition(name="top", tier=10, preempt_modes=off),
        Partition(name="main", tier=5, preempt_modes=requeue),
        Partition(name="safe", tier=1, preempt_modes=off),
        Partition(name="paused", tier=1, preempt_modes=frozenset({"GANG", "SUSPEND"})),
        Partition(name="low", tier=1, preempt_modes=requeue),
    )
    site = SiteRules(
        scheduling=Scheduling(preempt_type="preempt/partition_prio", preempt_modes=requeue),
        partitions={one.name: one for one in partitions},
    )
    assert site.preempts(job(1, 1, partition="top")) == {"partition:main", "partition:low"}
    assert site.preempts(job(1, 1, partition="main")) == {"partition:low"}
    assert site.preempts(job(1, 1, partition="unknown")) == set()
    assert site.preempt_class(job(1, 1, partition="low")) == "partition:low"
    assert site.preempt_class(job(1, 1, partition="safe")) == ""
    assert site.preempt_class(job(1, 1, partition="unknown")) == ""


@pytest.mark.parametrize(
    ("of_partition", "of_job", "spared_s"),
    [(None, None, 60.0), (None, 5.0, 5.0), (0.0, 5.0, 0.0), (None, 0.0, 0.0)],
)
def test_for_how_long_a_job_is_spared_is_said_by_its_qos_first(
    of_partition: float | None, of_job: float | None, spared_s: float
) -> None:
    site = at(
        Partition(name="main", qos="part"),
        scheduling=Scheduling(preempt_exempt_s=60.0),
        accounting=AssocMgr({name: Qos(name=name) for name in ("part", "normal")}),
        qos_traits={
            "part": QosTraits(name="part", preempt_exempt_s=of_partition),
            "normal": QosTraits(name="normal", preempt_exempt_s=of_job),
        },
    )
    assert site.preempt_exempt_s(job(1, 1)) == spared_s
    assert SiteRules().preempt_exempt_s(job(1, 1)) == 0.0


def test_site_without_preemption_stops_no_job() -> None:
    site = at(Partition(name="main", preempt_modes=frozenset({"REQUEUE"})))
    assert site.preempts(job(1, 1)) == set()
    assert site.preempt_class(job(1, 1)) == ""
