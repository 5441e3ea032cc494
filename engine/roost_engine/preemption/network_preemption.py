"""Whom to stop for a job that has waited long: whoever has been served best by the network.

Dally (arXiv 2401.16492, section 3) ranks jobs by

    S = ideal time of the work done / time it took, 0 for a job that never ran

which is the work-weighted harmonic mean of the efficiency of all its placements (JobRecord.
efficiency). It lets every job bid anew at each lease, for nothing. Under Slurm a stopped job loses
what it did since its last checkpoint and the time of a restart, so for job j and victims v:

    loss(v) = min(checkpoint interval, run since it last started) + restart       seconds
    worth(v) = S(v) · lease - loss(v)             victims go in descending order of it
    j may displace v where worth(v) > S(j) · lease
    a plan is carried out where g(j) · lease · (S̄ - S(j)) > Σ g(v) · loss(v)    GPU-seconds

lease: seconds that a started job is left alone, and so the service that j is sure to get; g: GPUs;
S̄: mean S of the victims, weighted by GPUs. Two jobs that are served alike never stop each other.

A job that is badly placed is moved, for nobody else's sake, where there is room closer together:

    gain(j) = lease · (1 - v(here) / v(there))    seconds of work, carried out where > loss(j)

v: what is believed of its speed by tier. Migration share budget and cool-down with other stops.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from roost_engine.domain.model import JobId
from roost_engine.job_record import JobRecord
from roost_engine.prediction.speed import SpeedPredictor

_HOUR_S = 3_600.0
# Patience and leases run out without an event: look again ten times in a patience, within reason.
_REVIEWS_PER_PATIENCE, _SHORTEST_REVIEW_S, _LONGEST_REVIEW_S = 10, 0.1, 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkPreemptionConfig:
    """The numbers of the policy. Page: docs/preemption.md.

    Attributes:
        partitions: where jobs may be stopped, and others may have that done for them.
        lease_s: a job that started is left alone for so long.
        patience_s: a job has waited so long before others are stopped for it.
        restart_s: what a restart costs a job beside its lost work.
        cooldown_s: from one request to stop a job to the next.
        budget_per_hour: jobs of one partition that are stopped in an hour, at most.
        moves: whether jobs are also stopped to run on closer together.
    """

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
    """What the policy remembers, as plain data.

    Attributes:
        stops: (engine time, partition) of every job that it let be stopped in the last hour.
        asked: (job, engine time) of the last request to stop it, within the cool-down.
    """

    stops: tuple[tuple[float, str], ...] = ()
    asked: tuple[tuple[JobId, float], ...] = ()


class NetworkPreemption:
    """See the module.

    Args:
        config: the numbers.
        sensitivity: what is believed of jobs whose speed nobody has told; None: that they run as
            fast as they can.
    """

    rebids = False

    def __init__(
        self, config: NetworkPreemptionConfig, sensitivity: SpeedPredictor | None = None
    ) -> None:
        self.config, self._sensitivity = config, sensitivity
        self._stops: deque[tuple[float, str]] = deque()
        self._asked: dict[JobId, float] = {}

    # -- policies.JudgingPreemption -------------------------------------------------------

    def lease_s(self, job: JobRecord) -> float:
        """See policies.PreemptPolicy."""
        may_stop = job.spec.checkpoint_s is not None and self._is_on(job)
        return self.config.lease_s if may_stop else inf

    def first_to_go(self, running: Sequence[JobRecord], at_s: float) -> Sequence[JobRecord]:
        """See policies.PreemptPolicy. Without those that must cool down or are over budget."""
        self._forget_until(at_s)
        left = {name: self._left_count(name) for name in self.config.partitions}
        may_go = [
            job
            for job in running
            if job.job_id not in self._asked and left.get(_partition(job), 0) > 0
        ]
        return sorted(may_go, key=lambda job: (-self._worth_s(job, at_s), job.job_id))

    def displaces(self, job: JobRecord, victim: JobRecord, at_s: float) -> bool:
        """See policies.PreemptPolicy."""
        if not self._is_on(job) or at_s - job.queued_s < self.config.patience_s:
            return False
        return self._worth_s(victim, at_s) > self.score(job, at_s) * self.config.lease_s

    def approve(self, job: JobRecord, victims: Sequence[JobRecord], at_s: float) -> bool:
        """See policies.JudgingPreemption."""
        self._forget_until(at_s)
        names = [_partition(victim) for victim in victims]
        if any(names.count(name) > self._left_count(name) for name in names):
            return False
        gpus = [_gpu_count(victim) for victim in victims]
        served = sum(g * self.score(v, at_s) for g, v in zip(gpus, victims, strict=True))
        lost_gpu_s = sum(g * self.loss_s(v, at_s) for g, v in zip(gpus, victims, strict=True))
        mean_score = served / max(sum(gpus), 1)
        gained_s = self.config.lease_s * (mean_score - self.score(job, at_s))
        if job.spec.gpu_count * gained_s <= lost_gpu_s:
            return False
        self._stops.extend((at_s, name) for name in names)
        self._asked.update((victim.job_id, at_s) for victim in victims)
        return True

    # -- policies.JudgingMoves ------------------------------------------------------------

    def movers(self, running: Sequence[JobRecord], at_s: float) -> Sequence[JobRecord]:
        """See policies.MovingPreemption. Who gains most beyond its loss first."""
        if not self.config.moves:
            return ()
        gain_s = {job.job_id: self._gain_s(job, job.tiers[1], at_s) for job in running}
        worth_it = [job for job in self.first_to_go(running, at_s) if gain_s[job.job_id] > 0]
        return sorted(worth_it, key=lambda job: (-gain_s[job.job_id], job.job_id))

    def approve_move(self, job: JobRecord, tier: int, at_s: float) -> bool:
        """See policies.JudgingMoves."""
        if self._left_count(_partition(job)) < 1 or self._gain_s(job, tier, at_s) <= 0:
            return False
        self._stops.append((at_s, _partition(job)))
        self._asked[job.job_id] = at_s
        return True

    def review_s(self, at_s: float) -> float:
        """See policies.PreemptPolicy."""
        if not self.config.partitions:
            return inf
        period_s = self.config.patience_s / _REVIEWS_PER_PATIENCE
        period_s = min(max(period_s, _SHORTEST_REVIEW_S), _LONGEST_REVIEW_S)
        return (at_s // period_s + 1) * period_s

    # -- the parts of the sum, also for people -------------------------------------------------

    def score(self, job: JobRecord, at_s: float) -> float:
        """S of a job, 0 to 1: how well it has been served so far."""
        efficiency = job.efficiency(at_s)
        if efficiency > 0:
            return min(efficiency, 1.0)
        return self._kept_frac(job, job.tiers[1]) if job.run_s(at_s) > 0 else 0.0

    def loss_s(self, job: JobRecord, at_s: float) -> float:
        """What a job loses at most when it is stopped now: work since its checkpoint, a restart."""
        ran_s = at_s - job.started_s if job.started_s is not None else 0.0
        since_s = ran_s if job.spec.checkpoint_s is None else min(job.spec.checkpoint_s, ran_s)
        return since_s + self.config.restart_s

    # -- for restarts ------------------------------------------------------------------------

    def state(self) -> PreemptionState:
        """What it remembers, as plain data."""
        return PreemptionState(tuple(self._stops), tuple(self._asked.items()))

    def restore(self, state: PreemptionState) -> None:
        """Know what was known when `state` was taken, and nothing else."""
        self._stops, self._asked = deque(state.stops), dict(state.asked)

    # -- how it counts -----------------------------------------------------------------------

    def _worth_s(self, victim: JobRecord, at_s: float) -> float:
        return self.score(victim, at_s) * self.config.lease_s - self.loss_s(victim, at_s)

    def _gain_s(self, job: JobRecord, tier: int, at_s: float) -> float:
        """Seconds of work that a job gains in a lease on a tier, less what the move loses."""
        return self.config.lease_s * (1.0 - self._kept_frac(job, tier)) - self.loss_s(job, at_s)

    def _kept_frac(self, job: JobRecord, tier: int) -> float:
        """Speed of a job where it is over its speed on a tier."""
        if self._sensitivity is None or not job.shares:
            return 1.0
        return self._sensitivity.achieved(job, job.tiers[0], tier).speed_frac

    def _is_on(self, job: JobRecord) -> bool:
        return _partition(job) in self.config.partitions

    def _left_count(self, partition: str) -> int:
        return self.config.budget_per_hour - sum(name == partition for _, name in self._stops)

    def _forget_until(self, at_s: float) -> None:
        while self._stops and self._stops[0][0] <= at_s - _HOUR_S:
            self._stops.popleft()
        cooled_s = at_s - self.config.cooldown_s
        while self._asked and next(iter(self._asked.values())) <= cooled_s:
            del self._asked[next(iter(self._asked))]


def _partition(job: JobRecord) -> str:
    return job.spec.partition


def _gpu_count(job: JobRecord) -> int:
    return sum(len(share.gpu_indices) for share in job.shares)
