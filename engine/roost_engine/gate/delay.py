"""The delay gate: a job waits for GPUs closer together where that is expected to pay.

Dally (arXiv 2401.16492) showed that a job which the network slows may end sooner if it waits than
if it starts at once on scattered GPUs. What is different here, and why:
docs/design/0007-delay-gate.md.

For a job of class κ that is offered tier o, and for each closer tier t that it could have:

    gain  = run · (1 - v(o) / v(t)) · (1 + crowding · (waiting - 1) · g / G)
    run   = min(rest · v(b) / v(o), lease)
    Δ*    = argmax over Δ of gain · P(T ≤ Δ) - weight · E[min(T, Δ)]
    until = now + min(Δ*, timer - waited, caps - waited)

v(x): relative speed of the job on tier x; b is the closest tier that it could have.
rest: remaining run time at v(b), seconds (prediction.predictors). Without leases, gain is
    rest · (v(b) / v(o) - v(b) / v(t)) seconds.
lease: seconds until a running job renews its lease and is placed again.
crowding, waiting, g, G: a weight; the number of waiting jobs; the GPUs of this job and of the
    cluster. A second in which g of G GPUs are not wasted brings each of the other waiting jobs
    forward by g / G of a second.
T: remaining length of the job's wait for t, by the waiting curve of κ (gate.waiting_curve), given
    how long it has waited for t since it was first offered a farther tier.
timer: T_M or T_R of κ, seconds (gate.timers), but at most half of the run time on o; or a fifth
    of run · (1 - v(o) / v(t)), if that is more: a job that would lose days does not give up after
    minutes.
caps: a share of the time limit, and an absolute number of seconds.

A job takes the offer at once if the network hardly slows it, if much of the cluster is idle, or if
no wait is worth more than none. With `uplink_frac` above 0 a job that is offered GPUs across racks
although a rack could hold it waits for a rack at least

    uplink = min(uplink_frac · rest, half an hour)

while other jobs wait too, because all racks share their uplinks: tables of speeds have jobs that
run alone, and the job would also slow its neighbours there. Figures: docs/results/networks.md.
"""

from copy import deepcopy
from dataclasses import dataclass, field
from math import inf
from operator import itemgetter

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.tiers import closest_tier, usable_gpus
from roost_engine.domain.model import JobId
from roost_engine.domain.tier import Tier
from roost_engine.gate.quiet import QuietState, QuietWaits
from roost_engine.gate.timers import TARGETS, TimerConfig, Timers, TimersState
from roost_engine.gate.waiting_curve import WaitSample
from roost_engine.job_record import JobRecord
from roost_engine.policies.protocols import Allow, Defer, GateVerdict, Offer, WaitEnded
from roost_engine.prediction.predictors import Predictors
from roost_engine.prediction.speed.job_class import Sensitivity, TimerClass
from roost_engine.prediction.speed.speed_predictor import SpeedEstimate

_SHORTEST_S = 1.0  # a wait that ends sooner is not worth an alarm
_RUN_FRAC = 0.5  # of the remaining run time on the offered GPUs: the longest timer
_LOSS_FRAC = 0.2  # of the time lost on the offered GPUs: a wait that no timer shortens
_UPLINK_LONGEST_S = 1_800.0  # wait for a rack because of the uplinks alone


