"""Limits and shares: only changes are events, and a fresh engine gets what was seen."""

from roost_engine.domain.events import QuotasSeen, SharesSeen
from roost_slurm.text.assoc_mgr import Association, AssocMgr
from roost_slurm.text.partitions import Partition
from roostd.app.polls.seen_limits import SeenLimits
from roostd.slurm.port import QueueSnapshot
from roostd.slurm.rules.site_rules import SiteRules

EMPTY = QueueSnapshot(at_epoch_s=1.0, jobs=())
LIMITED = SiteRules(partitions={"main": Partition(name="main", max_cpus_per_node=2)})


def test_limits_are_an_event_once() -> None:
    seen = SeenLimits()
    assert [type(event) for event in seen.apply(LIMITED, EMPTY, 1.0)] == [QuotasSeen]
    assert not list(seen.apply(LIMITED, EMPTY, 2.0))
    (quotas,) = seen.introduce(3.0)
    assert isinstance(quotas, QuotasSeen)
    assert quotas.at_s == 3.0


def accounting(share: float) -> SiteRules:
    found = (
        Association(account="root"),
        Association(account="root", user_id=5, share=share),
        Association(account="root", user_id=9),
    )
    tree = {(one.account, one.user_id, one.partition): one for one in found}
    return SiteRules(accounting=AssocMgr({}, tree))


def test_shares_are_counted_and_an_event_once() -> None:
    seen = SeenLimits()
    list(seen.apply(SiteRules(), EMPTY, 1.0))
    (event,) = seen.apply(accounting(3.0), EMPTY, 2.0)
    assert isinstance(event, SharesSeen)
    assert event.shares == {5: 0.75, 9: 0.25}
    assert seen.share_count == 2
    assert not list(seen.apply(accounting(3.0), EMPTY, 3.0))
    assert [type(one) for one in seen.introduce(4.0)] == [QuotasSeen, SharesSeen]
