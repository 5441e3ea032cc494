"""The delay gate: a job waits for GPUs closer together where that is expected to pay.

What Dally found (arXiv 2401.16492): a job that the network hurts may do better to wait than to
start at once on scattered GPUs. What is different here, and why: docs/design/0007-delay-gate.md.

For a job of class κ that is offered tier o, and each closer tier t that it could have:

    gain  = run · (1 - v(o) / v(t)) · (1 + crowding · (waiting - 1) · g / G)
    run   = min(rest · v(b) / v(o), lease)
    Δ*    = argmax over Δ of gain · P(T ≤ Δ) - weight · E[min(T, Δ)]
    until = now + min(Δ*, timer - waited, caps - waited)

v(x): speed of the job on tier x, relative; b is the closest tier that it could have.
rest: remaining run time at v(b), seconds (prediction.run_time). Without leases, gain is
    rest · (v(b) / v(o) - v(b) / v(t)) seconds.
(waiting - 1) · g / G: a second for which g of the cluster's G GPUs are not wasted brings forward
    each of the other jobs that wait by g / G of a second.
T: what is left of its wait for t, by the waiting curve of κ (gate.waiting_curve), given that it
    has waited for t in vain since it was first offered something worse.
timer: T_M or T_R of κ, seconds (gate.timers), at most half of what it would run on o; a fifth of
    run · (1 - v(o) / v(t)) where that is more: who stands to lose days does not give in after
    minutes.
caps: a share of the time limit, and an absolute one.

Nobody waits who is hardly sensitive, while much of the cluster stands idle, or where no Δ is worth
more than nothing.
"""

from copy import deepcopy
from dataclasses import dataclass, field
from math import inf

from roost_engine.cluster.tiers import closest_tier, tier_of, usable_gpus
from roost_engine.domain.model import JobId
from roost_engine.domain.tier import Tier
from roost_engine.gate.timers import TARGETS, TimerConfig, Timers, TimersState, TimerView
from roost_engine.gate.waiting_curve import Wait
from roost_engine.job_record import JobRecord
from roost_engine.policies import Allow, Defer, GateVerdict, Offer, RunEnded, WaitEnded
from roost_engine.prediction.job_class import Sensitivity, TimerClass
from roost_engine.prediction.run_time import RunLengths, RunLengthsState
from roost_engine.prediction.speed import (
    Estimate,
    SensitivityModel,
    SensitivityState,
    SpeedTable,
    work_s,
)

_SHORTEST_S = 1.0  # a wait that ends sooner is not worth an alarm
_RUN_FRAC = 0.5  # of what a job would still run where it is offered to go, the most a timer is
_LOSS_FRAC = 0.2  # of what it would lose there, for which it waits in any case


@dataclass(frozen=True, slots=True, kw_only=True)
class DelayConfig:
    """The numbers of the gate. Page: docs/delay.md.

    Attributes:
        timers: of the waiting curves.
        delay_weight: what a second of waiting counts against a second of run time saved; below 1
            jobs wait more readily than is good for them alone, which spares GPUs for others.
        limit_frac: of its time limit, the most that a job is made to wait in one spell.
        longest_s: the most that any job is made to wait in one spell.
        crowding_weight: what a second by which others start sooner counts.
        idle_frac: nobody waits while so much of the cluster's GPUs is free.
        lease_s: a job that starts is placed anew after so long; inf: it stays where it is.
    """

    timers: TimerConfig = field(default_factory=TimerConfig)
    delay_weight: float = 1.0
    crowding_weight: float = 1.0
    limit_frac: float = 0.15
    longest_s: float = 86_400.0
    idle_frac: float = 0.5
    lease_s: float = inf

    def __post_init__(self) -> None:
        for name in ("delay_weight", "crowding_weight", "limit_frac", "longest_s", "idle_frac"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"want {name} of 0 or more, got {getattr(self, name):g}")
        if not self.lease_s > 0:
            raise ValueError(f"want lease_s above 0, got {self.lease_s:g}")


