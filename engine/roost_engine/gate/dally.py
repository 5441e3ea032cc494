"""Delay scheduling as the authors of Dally coded it, with its flaws, as a baseline.

Source: Sharma et al., arXiv 2401.16492, and their simulator as of April 2024. A job of g GPUs waits
for one node until T_M and for one rack until T_R, both in leases since it could first have been
placed:

    T_M = min(ceil(0.8 · hist), max(6, ceil(D(H_M[g]))))    from then on it takes an offer in a rack
    T_R = min(hist,             max(12, ceil(D(H_R[g]))))   from then on it takes any offer
    D(H) = mean(H) + 2 · population deviation(H), in leases; 1 where H is empty or sums to 0

hist: how long a wait is remembered, in leases. H_M[g]: the remembered waits after which jobs of g
GPUs took an offer on one node. H_R[g]: the remembered waits after which they took an offer in one
rack because T_M had passed.

Waits shorter than a lease are not recorded, which makes D too high; waits that were given up are
not recorded either, which makes D too low. gate.delay has neither flaw.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, inf, sqrt

from roost_engine.cluster.tiers import largest_sizes
from roost_engine.domain.model import JobId
from roost_engine.domain.tier import Tier
from roost_engine.policies.protocols import Allow, Defer, GateVerdict, Offer, WaitEnded

AUTO = -1.0
_NODE_FLOOR, _RACK_FLOOR = 6, 12
_NODE_CAP_FRAC = 0.8

_History = list[tuple[float, float]]  # (engine time, wait in leases)


@dataclass(frozen=True, slots=True, kw_only=True)
class DallyConfig:
    """The options of the published simulator's command line.

    Attributes:
        lease_s: length of a lease, above 0.
        hist_leases: how long a wait is remembered, in leases. The published option, "history", is
            in hours, since a lease was an hour.
        node_timer_leases, rack_timer_leases: T_M and T_R set by hand; AUTO in either tunes both.
    """

    reads_predictors = False  # not a field: the gate asks nothing of jobs to come

    lease_s: float = 3_600.0
    hist_leases: float = 24.0
    node_timer_leases: float = AUTO
    rack_timer_leases: float = AUTO

    def __post_init__(self) -> None:
        if not 0 < self.lease_s < inf:
            raise ValueError(f"want a lease of more than 0 s, got {self.lease_s:g}")
        if not 0 < self.hist_leases < inf:
            raise ValueError(f"want a history of more than 0 leases, got {self.hist_leases:g}")
        for leases in (self.node_timer_leases, self.rack_timer_leases):
            if not (leases >= 0 or leases == AUTO):
                raise ValueError(f"want a timer of 0 leases or more, or {AUTO:g}, got {leases:g}")

    @property
    def is_auto(self) -> bool:
        """Return whether the timers are tuned."""
        return AUTO in (self.node_timer_leases, self.rack_timer_leases)


def spread_leases(waits: Sequence[float]) -> float:
    """Return D, the mean plus two population deviations of waits in leases; 1 without any wait."""
    if not waits or sum(waits) == 0:
        return 1.0
    mean = sum(waits) / len(waits)
    return mean + 2.0 * sqrt(sum((wait - mean) ** 2 for wait in waits) / len(waits))


def node_timer_leases(waits: Sequence[float], hist_leases: float) -> float:
    """Return T_M for a history of waits for one node, in leases."""
    return min(ceil(_NODE_CAP_FRAC * hist_leases), max(_NODE_FLOOR, ceil(spread_leases(waits))))


def rack_timer_leases(waits: Sequence[float], hist_leases: float) -> float:
    """Return T_R for a history of waits for one rack, in leases."""
    return min(hist_leases, max(_RACK_FLOOR, ceil(spread_leases(waits))))


class DallyGate:
    """Dally's gate: see the module.

    It uses neither sensitivity nor run times, and does not cap a job's total wait.
    """

    name = "dally"

    def __init__(self, config: DallyConfig | None = None) -> None:
        self.config = config or DallyConfig()
        self._node_waits: dict[int, _History] = {}
        self._rack_waits: dict[int, _History] = {}
        self._took_rack_by_timer: dict[JobId, None] = {}

    def timers_leases(self, gpu_count: int) -> tuple[float, float]:
        """Return T_M and T_R for jobs of this number of GPUs, in leases."""
        config = self.config
        if not config.is_auto:
            return config.node_timer_leases, config.rack_timer_leases
        node_waits = [wait for _, wait in self._node_waits.get(gpu_count, ())]
        rack_waits = [wait for _, wait in self._rack_waits.get(gpu_count, ())]
        return (
            node_timer_leases(node_waits, config.hist_leases),
            rack_timer_leases(rack_waits, config.hist_leases),
        )

    def decide(self, offer: Offer) -> GateVerdict:
        """See policies.GatePolicy."""
        job_id, gpus = offer.job.job_id, _gpu_count(offer)
        self._took_rack_by_timer.pop(job_id, None)
        if offer.tier == Tier.NODE:
            return Allow()
        node_gpus, rack_gpus = largest_sizes(offer.cluster)
        node_leases, rack_leases = self.timers_leases(gpus)
        node_s, rack_s = (leases * self.config.lease_s for leases in (node_leases, rack_leases))
        is_rack = offer.tier == Tier.RACK
        if is_rack and (_has_waited(offer, node_s) or gpus > node_gpus):
            self._took_rack_by_timer[job_id] = None
            return Allow()
        if _has_waited(offer, rack_s) or gpus > rack_gpus:
            return Allow()
        wait_s = min(node_s, rack_s) if is_rack else rack_s
        return Defer(
            until_s=offer.at_s - offer.waited_s + wait_s,
            reason=f"waits for GPUs {Tier(Tier.NODE if is_rack else Tier.RACK).in_words}",
        )

    def note(self, outcome: WaitEnded) -> None:
        """See policies.GatePolicy."""
        job = outcome.job.spec
        by_timer = job.job_id in self._took_rack_by_timer
        self._took_rack_by_timer.pop(job.job_id, None)
        if outcome.tier == Tier.NODE:
            self._record(self._node_waits, job.gpu_count, outcome)
        elif outcome.tier == Tier.RACK and by_timer:
            self._record(self._rack_waits, job.gpu_count, outcome)

    def _record(self, waits: dict[int, _History], gpu_count: int, outcome: WaitEnded) -> None:
        leases = outcome.waited_s / self.config.lease_s
        if not leases >= 1.0:
            return
        oldest_s = outcome.at_s - self.config.hist_leases * self.config.lease_s
        history = [*waits.get(gpu_count, ()), (outcome.at_s, leases)]
        waits[gpu_count] = [entry for entry in history if entry[0] >= oldest_s]


def _gpu_count(offer: Offer) -> int:
    return offer.job.spec.gpu_count


def _has_waited(offer: Offer, wait_s: float) -> bool:
    """Return whether a deadline has come that counts from the beginning of the wait.

    The sum is the one that decide() gives as the deadline, so that rounding cannot defer a job to
    the present instant.
    """
    return offer.at_s - offer.waited_s + wait_s <= offer.at_s
