"""Jobs that one of Slurm's rules holds back: judged before a pin, or by Slurm's word after it."""

from dataclasses import replace

import pytest

from roost_engine.domain.model import JobId
from roost_slurm.text.partitions import Partition
from roost_slurm.text.squeue import QueuedJob
from roostd.slurm.rules.held_back import (
    RETRY_S,
    HeldBack,
    HeldBackJobs,
    HoldingBack,
    is_held_by_pin,
)
from roostd.slurm.rules.site_rules import SiteRules

PINNED = "roost:lease was=TresPerJob:gres:gpu:2"
DOWN = SiteRules(partitions={"main": Partition(name="main", state="DOWN")})
ONE, TWO = JobId("1"), JobId("2")


def pending(number: int, reason: str = "Resources", comment: str = PINNED) -> QueuedJob:
    return QueuedJob(
        number=number,
        user_id=1001,
        account="phys",
        qos="normal",
        partition="main",
        reason=reason,
        admin_comment=comment,
    )


class Views:
    """Judges the same jobs in one view after the other."""

    def __init__(self, rules: SiteRules | None = None) -> None:
        self.rules, self.held = rules or SiteRules(), HeldBackJobs()

    def judge(self, at_s: float, *jobs: QueuedJob) -> list[HeldBack | None]:
        holding = HoldingBack(self.held, self.rules, at_s)
        found = [holding.judge(job, None, JobId(str(job.number)), True) for job in jobs]
        self.held = holding.result()
        return found


def test_a_job_in_a_partition_that_is_down_is_held_back_for_as_long() -> None:
    views = Views(DOWN)
    (first,) = views.judge(10.0, pending(1, comment="roost:lease"))
    (second,) = views.judge(50.0, pending(1, comment="roost:lease"))
    assert first is not None
    assert second is not None
    assert second.since_s == 10.0
    assert second.reason == "PartitionDown: partition main is DOWN"
    views.rules = SiteRules()
    assert views.judge(51.0, pending(1)) == [None]


def test_slurms_word_after_a_pin_counts_for_all_jobs_alike() -> None:
    views = Views()
    held, other = views.judge(10.0, pending(1, "QOSMaxGRESPerUser"), pending(2))
    assert held == HeldBack(reason="QOSMaxGRESPerUser", since_s=10.0, until_s=10.0 + RETRY_S)
    assert other == held
    assert views.judge(11.0, replace(pending(3), user_id=1002)) == [None]


def test_a_held_back_job_is_tried_again_and_keeps_its_time() -> None:
    views = Views()
    views.judge(10.0, pending(1, "AssocGrpGRES"))
    assert views.judge(14.0, pending(1, "BeginTime")) != [None]
    assert views.judge(16.0, pending(1, "BeginTime")) == [None]
    (again,) = views.judge(17.0, pending(1, "AssocGrpGRES"))
    assert again is not None
    assert (again.since_s, again.until_s) == (10.0, 17.0 + RETRY_S)


def test_the_time_of_a_job_held_back_long_ago_begins_again() -> None:
    views = Views()
    views.judge(10.0, pending(1, "AssocGrpGRES"))
    for at_s in (21.0, 31.0):
        views.judge(at_s, pending(1))
    (again,) = views.judge(100.0, pending(1, "AssocGrpGRES"))
    assert again is not None
    assert again.since_s == 100.0


@pytest.mark.parametrize("reason", ["Resources", "Priority", "BeginTime", "", "ReqNodeNotAvail"])
def test_a_job_that_only_waits_its_turn_is_not_held_back(reason: str) -> None:
    assert Views().judge(10.0, pending(1, reason)) == [None]


def test_the_reason_of_a_job_that_is_not_pinned_says_nothing() -> None:
    assert Views().judge(10.0, pending(1, "QOSMaxGRESPerUser", "roost:lease")) == [None]


@pytest.mark.parametrize(
    ("reason", "admin_comment", "is_held"),
    [
        ("BadConstraints", "roost:lease was=TresPerNode:gres/gpu:2", True),
        ("JobHeldUser", "roost:lease was=TresPerNode:gres/gpu:2", False),
        ("BadConstraints", "roost:lease", False),
        ("BadConstraints", "", False),
    ],
)
def test_only_a_pinned_job_is_held_by_its_pin(
    reason: str, admin_comment: str, is_held: bool
) -> None:
    assert is_held_by_pin(reason, admin_comment) is is_held