@dataclass(frozen=True, slots=True, kw_only=True)
class DelayConfig:
    """The numbers of the gate. Page: docs/delay.md.

    Attributes:
        timers: numbers of the waiting curves.
        delay_weight: weight of a second of waiting against a second of run time saved; below 1
            jobs wait longer than is best for each alone, which saves GPUs for other jobs.
        limit_frac: longest wait of a job, as a share of its time limit.
        longest_s: longest wait of any job.
        crowding_weight: weight of a second by which other jobs start sooner.
        idle_frac: no job waits while this share of the cluster's GPUs is free.
        lease_s: a started job renews its lease, and is placed again, after this long; inf: it stays
            where it is.
        waits_for_quiet: whether a job also waits for a place whose neighbours cost less; it needs a
            score of neighbours.
        uplink_frac: shortest wait for a rack of a job that is offered GPUs across racks, as a share
            of its remaining run time; 0, as in journals of earlier versions: none.
    """

    reads_predictors = True  # not a field: the gate asks for speeds and run times

    timers: TimerConfig = field(default_factory=TimerConfig)
    delay_weight: float = 1.0
    crowding_weight: float = 1.0
    limit_frac: float = 0.15
    longest_s: float = 86_400.0
    idle_frac: float = 0.5
    lease_s: float = inf
    uplink_frac: float = 0.0
    waits_for_quiet: bool = False

    def __post_init__(self) -> None:
        for name in (
            "delay_weight",
            "crowding_weight",
            "limit_frac",
            "longest_s",
            "idle_frac",
            "uplink_frac",
        ):
            if not getattr(self, name) >= 0:
                raise ValueError(f"want {name} of 0 or more, got {getattr(self, name):g}")
        if not self.lease_s > 0:
            raise ValueError(f"want lease_s above 0, got {self.lease_s:g}")


@dataclass(slots=True)
class OpenWait:
    """A job's present wait for a closer tier than it was offered.

    Attributes:
        queued_s: when the wait began, which tells it from an earlier wait of the job.
        timers: class of the job.
        since_s: by tier, when the job was first offered a farther one; None: it was not.
        was_deferred: whether the job has waited; otherwise it took its first offer.
    """

    queued_s: float
    timers: TimerClass
    since_s: list[float | None]
    was_deferred: bool = False


@dataclass(frozen=True, slots=True)
class DelayState:
    """Everything that the gate knows, as plain data."""

    timers: TimersState = field(default_factory=TimersState)
    waits: tuple[tuple[JobId, OpenWait], ...] = ()
    quiet: QuietState | None = None


