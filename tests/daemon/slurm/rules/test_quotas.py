"""Shared limits, on recorded sites and on small ones made by hand."""

import re

import pytest
from tests.daemon.slurm.recorded_site import enforcing, job, jobs, rules, tree
from tests.slurm_glue.recorded import RELEASES, read

from roost_slurm.text.assoc_mgr import Association, AssocMgr, Budget, GroupLimits, Qos
from roost_slurm.text.licenses import License
from roost_slurm.text.partitions import Partition
from roost_slurm.text.qos import OVER_PARTITION_QOS, QosTraits
from roost_slurm.text.scheduling import Scheduling
from roost_slurm.text.squeue import SlurmJobState
from roostd.slurm.rules.site_rules import SiteRules

RUNNING, COMPLETING = SlurmJobState.RUNNING, SlurmJobState.COMPLETING


def gpus(count: float) -> GroupLimits:
    return GroupLimits(tres={"gres/gpu": count})


def site(
    *qos: Qos, associations: tuple[Association, ...] = (), partition_qos: str = ""
) -> SiteRules:
    return enforcing(
        AssocMgr({one.name: one for one in qos}, tree(*associations)),
        partitions={"main": Partition(name="main", qos=partition_qos)},
    )


def uses(site_rules: SiteRules, *words: str, **changes: object) -> dict[str, float]:
    """What a job of 2 GPUs takes, of the quotas whose names hold all the words."""
    taken = site_rules.quotas(job(1, 2, **changes))
    return {
        use.quota: use.amount for use in taken if all(word in use.quota.split() for word in words)
    }


@pytest.mark.parametrize("release", RELEASES)
def test_counted_usage_is_slurmctlds_own(release: str) -> None:
    """slurmctld's numbers in the recording are the oracle: `gres/gpu=6(2)`."""
    free = rules(release).free(jobs(release).values())
    text = read(release, "site_assoc_mgr.txt")
    compared = 0
    for quota, left in free.items():
        name, _, rest = quota.partition(" ")
        whose, _, tres = rest.rpartition(" ")
        if name == "QOSGrpTRES":
            record = rf"^QOS={whose}\("
        elif name == "AssocGrpTRES" and "user=" not in whose and " x" not in quota:
            record = rf"^ClusterName=local Account={whose} UserName= "
        else:
            continue
        limit = rf" GrpTRES=\S*\b{tres}=(\d+)\((\d+)\)"
        match = re.search(f"{record}.*?{limit}", text, re.MULTILINE)
        assert match is not None, quota
        assert left == int(match[1]) - int(match[2]), quota
        compared += 1
    assert compared == 8


@pytest.mark.parametrize("release", RELEASES)
def test_jobs_that_slurm_holds_back_for_a_limit_do_not_fit_in_a_quota(release: str) -> None:
    site_rules, queue = rules(release), jobs(release)
    free = site_rules.free(queue.values())
    exceeded = {
        name: sorted(use.quota for use in site_rules.quotas(one) if use.amount > free[use.quota])
        for name, one in queue.items()
        if one.is_pending
    }
    assert {name: quotas for name, quotas in exceeded.items() if quotas} == {
        "account-full": [
            "QOSMaxTRESPerAccount high account=hep gres/gpu",
            "QOSMaxTRESPerUser high user=mail gres/gpu",
        ],
        "license": ["License matlab"],
        "group-full": ["AssocGrpTRES phys gres/gpu"],
    }


def test_limits_hold_only_where_the_site_enforces_them() -> None:
    limited = site(Qos(name="normal", group=gpus(4.0)))
    assert uses(limited) == {"QOSGrpTRES normal gres/gpu": 2.0}
    unenforced = SiteRules(
        accounting=limited.accounting, scheduling=Scheduling(enforced=frozenset({"associations"}))
    )
    assert unenforced.quotas(job(1, 2)) == ()


