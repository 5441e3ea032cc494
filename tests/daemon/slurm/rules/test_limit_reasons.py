"""Limits that a job exceeds by itself; the names are those of slurmctld's reasons."""

import pytest
from tests.daemon.slurm.recorded_site import enforcing, job, tree

from roost_slurm.text.assoc_mgr import Association, AssocMgr, GroupLimits, JobLimits, Qos
from roost_slurm.text.licenses import License
from roost_slurm.text.partitions import Partition
from roost_slurm.text.qos import QosTraits
from roost_slurm.text.scontrol import JobDetail
from roost_slurm.text.squeue import SlurmJobState
from roostd.slurm.rules.site_rules import SiteRules


def why_not(rules: SiteRules, most_nodes: int | None = None, **changes: object) -> str | None:
    detail = JobDetail(
        number=1,
        state=SlurmJobState.PENDING,
        reason="",
        is_held=False,
        min_node_count=1,
        max_node_count=most_nodes,
        excluded_nodes="",
        required_nodes="",
    )
    reason = rules.why_not(job(1, 4, **changes), detail)
    return None if reason is None else reason.partition(":")[0]


def of_qos(**limits: object) -> SiteRules:
    return enforcing(AssocMgr({"normal": Qos(name="normal", **limits)}))  # type: ignore[arg-type]  # of Qos


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (JobLimits(tres={"gres/gpu": 3.0}), "QOSMaxGRESPerJob"),
        (JobLimits(tres={"gres/gpu": 4.0, "billing": 0.0}), None),
        (JobLimits(tres={"cpu": 3.0}), "QOSMaxCpuPerJobLimit"),
        (JobLimits(tres={"node": 0.0}), "QOSMaxNodePerJobLimit"),
        (JobLimits(tres={"bb/datawarp": -1.0}), "AssociationResourceLimit"),
        (JobLimits(least_tres={"gres/gpu": 5.0}), "QOSMinGRES"),
        (JobLimits(tres_minutes={"gres/gpu": 239.0}), "QOSMaxGRESMinutesPerJob"),
        (JobLimits(tres_minutes={"gres/gpu": 240.0}), None),  # 4 GPUs for an hour
        (JobLimits(wall_minutes=59.0), "QOSMaxWallDurationPerJobLimit"),
        (JobLimits(wall_minutes=60.0), None),
    ],
)
def test_limit_of_a_qos_for_each_job_is_named(limits: JobLimits, reason: str | None) -> None:
    assert why_not(of_qos(per_job=limits)) == reason


def test_limit_for_each_node_binds_a_job_that_may_not_spread() -> None:
    rules = of_qos(per_job=JobLimits(tres_per_node={"gres/gpu": 2.0}))
    assert why_not(rules, most_nodes=1) == "QOSMaxGRESPerNode"
    assert why_not(rules, most_nodes=2) is None
    assert why_not(rules, most_nodes=None) is None


def test_limit_of_a_qos_takes_the_place_of_the_associations() -> None:
    mine = Association(
        account="phys", user_id=9, per_job=JobLimits(tres={"gres/gpu": 2.0}, wall_minutes=30.0)
    )
    users = tree(mine)
    assert why_not(enforcing(AssocMgr({}, users))) == "AssocMaxGRESPerJob"
    assert why_not(enforcing(AssocMgr({}, users)), tres_total="cpu=1") == (
        "AssocMaxWallDurationPerJobLimit"
    )
    wider = Qos(name="normal", per_job=JobLimits(tres={"gres/gpu": 8.0}, wall_minutes=90.0))
    assert why_not(enforcing(AssocMgr({"normal": wider}, users))) is None
    twice = {"normal": QosTraits(name="normal", limit_factor=2.0)}
    by_factor = AssocMgr(
        {"normal": Qos(name="normal", per_job=JobLimits(wall_minutes=90.0))}, users
    )
    assert why_not(enforcing(by_factor, qos_traits=twice)) is None


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        ({"group": GroupLimits(tres={"gres/gpu": 3.0})}, "QOSGrpGRES"),
        ({"group": GroupLimits(tres={"mem": 1.0})}, "QOSGrpMemLimit"),
        ({"group": GroupLimits(job_count=0.0)}, "QOSGrpJobsLimit"),
        ({"per_user": GroupLimits(tres={"cpu": 3.0})}, "QOSMaxCpuPerUserLimit"),
        ({"per_user": GroupLimits(job_count=0.0)}, "QOSMaxJobsPerUserLimit"),
        ({"per_account": GroupLimits(tres={"gres/gpu": 1.0})}, "MaxGRESPerAccount"),
        ({"per_account": GroupLimits(job_count=0.0)}, "MaxJobsPerAccount"),
        ({"group": GroupLimits(tres={"gres/gpu": 4.0}, job_count=1.0)}, None),
    ],
)
def test_shared_limit_below_one_jobs_request_is_named(
    limits: dict[str, GroupLimits], reason: str | None
) -> None:
    assert why_not(of_qos(**limits), tres_total="cpu=4,mem=4M,node=1,gres/gpu=4") == reason


def test_request_for_more_licenses_than_there_are_is_named_without_accounting_too() -> None:
    rules = SiteRules(
        licenses={"matlab": License(name="matlab", total_count=2)},
        partitions={"main": Partition(name="main")},
    )
    assert why_not(rules, licenses="matlab:3") == "Licenses"
    assert why_not(rules, licenses="matlab:2") is None
