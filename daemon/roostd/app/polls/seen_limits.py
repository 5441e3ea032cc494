"""Slurm's limits and the users' shares as the last poll showed them."""

from collections.abc import Iterator
from dataclasses import replace

from roost_engine.domain.events import Event, QuotasSeen, SharesSeen
from roost_slurm.text.assoc_mgr import AssocMgr
from roostd.slurm.port import QueueSnapshot
from roostd.slurm.rules.shares import user_shares
from roostd.slurm.rules.site_rules import SiteRules


class SeenLimits:
    """See the module.

    Attributes:
        share_count: users whose shares are known.
    """

    def __init__(self) -> None:
        self.share_count = 0
        self._quotas = QuotasSeen(at_s=0.0, free={})
        self._shares = SharesSeen(at_s=0.0, shares={})
        self._shares_read = AssocMgr()  # of which these are the shares

    def apply(self, rules: SiteRules, snapshot: QueueSnapshot, at_s: float) -> Iterator[Event]:
        """Apply a poll, and yield what has changed, as events.

        Args:
            rules: of the site.
            snapshot: the queue, whose running jobs take of the limits.
            at_s: engine time.
        """
        node_cpus = rules.node_cpus(snapshot.jobs, snapshot.details, snapshot.at_epoch_s)
        quotas = QuotasSeen(at_s=at_s, free=rules.free(snapshot.jobs), node_cpus=node_cpus)
        if quotas != replace(self._quotas, at_s=at_s):
            yield quotas
        self._quotas = quotas
        if rules.accounting is self._shares_read:
            return
        self._shares_read = rules.accounting
        shares = user_shares(rules.accounting)
        self.share_count = len(shares)
        if shares != self._shares.shares:
            self._shares = SharesSeen(at_s=at_s, shares=shares)
            yield self._shares

    def introduce(self, at_s: float) -> Iterator[Event]:
        """Yield the events that bring a fresh engine to what was seen."""
        yield replace(self._quotas, at_s=at_s)
        if self._shares.shares:
            yield replace(self._shares, at_s=at_s)