def test_licenses_hold_on_a_site_without_accounting() -> None:
    site_rules = SiteRules(licenses={"matlab": License(name="matlab", total_count=4)})
    waits = job(1, 1, licenses="matlab:3,unknown:1")
    runs = job(2, 1, licenses="matlab", state=RUNNING)
    assert [(use.quota, use.amount) for use in site_rules.quotas(waits)] == [
        ("License matlab", 3.0)
    ]
    assert site_rules.free([waits, runs]) == {"License matlab": 3.0}


def test_first_qos_that_sets_a_limit_takes_the_place_of_the_others() -> None:
    account = Association(account="phys", group=gpus(10.0))
    both = site(
        Qos(name="normal", group=gpus(4.0), per_user=GroupLimits(job_count=3)),
        Qos(name="part", group=gpus(6.0)),
        associations=(account,),
        partition_qos="part",
    )
    assert uses(both) == {
        "QOSGrpTRES part gres/gpu": 2.0,
        "QOSMaxJobsPerUser normal uid=9": 1.0,
    }
    over = {"normal": QosTraits(name="normal", flags=frozenset({OVER_PARTITION_QOS}))}
    turned = enforcing(both.accounting, partitions=both.partitions, qos_traits=over)
    assert uses(turned, "gres/gpu") == {"QOSGrpTRES normal gres/gpu": 2.0}


def test_a_job_counts_where_it_is_not_checked_too() -> None:
    """A job bound by the partition's QoS takes from its own QoS all the same."""
    both = site(
        Qos(name="normal", group=gpus(4.0)),
        Qos(name="part", group=gpus(6.0)),
        partition_qos="part",
    )
    runs = job(1, 2, state=RUNNING, nodes="n1")
    assert both.free([runs]) == {
        "QOSGrpTRES part gres/gpu": 4.0,
        "QOSGrpTRES normal gres/gpu": 2.0,
    }


def test_limits_of_groups_hold_at_every_account_above() -> None:
    chain = (
        Association(
            account="phys", user_id=9, user_name="news", group=gpus(4.0), max_job_count=2.0
        ),
        Association(account="phys", parent="root", group=gpus(8.0), max_job_count=1.0),
        Association(account="root", group=GroupLimits(job_count=100.0)),
    )
    assert uses(site(associations=chain)) == {
        "AssocGrpTRES phys user=news gres/gpu": 2.0,
        "AssocMaxJobs phys user=news": 1.0,
        "AssocGrpTRES phys gres/gpu": 2.0,
        "AssocGrpJobs root": 1.0,
    }


def test_limit_on_jobs_of_a_qos_takes_the_place_of_the_associations() -> None:
    mine = (Association(account="phys", user_id=9, max_job_count=2.0),)
    limited = Qos(name="normal", per_account=GroupLimits(job_count=5.0))
    assert uses(site(limited, associations=mine)) == {
        "QOSMaxJobsPerAccount normal account=phys": 1.0
    }


def test_limits_of_users_are_counted_for_each_user_and_of_accounts_for_each_account() -> None:
    limited = Qos(name="normal", per_user=gpus(4.0), per_account=gpus(6.0))
    queue = [
        job(1, 2),
        job(2, 1, state=RUNNING),
        job(3, 2, user_id=8, state=RUNNING),
        job(4, 1, account="bio", state=RUNNING),
        job(5, 3, qos="other", state=RUNNING),
    ]
    assert site(limited).free(queue) == {
        "QOSMaxTRESPerUser normal uid=9 gres/gpu": 2.0,
        "QOSMaxTRESPerAccount normal account=phys gres/gpu": 3.0,
        "QOSMaxTRESPerUser normal uid=8 gres/gpu": 2.0,
        "QOSMaxTRESPerAccount normal account=bio gres/gpu": 5.0,
    }


def test_completing_jobs_have_left_slurms_counts_and_suspended_ones_have_not() -> None:
    limited = site(Qos(name="normal", group=gpus(8.0)))
    queue = [job(1, 2, state=COMPLETING), job(2, 3, state=SlurmJobState.SUSPENDED)]
    assert limited.free(queue) == {"QOSGrpTRES normal gres/gpu": 5.0}


