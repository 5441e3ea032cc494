"""Choose the victims for a starved job, best-served by the network first.

Dally (arXiv 2401.16492, section 3) ranks jobs by

    S = ideal time of the work done / time it took, 0 for a job that never ran

which is the work-weighted harmonic mean of the efficiency of all placements of the job
(JobRecord.efficiency). In Dally every job competes again at the end of each lease, and a stop costs
nothing. Under Slurm a stopped job loses the work since its last checkpoint and the time of a
restart. So for a waiting job j and each victim v:

    loss(v) = min(checkpoint interval, run since it last started) + restart       seconds
    worth(v) = S(v) · lease - loss(v)             victims are stopped in descending order of worth
    j may displace v where worth(v) > S(j) · lease
    a plan is carried out where g(j) · lease · (S̄ - S(j)) > Σ g(v) · loss(v)    GPU-seconds

loss: the run time that the stop costs the victim. worth: the service that stopping the victim makes
available. lease: how long a started job is not stopped, and so the service that j is sure to get.
g: the number of GPUs of a job. S̄: the mean S of the victims, weighted by GPUs. Two jobs with the
same S never stop each other.

A job that is badly placed is also migrated, for its own benefit, where there are free GPUs closer
together:

    gain(j) = lease · (1 - speed(here) / speed(there))    seconds; carried out where > loss(j)

speed: the expected speed of j on its present tier and on the closer one. A migration counts against
the same budget and cool-down as any other stop.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from roost_engine.domain.model import JobId
from roost_engine.job_record import JobRecord
from roost_engine.policies.stop_budget import StopBudget
from roost_engine.prediction.speed.speed_predictor import SpeedPredictor
from roost_engine.preemption.rules import next_round_s

# Patience and leases end without an event, so the engine reviews the jobs ten times per patience,
# within these bounds of the period.
_REVIEWS_PER_PATIENCE, _SHORTEST_REVIEW_S, _LONGEST_REVIEW_S = 10, 0.1, 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkPreemptionConfig:
    """Configuration of the policy. Page: docs/preemption.md.

    Attributes:
        partitions: the partitions whose jobs may be stopped, and may have others stopped for them.
        lease_s: how long a job that has started is not stopped.
        patience_s: how long a job has waited before others are stopped for it.
        restart_s: time that a restart costs a job, besides its lost work.
        cooldown_s: shortest time between two requests to stop the same job.
        budget_per_hour: most jobs of one partition that are stopped within an hour.
        moves: whether jobs are also stopped to migrate to GPUs closer together.
    """

    reads_predictors = True  # not a field: the rule asks for speeds

    partitions: tuple[str, ...] = ()
    lease_s: float = 3_600.0
    patience_s: float = 600.0
    restart_s: float = 120.0
    cooldown_s: float = 7_200.0
    budget_per_hour: int = 2
    moves: bool = False

    def __post_init__(self) -> None:
        for name in ("lease_s", "patience_s", "restart_s", "cooldown_s", "budget_per_hour"):
            if not 0 <= getattr(self, name) < inf:
                raise ValueError(f"want {name} of 0 or more, got {getattr(self, name):g}")


@dataclass(frozen=True, slots=True)
class PreemptionState:
    """The state of the policy, as plain data.

    Attributes:
        stops: (engine time, partition) of each stop that the policy approved in the last hour.
        asked: (job, engine time) of the last request to stop the job, while it cools down.
    """

    stops: tuple[tuple[float, str], ...] = ()
    asked: tuple[tuple[JobId, float], ...] = ()


class NetworkPreemption:
    """The policy of this module: victims by network service, within budget and cool-down.

    Args:
        config: the configuration.
        sensitivity: gives the expected speed of a job whose speed is not reported; None: such a
            job counts as running at ideal speed.
    """

    name = "network"
    renews_leases = False

    def __init__(
        self, config: NetworkPreemptionConfig, sensitivity: SpeedPredictor | None = None
    ) -> None:
        self.config, self._sensitivity = config, sensitivity
        self._budget = StopBudget(config.budget_per_hour, config.cooldown_s)

    # -- policies.JudgingPreemption -------------------------------------------------------

    def lease_s(self, job: JobRecord) -> float:
        """See policies.PreemptPolicy."""
        may_stop = job.spec.checkpoint_s is not None and self._is_enabled_for(job)
        return self.config.lease_s if may_stop else inf

    def first_to_go(self, running: Sequence[JobRecord], at_s: float) -> Sequence[JobRecord]:
        """See policies.PreemptPolicy. Leaves out jobs that cool down or whose budget is spent."""
        self._budget.forget_expired(at_s)
        asked = self._budget.asked
        budgets = {name: self._budget.left_count(name) for name in self.config.partitions}
        stoppable = [
            job
            for job in running
            if job.job_id not in asked and budgets.get(job.spec.partition, 0) > 0
        ]
        return sorted(stoppable, key=lambda job: (-self._worth_s(job, at_s), job.job_id))

    def displaces(self, job: JobRecord, victim: JobRecord, at_s: float) -> bool:
        """See policies.PreemptPolicy."""
        if not self._is_enabled_for(job) or at_s - job.queued_s < self.config.patience_s:
            return False
        return self._worth_s(victim, at_s) > self.score(job, at_s) * self.config.lease_s

    def approve(self, job: JobRecord, victims: Sequence[JobRecord], at_s: float) -> bool:
        """See policies.JudgingPreemption."""
        self._budget.forget_expired(at_s)
        names = [victim.spec.partition for victim in victims]
        if any(names.count(name) > self._budget.left_count(name) for name in names):
            return False
        gpus = [_gpu_count(victim) for victim in victims]
        served = sum(g * self.score(v, at_s) for g, v in zip(gpus, victims, strict=True))
        lost_gpu_s = sum(g * self.loss_s(v, at_s) for g, v in zip(gpus, victims, strict=True))
        mean_score = served / max(sum(gpus), 1)
        gained_s = self.config.lease_s * (mean_score - self.score(job, at_s))
        if job.spec.gpu_count * gained_s <= lost_gpu_s:
            return False
        for victim in victims:
            self._budget.spend(victim.spec, at_s)
        return True

    # -- policies.JudgingMoves ------------------------------------------------------------

    def movers(self, running: Sequence[JobRecord], at_s: float) -> Sequence[JobRecord]:
        """See policies.MovingPreemption. Ordered by net gain on the closest tier of each job."""
        if not self.config.moves:
            return ()
        gain_s = {job.job_id: self._net_gain_s(job, job.tiers[1], at_s) for job in running}
        gaining = [job for job in self.first_to_go(running, at_s) if gain_s[job.job_id] > 0]
        return sorted(gaining, key=lambda job: (-gain_s[job.job_id], job.job_id))

    def approve_move(self, job: JobRecord, tier: int, at_s: float) -> bool:
        """See policies.JudgingMoves."""
        has_budget = self._budget.left_count(job.spec.partition) > 0
        if not has_budget or self._net_gain_s(job, tier, at_s) <= 0:
            return False
        self._budget.spend(job.spec, at_s)
        return True

    def review_s(self, at_s: float) -> float:
        """See policies.PreemptPolicy."""
        if not self.config.partitions:
            return inf
        period_s = self.config.patience_s / _REVIEWS_PER_PATIENCE
        period_s = min(max(period_s, _SHORTEST_REVIEW_S), _LONGEST_REVIEW_S)
        return next_round_s(period_s, at_s)

    # -- the terms of the test ---------------------------------------------------------------

    def score(self, job: JobRecord, at_s: float) -> float:
        """Return S of a job, 0 to 1.

        Where no speed was reported, S is its expected speed over that on its closest tier.
        """
        efficiency = job.efficiency(at_s)
        if efficiency > 0:
            return min(efficiency, 1.0)
        return self._speed_ratio(job, job.tiers[1]) if job.run_s(at_s) > 0 else 0.0

    def loss_s(self, job: JobRecord, at_s: float) -> float:
        """Return the most that a stop now costs a job: unsaved work, and a restart."""
        ran_s = at_s - job.started_s if job.started_s is not None else 0.0
        since_s = ran_s if job.spec.checkpoint_s is None else min(job.spec.checkpoint_s, ran_s)
        return since_s + self.config.restart_s

    # -- for restarts ------------------------------------------------------------------------

    def state(self) -> PreemptionState:
        """Return the stops and requests that still count, as plain data."""
        return PreemptionState(tuple(self._budget.stops), tuple(self._budget.asked.items()))

    def restore(self, state: PreemptionState) -> None:
        """Replace the stops and requests by those of a state."""
        self._budget.restore(state.stops, state.asked)

    # -- worth, gain and budget ----------------------------------------------------------------

    def _worth_s(self, victim: JobRecord, at_s: float) -> float:
        return self.score(victim, at_s) * self.config.lease_s - self.loss_s(victim, at_s)

    def _net_gain_s(self, job: JobRecord, tier: int, at_s: float) -> float:
        """Return the seconds of work that a job gains in a lease on a tier, less the loss."""
        return self.config.lease_s * (1.0 - self._speed_ratio(job, tier)) - self.loss_s(job, at_s)

    def _speed_ratio(self, job: JobRecord, tier: int) -> float:
        """Return the expected speed of a job on its present tier over that on another tier."""
        if self._sensitivity is None or not job.shares:
            return 1.0
        return self._sensitivity.achieved(job, job.tiers[0], tier).speed_frac

    def _is_enabled_for(self, job: JobRecord) -> bool:
        return job.spec.partition in self.config.partitions


def _gpu_count(job: JobRecord) -> int:
    return sum(len(share.gpu_indices) for share in job.shares)