@dataclass(slots=True)
class Spell:
    """A job's present wait for something better than it was offered.

    Attributes:
        queued_s: when the spell of waiting began, which tells it from an earlier one.
        timers: class of the job.
        since_s: by tier, when it was first offered less than that; None: it was not.
        was_deferred: whether it has waited, or took what it got at once.
    """

    queued_s: float
    timers: TimerClass
    since_s: list[float | None]
    was_deferred: bool = False


@dataclass(frozen=True, slots=True)
class DelayState:
    """Everything that the gate knows, as plain data."""

    timers: TimersState = field(default_factory=TimersState)
    runs: RunLengthsState = field(default_factory=RunLengthsState)
    sensitivity: SensitivityState = field(default_factory=SensitivityState)
    spells: tuple[tuple[JobId, Spell], ...] = ()


class DelayGate:
    """See the module.

    Args:
        config: the numbers.
        table: speeds of the models that jobs may name.
    """

    def __init__(self, config: DelayConfig | None = None, table: SpeedTable | None = None) -> None:
        self.config = config or DelayConfig()
        self.timers = Timers(self.config.timers)
        self.sensitivity = SensitivityModel(table)
        self.runs = RunLengths()
        self._spells: dict[JobId, Spell] = {}

    # -- policies.TunedGate ---------------------------------------------------------------

    def decide(self, offer: Offer) -> GateVerdict:
        """See policies.GatePolicy."""
        spec = offer.job.spec
        closest = closest_tier(offer.cluster, spec)
        if offer.tier <= closest:
            return Allow()
        self.runs.pause(offer.job, offer.at_s)
        estimate, timers = self._class_of(offer.job, closest)
        pinned_s = self.timers.pins.get(str(timers))
        if pinned_s is None and timers.sensitivity is Sensitivity.LOW:
            return Allow()
        if offer.cluster.free_count() >= self.config.idle_frac * usable_gpus(offer.cluster):
            return Allow()
        spell = self._spell(offer, timers, closest)
        target, left_s = self._best_wait(offer, spell, estimate, closest)
        if pinned_s is not None:
            target, left_s = closest, _first_s(spell) + pinned_s - offer.at_s
        left_s = min(left_s, _first_s(spell) + self._cap_s(offer.job) - offer.at_s)
        if left_s < _SHORTEST_S:
            return Allow()
        spell.was_deferred = True
        faster = estimate.speeds.at(target) / estimate.speeds.at(offer.tier)
        return Defer(
            until_s=offer.at_s + left_s,
            reason=f"waits for GPUs {Tier(target).in_words}: about {faster:.1f} times as fast",
        )

    def note(self, outcome: WaitEnded) -> None:
        """See policies.GatePolicy."""
        job_id, tier = outcome.job.job_id, outcome.tier
        if tier is None:
            self.runs.forget(job_id)
        else:
            self._begin(outcome.job, tier, outcome.at_s)
        spell = self._spells.pop(job_id, None)
        if spell is None or spell.queued_s != outcome.job.queued_s:
            if tier in TARGETS:  # it got the best there is without a wait
                _, timers = self._class_of(outcome.job, tier)
                self.timers.count(timers, has_waited=False, is_answered=True)
            return
        wanted = Tier.NODE if spell.since_s[Tier.NODE] is not None else Tier.RACK
        is_answered = tier is not None and tier <= wanted
        self.timers.count(spell.timers, has_waited=spell.was_deferred, is_answered=is_answered)
        if not spell.was_deferred:
            return
        for target in TARGETS:
            since_s = spell.since_s[target]
            if since_s is not None:
                came = tier is not None and tier <= target
                wait = Wait(outcome.at_s, outcome.at_s - since_s, came)
                self.timers.add(spell.timers, target, wait)

    def ended(self, run: RunEnded) -> None:
        """See policies.TunedGate."""
        closest = closest_tier(run.cluster, run.job.spec)
        estimate, timers = self._class_of(run.job, closest)
        tier = tier_of(run.cluster, run.job.shares)
        ran_s = work_s(run.job, estimate.speeds, tier, closest, run.at_s)
        self.runs.add(run.job, timers, ran_s, run.at_s)
        self.sensitivity.learn(run)

    def pin(self, timer: str, pinned_s: float | None) -> None:
        """See policies.TunedGate. Caps hold for pinned timers too."""
        if TimerClass.parse(timer) is None or (pinned_s is not None and not pinned_s >= 0):
            return
        if pinned_s is None:
            self.timers.pins.pop(timer, None)
        else:
            self.timers.pins[timer] = pinned_s

    # -- for people, and for restarts -----------------------------------------------------------

    def views(self, at_s: float) -> tuple[TimerView, ...]:
        """The timers of every class that was seen or is pinned."""
        return self.timers.views(at_s)

    def state(self) -> DelayState:
        """Everything learned and every wait that is on, as plain data."""
        known = DelayState(
            timers=self.timers.state(),
            runs=self.runs.state(),
            sensitivity=self.sensitivity.state(),
            spells=tuple(self._spells.items()),
        )
        return deepcopy(known)  # the gate goes on learning

    def restore(self, state: DelayState) -> None:
        """Know what was known when `state` was taken, and nothing else."""
        state = deepcopy(state)
        self.timers.restore(state.timers)
        self.runs.restore(state.runs)
        self.sensitivity.restore(state.sensitivity)
        self._spells = dict(state.spells)

    # -- a decision --------------------------------------------------------------------------

    def _begin(self, job: JobRecord, tier: int, at_s: float) -> None:
        """Take in that a job runs, or is about to."""
        fits_a_node = any(shape.node_count == 1 for shape in job.spec.shapes)
        closest = Tier.NODE if fits_a_node else Tier.RACK
        estimate, timers = self._class_of(job, closest)
        speeds = estimate.speeds
        self.runs.begin(job, timers, speeds.at(max(tier, closest)) / speeds.at(closest), at_s)

    def _class_of(self, job: JobRecord, closest: int) -> tuple[Estimate, TimerClass]:
        estimate = self.sensitivity.estimate(job.spec)
        return estimate, TimerClass.of(job.spec.gpu_count, estimate.speeds.lost_frac(closest))

    def _spell(self, offer: Offer, timers: TimerClass, closest: int) -> Spell:
        """The job's present wait, with what it is offered now noted in it."""
        job_id = offer.job.job_id
        spell = self._spells.get(job_id)
        if spell is None or spell.queued_s != offer.job.queued_s:
            spell = self._spells[job_id] = Spell(offer.job.queued_s, timers, [None, None])
        for target in range(closest, offer.tier):
            if spell.since_s[target] is None:
                spell.since_s[target] = offer.at_s
        return spell

    def _best_wait(
        self, offer: Offer, spell: Spell, estimate: Estimate, closest: int
    ) -> tuple[int, float]:
        """Which closer tier to wait for, and for how many seconds more; 0: for none."""
        config, speeds = self.config, estimate.speeds
        rest_s = self.runs.remaining_s(offer.job, spell.timers, offer.at_s)
        here = speeds.at(offer.tier)
        stay_s = rest_s * speeds.at(closest) / here
        run_s = min(stay_s, config.lease_s)
        share_frac = offer.job.spec.gpu_count / max(usable_gpus(offer.cluster), 1)
        crowd = 1.0 + config.crowding_weight * (offer.waiting_count - 1) * share_frac
        best, best_s = closest, 0.0
        for target in range(closest, offer.tier):
            since_s = spell.since_s[target]
            assert since_s is not None
            waited_s = offer.at_s - since_s
            timer_s = self.timers.timer_s(spell.timers, offer.tier - 1, offer.at_s)
            lost_frac = 1.0 - here / speeds.at(target)
            longest_s = max(min(timer_s, _RUN_FRAC * stay_s), _LOSS_FRAC * run_s * lost_frac)
            gain_s = run_s * lost_frac * crowd
            curve = self.timers.curve(spell.timers, target, offer.at_s)
            left_s = curve.best_stop(waited_s, gain_s, longest_s - waited_s, config.delay_weight)
            if left_s > best_s:
                best, best_s = target, left_s
        return best, best_s

    def _cap_s(self, job: JobRecord) -> float:
        limit_s = job.spec.time_limit_s
        if limit_s is None or not limit_s > 0:
            return self.config.longest_s
        return min(self.config.limit_frac * limit_s, self.config.longest_s)


def _first_s(spell: Spell) -> float:
    """When the job was first offered less than it could have."""
    return min(since_s for since_s in spell.since_s if since_s is not None)