class DelayGate:
    """See the module.

    Args:
        config: the numbers.
        predictors: what is expected of jobs; the engine must report waits and runs to the same
            ones. None: such that have learned nothing.
    """

    def __init__(
        self, config: DelayConfig | None = None, predictors: Predictors | None = None
    ) -> None:
        self.config = config or DelayConfig()
        self.timers = Timers(self.config.timers)
        is_on = self.config.waits_for_quiet
        self._quiet = QuietWaits(Timers(self.config.timers)) if is_on else None
        self.predictors = predictors or Predictors()
        self._waits: dict[JobId, OpenWait] = {}

    @property
    def name(self) -> str:
        """The kind of gate as operators set it: `uplink-delay` where it spares the uplinks."""
        return "uplink-delay" if self.config.uplink_frac > 0 else "delay"

    # -- policies.GatePolicy -----------------------------------------------------------------

    def decide(self, offer: Offer) -> GateVerdict:
        """See policies.GatePolicy."""
        verdict = self._for_closer(offer)
        if isinstance(verdict, Defer) or self._quiet is None:
            return verdict
        return self._for_quiet(offer, self._quiet)

    def _for_closer(self, offer: Offer) -> GateVerdict:
        closest = closest_tier(offer.cluster, offer.job.spec)
        if offer.tier <= closest:
            return Allow()
        estimate, timers = self.predictors.classified(offer.job, closest)
        pins = self.timers.pins
        pinned_s = pins.get(str(timers)) if pins else None
        is_insensitive = pinned_s is None and timers.sensitivity is Sensitivity.LOW
        needs_uplinks = self._should_spare_uplinks(offer, closest)
        if is_insensitive and not needs_uplinks:
            return Allow()
        if self._is_idle(offer.cluster):
            return Allow()
        wait = self._open_wait(offer, timers, closest)
        target, left_s = closest, 0.0
        if pinned_s is not None:
            left_s = _first_s(wait) + pinned_s - offer.at_s
        else:
            rest_s = self.predictors.run_times(offer.job, offer.at_s).rest_s()
            if not is_insensitive:
                target, left_s = self._best_wait(offer, wait, estimate, closest, rest_s)
            if needs_uplinks:
                uplink_s = self._uplink_wait_s(offer, wait, rest_s)
                target, left_s = max((target, left_s), (Tier.RACK, uplink_s), key=itemgetter(1))
        left_s = min(left_s, _first_s(wait) + self._cap_s(offer.job) - offer.at_s)
        if left_s < _SHORTEST_S:
            return Allow()
        wait.was_deferred = True
        faster = estimate.speeds.at(target) / estimate.speeds.at(offer.tier)
        why = "off the uplinks" if is_insensitive else f"about {faster:.1f} times as fast"
        return Defer(until_s=offer.at_s + left_s, reason=f"waits for GPUs {target.in_words}: {why}")

    def note(self, outcome: WaitEnded) -> None:
        """See policies.GatePolicy."""
        job_id, tier = outcome.job.job_id, outcome.tier
        if self._quiet is not None:
            self._quiet.note(job_id, outcome.job.queued_s, outcome.at_s)
        wait = self._waits.pop(job_id, None)
        if wait is None or wait.queued_s != outcome.job.queued_s:
            if tier in TARGETS:  # it got the closest tier without a wait
                _, timers = self.predictors.classified(outcome.job, tier)
                self.timers.count(timers, has_waited=False, is_answered=True)
            return
        wanted = Tier.NODE if wait.since_s[Tier.NODE] is not None else Tier.RACK
        is_answered = tier is not None and tier <= wanted
        self.timers.count(wait.timers, has_waited=wait.was_deferred, is_answered=is_answered)
        if not wait.was_deferred:
            return
        for target in TARGETS:
            since_s = wait.since_s[target]
            if since_s is not None:
                came = tier is not None and tier <= target
                sample = WaitSample(outcome.at_s, outcome.at_s - since_s, came)
                self.timers.add(wait.timers, target, sample)

    # -- for restarts ------------------------------------------------------------------------

    def state(self) -> DelayState:
        """Return everything learned and every open wait, as plain data."""
        # A copy: the gate keeps learning.
        quiet = None if self._quiet is None else self._quiet.state()
        return deepcopy(DelayState(self.timers.state(), tuple(self._waits.items()), quiet))

    def restore(self, state: DelayState) -> None:
        """Restore what `state` returned, in place of everything learned since."""
        state = deepcopy(state)
        self.timers.restore(state.timers)
        self._waits = dict(state.waits)
        if self._quiet is not None:
            self._quiet.restore(state.quiet or QuietState())

    # -- a decision --------------------------------------------------------------------------

    def _open_wait(self, offer: Offer, timers: TimerClass, closest: Tier) -> OpenWait:
        """Return the job's present wait, with the present offer noted in it."""
        job_id = offer.job.job_id
        wait = self._waits.get(job_id)
        if wait is None or wait.queued_s != offer.job.queued_s:
            # The record knows the offers that an earlier engine made to the job.
            declined_s = enumerate(offer.job.declined_s)
            since_s = [at_s if target >= closest else None for target, at_s in declined_s]
            wait = self._waits[job_id] = OpenWait(offer.job.queued_s, timers, since_s)
            wait.was_deferred = since_s != [None, None]
        for target in range(closest, offer.tier):
            if wait.since_s[target] is None:
                wait.since_s[target] = offer.at_s
        return wait

    def _best_wait(
        self,
        offer: Offer,
        wait: OpenWait,
        estimate: SpeedEstimate,
        closest: Tier,
        rest_s: float,
    ) -> tuple[Tier, float]:
        """Return the closer tier to wait for, and how many seconds more; 0 s: take the offer.

        The job is expected to run for `rest_s`.
        """
        config, speeds = self.config, estimate.speeds
        here = speeds.at(offer.tier)
        stay_s = rest_s * speeds.at(closest) / here
        run_s, crowd = min(stay_s, config.lease_s), self._crowd(offer)
        best, best_s = closest, 0.0
        timer_s = self.timers.timer_s(wait.timers, offer.tier - 1, offer.at_s)
        for target in map(Tier, range(closest, offer.tier)):
            since_s = wait.since_s[target]
            assert since_s is not None
            waited_s = offer.at_s - since_s
            lost_frac = 1.0 - here / speeds.at(target)
            longest_s = max(min(timer_s, _RUN_FRAC * stay_s), _LOSS_FRAC * run_s * lost_frac)
            gain_s = run_s * lost_frac * crowd
            curve = self.timers.curve(wait.timers, target, offer.at_s)
            left_s = curve.best_stop(waited_s, gain_s, longest_s - waited_s, config.delay_weight)
            if left_s > best_s:
                best, best_s = target, left_s
        return best, best_s

    def _for_quiet(self, offer: Offer, quiet: QuietWaits) -> GateVerdict:
        """Judge an offer that is close enough by what its neighbours cost."""
        job, cluster, at_s, config = offer.job, offer.cluster, offer.at_s, self.config
        lost_frac = offer.lost_frac()
        if quiet.is_quiet(job.job_id, lost_frac):
            return Allow()
        if self._is_idle(cluster):
            return Allow()
        _, timers = self.predictors.classified(job, closest_tier(cluster, job.spec))
        wait = quiet.begin(job.job_id, job.queued_s, timers, at_s)
        rest_s = self.predictors.run_times(job, at_s).rest_s()
        gain_s = min(rest_s, config.lease_s) * lost_frac * self._crowd(offer)
        most_s = _RUN_FRAC * rest_s
        left_s = quiet.left_s(wait, at_s, gain_s, most_s, config.delay_weight)
        left_s = min(left_s, self._cap_s(job) - offer.waited_s)
        if left_s < _SHORTEST_S:
            return Allow()
        why = f"neighbours would cost {100 * lost_frac:.0f} % of its speed"
        return Defer(until_s=at_s + left_s, reason=f"waits for a quiet place: {why}")

    def _is_idle(self, cluster: Cluster) -> bool:
        """Return whether so much of the cluster is free that no job waits."""
        return cluster.free_count() >= self.config.idle_frac * usable_gpus(cluster)

    def _crowd(self, offer: Offer) -> float:
        """Return what a second that the job saves is worth, with the other waiting jobs."""
        share_frac = offer.job.spec.gpu_count / max(usable_gpus(offer.cluster), 1)
        return 1.0 + self.config.crowding_weight * (offer.waiting_count - 1) * share_frac

    def _should_spare_uplinks(self, offer: Offer, closest: Tier) -> bool:
        """Return whether a job that fits a rack is offered GPUs across racks while others wait."""
        is_across = offer.tier > Tier.RACK >= closest
        return is_across and self.config.uplink_frac > 0 and offer.waiting_count > 1

    def _uplink_wait_s(self, offer: Offer, wait: OpenWait, rest_s: float) -> float:
        """Return how many seconds more a job waits for a rack because of the uplinks alone."""
        since_s = wait.since_s[Tier.RACK]
        assert since_s is not None
        longest_s = min(self.config.uplink_frac * rest_s, _UPLINK_LONGEST_S)
        return since_s + longest_s - offer.at_s

    def _cap_s(self, job: JobRecord) -> float:
        limit_s = job.spec.time_limit_s
        if limit_s is None or not limit_s > 0:
            return self.config.longest_s
        return min(self.config.limit_frac * limit_s, self.config.longest_s)


def _first_s(wait: OpenWait) -> float:
    """Return when the job was first offered a farther tier than it could have."""
    return min(since_s for since_s in wait.since_s if since_s is not None)