def test_a_node_that_jobs_share_counts_once() -> None:
    limited = site(Qos(name="normal", group=GroupLimits(tres={"node": 4.0})))
    queue = [
        job(1, 1, state=RUNNING, nodes="n[1-2]", tres_total="node=2,gres/gpu=2"),
        job(2, 1, state=RUNNING, nodes="n2"),
    ]
    assert limited.free(queue) == {"QOSGrpTRES normal node": 2.0}


def test_prices_and_measurements_are_no_quotas() -> None:
    limited = site(Qos(name="normal", group=GroupLimits(tres={"billing": 4.0, "energy": 1.0})))
    assert uses(limited, tres_total="cpu=1,billing=9,energy=5") == {}


def test_limit_factor_of_a_qos_widens_the_limits_of_associations() -> None:
    traits = {"wide": QosTraits(name="wide", limit_factor=2.0)}
    accounting = AssocMgr(
        {"wide": Qos(name="wide")}, tree(Association(account="phys", group=gpus(4.0)))
    )
    widened = enforcing(accounting, qos_traits=traits)
    queue = [job(1, 1, qos="wide"), job(2, 3, state=RUNNING)]
    assert widened.free(queue) == {
        "AssocGrpTRES phys gres/gpu x2": 5.0,
        "AssocGrpTRES phys gres/gpu": 1.0,
    }


def test_budgets_of_minutes_are_slurmctlds_own_numbers() -> None:
    group = GroupLimits(
        tres_minutes={"gres/gpu": Budget(1_000.0, 400.0, committed=100.0)},
        running_tres_minutes={"gres/gpu": Budget(500.0, 100.0)},
        wall_minutes=Budget(90.0, 60.0),
    )
    loose = site(Qos(name="normal", group=group))
    assert uses(loose) == {
        "QOSGrpTRESMins normal gres/gpu": 1.0,  # starts as long as anything is left
        "QOSGrpTRESRunMins normal gres/gpu": 120.0,
        "QOSGrpWall normal": 1.0,
    }
    runs = job(1, 2, state=RUNNING)
    assert loose.free([runs]) == {
        "QOSGrpTRESMins normal gres/gpu": 600.0,
        "QOSGrpTRESRunMins normal gres/gpu": 400.0,
        "QOSGrpWall normal": 30.0,
    }
    safe = Scheduling(enforced=frozenset({"associations", "limits", "safe"}))
    strict = SiteRules(scheduling=safe, accounting=loose.accounting)
    assert uses(strict, "QOSGrpTRESMins") == {"QOSGrpTRESMins normal gres/gpu": 120.0}
    assert strict.free([runs])["QOSGrpTRESMins normal gres/gpu"] == 500.0
    assert uses(strict, time_limit_s=None) == {}


def test_running_minutes_are_counted_for_each_user_and_each_account() -> None:
    minutes = GroupLimits(running_tres_minutes={"gres/gpu": Budget(500.0, 0.0)})
    used: dict[int | str, dict[str, float]] = {
        9: {"gres/gpu": 400.0},
        "phys": {"gres/gpu": 450.0},
    }
    limited = site(Qos(name="normal", per_user=minutes, per_account=minutes, minutes_used=used))
    by_user = "QOSMaxTRESRunMinsPerUser normal uid=9 gres/gpu"
    by_account = "QOSMaxTRESRunMinsPerAccount normal account=phys gres/gpu"
    assert uses(limited) == {by_user: 120.0, by_account: 120.0}
    others = job(2, 1, user_id=8)
    assert limited.free([job(1, 2), others]) == {
        by_user: 100.0,
        by_account: 50.0,
        "QOSMaxTRESRunMinsPerUser normal uid=8 gres/gpu": 500.0,
    }
    assert uses(limited, time_limit_s=None) == {}
