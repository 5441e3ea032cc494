import pytest
from tests.slurm_glue.recorded import RELEASES, read

from roost_slurm.text.assoc_mgr import (
    AssocMgr,
    Budget,
    GroupLimits,
    JobLimits,
    Qos,
    parse_assoc_mgr,
)

MAIL, NEWS = 8, 9


def recorded(release: str) -> AssocMgr:
    return parse_assoc_mgr(read(release, "site_assoc_mgr.txt"))


@pytest.mark.parametrize("release", RELEASES)
def test_limits_of_a_qos_are_read(release: str) -> None:
    high = recorded(release).qos["high"]
    assert high.group == GroupLimits(
        tres={"cpu": 100.0, "gres/gpu": 6.0, "gres/h100": 6.0, "license/matlab": 3.0},
        job_count=5.0,
        tres_minutes={"cpu": Budget(10_000_000.0, 0.0, committed=30.0)},
        running_tres_minutes={"gres/gpu": Budget(100_000.0, 60.0)},
        wall_minutes=Budget(10_000.0, 0.0),
    )
    assert high.per_user == GroupLimits(
        tres={"mem": 100_000.0, "node": 2.0, "gres/gpu": 4.0}, job_count=2.0
    )
    assert high.per_account == GroupLimits(tres={"gres/gpu": 5.0}, job_count=4.0)
    assert high.per_job == JobLimits(
        tres={"node": 2.0, "gres/gpu": 8.0},
        tres_per_node={"gres/gpu": 4.0},
        least_tres={"gres/gpu": 1.0},
        wall_minutes=60.0,
    )


@pytest.mark.parametrize("release", RELEASES)
def test_limits_of_minutes_for_each_job_are_read(release: str) -> None:
    text = read(release, "site_assoc_mgr.txt")
    limited = text.replace("MaxTRESMinsPJ=", "MaxTRESMinsPJ=cpu=90,gres/gpu=600")
    assert limited != text
    found = parse_assoc_mgr(limited).qos["big jobs"].per_job
    assert found == JobLimits(tres_minutes={"cpu": 90.0, "gres/gpu": 600.0})


@pytest.mark.parametrize("release", ["24.11", "26.05"])
def test_running_minutes_of_each_user_and_account_are_read(release: str) -> None:
    text = read(release, "site_assoc_mgr.txt")
    for suffix in ("PU", "PA"):
        head, key, rest = text.partition(f"MaxTRESRunMins{suffix}=")
        text = head + key + rest.replace("gres/gpu=N(", "gres/gpu=600(", 1)
    low = parse_assoc_mgr(text).qos["normal"]
    assert low.per_user.running_tres_minutes == {"gres/gpu": Budget(600.0, 0.0)}
    assert low.per_account.running_tres_minutes == {"gres/gpu": Budget(600.0, 0.0)}
    assert low.minutes_used == {NEWS: {"gres/gpu": 30.0}, "phys": {"gres/gpu": 30.0}}


def test_2205_prints_no_running_minutes_of_users_for_it_does_not_limit_them() -> None:
    assert "MaxTRESRunMinsPU" not in read("22.05", "site_assoc_mgr.txt")
    assert not any(one.minutes_used for one in recorded("22.05").qos.values())


@pytest.mark.parametrize("release", RELEASES)
def test_qos_without_limits_has_none_whatever_its_name(release: str) -> None:
    qos = recorded(release).qos
    assert set(qos) == {"normal", "low", "high", "part", "big jobs"}
    assert qos["big jobs"] == Qos(name="big jobs")
    assert qos["low"].preempt_mode == "REQUEUE"


@pytest.mark.parametrize("release", RELEASES)
def test_jobs_association_leads_to_the_root_account(release: str) -> None:
    chain = tuple(recorded(release).chain("hep", MAIL, "main"))
    assert [(one.account, one.user_id) for one in chain] == [
        ("hep", MAIL),
        ("hep", None),
        ("phys", None),
        ("root", None),
    ]
    assert [one.group.tres for one in chain] == [
        {"gres/gpu": 5.0},
        {"gres/gpu": 7.0},
        {"gres/gpu": 10.0, "cpu": 60.0},
        {},
    ]
    assert [one.group.job_count for one in chain] == [None, None, 6.0, None]
    assert chain[0].max_job_count == 3.0
    assert chain[0].per_job == JobLimits(tres={"gres/gpu": 6.0}, wall_minutes=720.0)


@pytest.mark.parametrize("release", RELEASES)
def test_association_of_one_partition_comes_before_the_general_one(release: str) -> None:
    rules = recorded(release)
    assert next(rules.chain("phys", NEWS, "high")).partition == "high"
    assert next(rules.chain("phys", NEWS, "main")).partition == ""
    assert [one.account for one in rules.chain("phys", 12345, "main")] == ["phys", "root"]
    assert tuple(rules.chain("nowhere", NEWS, "main")) == ()


def test_accounts_that_are_each_others_parents_end_the_chain() -> None:
    line = "ClusterName=c Account={} UserName= Partition= Priority=0 ID=1 ParentAccount={}(2) Lft=1"
    rules = parse_assoc_mgr("\n".join((line.format("a", "b"), line.format("b", "a"))))
    assert [one.account for one in rules.chain("a", 1, "")] == ["a", "b"]


@pytest.mark.parametrize("release", RELEASES)
def test_shares_are_read(release: str) -> None:
    text = read(release, "site_assoc_mgr.txt")
    shares = {one.share for one in parse_assoc_mgr(text).associations.values()}
    assert shares == {1.0}
    other = text.replace("Factor=1/", "Factor=40/", 1).replace(
        "Factor=1/1.00", "Factor=2147483647/1.00"
    )
    found = parse_assoc_mgr(other).associations
    assert found["root", None, ""].share == 40.0
    assert found["bio", 5, ""].share is None  # Fairshare=parent


def test_what_is_no_record_is_left_out() -> None:
    assert parse_assoc_mgr("No associations\nQOS=broken\nClusterName=c Account=a\n") == AssocMgr()
    gone = "ClusterName=c Account=a UserName=gone Partition= Priority=0 ID=1"
    assert parse_assoc_mgr(gone) == AssocMgr()
