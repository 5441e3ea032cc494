"""Predicts the share of its speed that a job keeps on each tier, and how reliable that is.

The best source is the speed table, for a job that names its model. The next are earlier runs of the
same user and job name: the speed observed on each tier and, with less weight, how busy the links
were. The last is what is typical of jobs with that many GPUs:

    speed(tier) = (Σ observed + few · typical(tier)) / (count + few)

Sums are over earlier runs on that tier; `few` is the number of runs that weigh as much as the
typical value.

The table holds the speed of a job alone. Other jobs share the links between nodes and between
racks, so exposed communication is stretched, tier by tier, as the runs of all jobs showed:

    stretch(tier) = (Σ w · exposed, observed + few) / (Σ w · exposed, predicted + few)

with exposed = 1 / speed - 1, summed over runs with w = 2 ** (-age / half-life).

For a running job that is on a farther tier than it could have, its own links are a source too. Let
b be the share of time in which the network cards nearest to its GPUs are busy (where these cannot
be read: PCIe, the way to them). On a closer tier that share would take a quarter as long:

    v = 1 - b · (1 - 1 / 4)              its speed, relative to the closest tier it could have
    achieved = (v + (runs + few) · predicted) / (1 + runs + few)

Counters count bytes, not steps: b is a lower bound where transfers wait for each other. So the
present run counts as one earlier run at most, and not at all where the table knows the model.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import isfinite
from typing import Any

import numpy as np

from roost_engine.cluster.features import LOAD_QUANTITIES
from roost_engine.cluster.tiers import closest_tier, tier_of
from roost_engine.domain.model import JobSpec
from roost_engine.domain.tier import Tier
from roost_engine.job_record import JobRecord
from roost_engine.policies.protocols import RunEnded
from roost_engine.prediction.noted_dict import NotedDict
from roost_engine.prediction.speed.job_class import GPU_BUCKETS
from roost_engine.prediction.speed.tier_speeds import NoTable, SpeedTable, TierSpeeds

_FEW_COUNT = 2.0
_COUNTERS_COUNT = 1.0  # counters of any number of runs weigh as much as one run of known speed
_PROFILE_CONFIDENCE_FRAC = 0.9
_MOST_KINDS = 10_000
SEEN_TABLE = "speed"
# A bound, so that one job that stood still does not outweigh all others.
_MOST_EXPOSED = 100.0
_STRETCH_HALF_LIFE_S = 86_400.0
# A rule of thumb: per GPU, links between nodes are a quarter as fast as links inside a node,
# halfway between PCIe (about as fast) and NVLink (six to nine times). Counters do not see what
# compute hides, so this counts as one run at most.
_NETWORK_SLOWDOWN = 4.0
_LINK_COLUMNS = [LOAD_QUANTITIES.index("pcie"), LOAD_QUANTITIES.index("nvlink")]


class Source(StrEnum):
    """Where an estimate comes from."""

    PROFILE = "speed profile of the model it names"
    RUNS = "speed of earlier runs of the same user and name"
    COUNTERS = "link counters of earlier runs of the same user and name"
    OWN_LINKS = "link counters of this run"
    PLACE = "its place: as close together as it could be"
    PRIOR = "what is typical of so many GPUs"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedEstimate:
    """What is believed of a job.

    Attributes:
        speeds: by tier.
        source: what weighed most.
        confidence_frac: 0, nothing but typical jobs known, to 1.
        run_count: earlier runs that it rests on.
    """

    speeds: TierSpeeds
    source: Source
    confidence_frac: float
    run_count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Achieved:
    """How fast a running job is believed to go.

    Attributes:
        speed_frac: of its speed on the closest tier that it could have, 0 to 1.
        source: what weighed most.
        confidence_frac: 0, nothing but typical jobs known, to 1.
    """

    speed_frac: float
    source: Source
    confidence_frac: float


@dataclass(slots=True)
class SeenRuns:
    """What earlier runs of one user, name and GPU bucket showed.

    Attributes:
        speed_sum, speed_count: by tier.
        busy_sum, busy_count: how busy links were in runs on one node, fractions.
        run_count: runs that reported a speed or busy links.
    """

    speed_sum: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])
    speed_count: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])
    busy_sum: float = 0.0
    busy_count: float = 0.0
    run_count: int = 0


@dataclass(slots=True)
class Stretch:
    """How much more communication is exposed on one tier than tables have it.

    Attributes:
        at_s: as of when the sums are.
        seen, believed: weighted sums of exposed communication over compute.
    """

    at_s: float = 0.0
    seen: float = 0.0
    believed: float = 0.0

    @property
    def factor(self) -> float:
        """1 before the first run; at least 1: links are never faster than on an idle cluster."""
        return max((self.seen + _FEW_COUNT) / (self.believed + _FEW_COUNT), 1.0)

    def add(self, seen: float, believed: float, at_s: float) -> None:
        """Add a run."""
        fade = 2.0 ** min(0.0, (self.at_s - at_s) / _STRETCH_HALF_LIFE_S)
        self.at_s = max(at_s, self.at_s)
        self.seen = self.seen * fade + min(seen, _MOST_EXPOSED)
        self.believed = self.believed * fade + min(believed, _MOST_EXPOSED)


@dataclass(frozen=True, slots=True)
class SpeedState:
    """Everything learned, as plain data."""

    seen: tuple[tuple[str, SeenRuns], ...] = ()
    stretches: tuple[Stretch, ...] = ()


class SpeedPredictor:
    """Estimates the speeds of jobs, and learns from those that ended.

    Args:
        table: speeds of models.
    """

    def __init__(self, table: SpeedTable | None = None) -> None:
        self._table: SpeedTable = table or NoTable()
        self._seen = NotedDict[str, SeenRuns]()  # the kind reported most recently is the last
        self._stretches = [Stretch() for _ in range(3)]
        # What the stretches have made of speeds, of as many as the table has, until they change.
        self._stretched_speeds: dict[TierSpeeds, TierSpeeds] = {}
        self._of_models: dict[TierSpeeds, SpeedEstimate] = {}  # likewise, of what jobs name
        self._of_counts: dict[int, SpeedEstimate] = {}  # likewise, of so many GPUs

    def estimate(self, job: JobSpec) -> SpeedEstimate:
        """Return what is believed of a job now."""
        named = self._table.speeds(job.model, job.gpu_count) if job.model else None
        if named is not None:
            return self._of_model(named)
        typical = self._of_count(job.gpu_count)
        seen = self._seen.get(_kind(job)) if self._seen else None
        return typical if seen is None else _mixed(seen, typical.speeds)

    def achieved(self, job: JobRecord, tier: int, closest: int) -> Achieved:
        """Return the speed that a running job is believed to reach on a tier; see the module.

        Args:
            job: whose spec is known.
            tier: that it is on.
            closest: tier that it could have had.
        """
        if tier <= closest:
            return Achieved(
                speed_frac=1.0, source=Source.PLACE, confidence_frac=_PROFILE_CONFIDENCE_FRAC
            )
        found = self.estimate(job.spec)
        believed_frac = found.speeds.at(tier) / found.speeds.at(closest)
        busy_frac = job.pcie_frac if job.nic_frac is None else job.nic_frac
        if found.source is Source.PROFILE or busy_frac is None:
            return Achieved(
                speed_frac=believed_frac,
                source=found.source,
                confidence_frac=found.confidence_frac,
            )
        seen_frac = 1.0 - min(busy_frac, 1.0) * (1.0 - 1.0 / _NETWORK_SLOWDOWN)
        known = found.run_count + _COUNTERS_COUNT
        total = known + _FEW_COUNT
        return Achieved(
            speed_frac=(_COUNTERS_COUNT * seen_frac + (total - _COUNTERS_COUNT) * believed_frac)
            / total,
            source=found.source if found.run_count else Source.OWN_LINKS,
            confidence_frac=known / total * _PROFILE_CONFIDENCE_FRAC,
        )

    def _of_model(self, named: TierSpeeds) -> SpeedEstimate:
        found = self._of_models.get(named)
        if found is None:
            found = self._of_models[named] = SpeedEstimate(
                speeds=self._stretched(named),
                source=Source.PROFILE,
                confidence_frac=_PROFILE_CONFIDENCE_FRAC,
            )
        return found

    def _of_count(self, gpu_count: int) -> SpeedEstimate:
        found = self._of_counts.get(gpu_count)
        if found is None:
            if len(self._of_counts) >= _MOST_KINDS:
                self._forget_stretched()
            speeds = self._stretched(self._table.typical(gpu_count))
            found = SpeedEstimate(speeds=speeds, source=Source.PRIOR, confidence_frac=0.0)
            self._of_counts[gpu_count] = found
        return found

    def _forget_stretched(self) -> None:
        self._stretched_speeds.clear()
        self._of_models.clear()
        self._of_counts.clear()

    def _stretched(self, speeds: TierSpeeds) -> TierSpeeds:
        found = self._stretched_speeds.get(speeds)
        if found is None:
            if len(self._stretched_speeds) >= _MOST_KINDS:
                self._forget_stretched()
            found = self._stretched_speeds[speeds] = self._stretch(speeds)
        return found

    def _stretch(self, speeds: TierSpeeds) -> TierSpeeds:
        rack, across = (
            1.0 / (1.0 + self._stretches[tier].factor * _exposed(speeds.at(tier)))
            for tier in (Tier.RACK, Tier.CLUSTER)
        )
        return TierSpeeds(speeds.node_frac, rack, across)

    def learn(self, run: RunEnded) -> None:
        """Learn from a job that ran on one tier and on several GPUs; ignore other jobs."""
        job = run.job
        tier = tier_of(run.cluster, job.shares)
        if tier is None or job.stop_count or job.spec.gpu_count < 2:
            return
        speed_frac = job.efficiency(run.at_s)
        busy_frac = _busy_frac(run) if tier == Tier.NODE else None
        is_reported = isfinite(speed_frac) and speed_frac > 0
        if not is_reported and busy_frac is None:
            return
        kind = _kind(job.spec)
        seen = self._seen.discard(kind) or SeenRuns()
        self._seen[kind] = seen
        seen.run_count += 1
        if is_reported:
            seen.speed_sum[tier] += min(speed_frac, 1.0)
            seen.speed_count[tier] += 1.0
            self._learn_stretch(run, tier, speed_frac)
        if busy_frac is not None:
            seen.busy_sum += busy_frac
            seen.busy_count += 1.0
        while len(self._seen) > _MOST_KINDS:
            del self._seen[next(iter(self._seen))]

    def _learn_stretch(self, run: RunEnded, tier: int, speed_frac: float) -> None:
        job = run.job.spec
        assert job is not None
        believed = self._table.speeds(job.model, job.gpu_count) if job.model else None
        if believed is None:
            return
        closest = closest_tier(run.cluster, job)
        exposed_best = _exposed(believed.at(closest))
        seen = (1.0 + exposed_best) / min(speed_frac, 1.0) - 1.0
        self._stretches[tier].add(seen, _exposed(believed.at(tier)), run.at_s)
        self._forget_stretched()

    def state(self) -> SpeedState:
        """Everything learned, as plain data."""
        seen = tuple((kind, _copied(runs)) for kind, runs in self._seen.items())
        return SpeedState(seen, self.stretches())

    def tables(self) -> Mapping[str, NotedDict[Any, Any]]:
        """Return what is known of kinds of jobs as it is now, by name of the table."""
        return {SEEN_TABLE: self._seen}

    def stretches(self) -> tuple[Stretch, ...]:
        """Return the rest of what was learned, as plain data."""
        return tuple(replace(stretch) for stretch in self._stretches)

    def restore(self, state: SpeedState) -> None:
        """Restore what `state` returned, in place of everything learned since."""
        self._seen = NotedDict((kind, _copied(runs)) for kind, runs in state.seen)
        self._forget_stretched()
        self._stretches = [replace(stretch) for stretch in state.stretches] or [
            Stretch() for _ in range(3)
        ]


def _copied(runs: SeenRuns) -> SeenRuns:
    return replace(runs, speed_sum=[*runs.speed_sum], speed_count=[*runs.speed_count])


def work_s(
    job: JobRecord, speeds: TierSpeeds, tier: int | None, closest: int, at_s: float
) -> float:
    """Return how long a job's run would have been at full speed.

    From the speeds reported; without any, the speed that is believed on its tier.
    """
    efficiency = job.efficiency(at_s)
    if efficiency <= 0:
        efficiency = 1.0 if tier is None else speeds.at(tier) / speeds.at(closest)
    return job.run_s(at_s) * min(efficiency, 1.0)


def _mixed(seen: SeenRuns, typical: TierSpeeds) -> SpeedEstimate:
    sums, counts = list(seen.speed_sum), list(seen.speed_count)
    runs = sum(counts)
    if seen.busy_count:
        weight = min(seen.busy_count, _COUNTERS_COUNT)
        outside_frac = 1.0 / (1.0 + _NETWORK_SLOWDOWN * seen.busy_sum / seen.busy_count)
        for tier, speed_frac in enumerate((1.0, outside_frac, outside_frac)):
            sums[tier] += weight * speed_frac
            counts[tier] += weight
    best = typical.node_frac
    mixed = [
        (sums[tier] + _FEW_COUNT * typical.at(tier) / best) / (counts[tier] + _FEW_COUNT)
        for tier in range(3)
    ]
    known = sum(counts) / 3
    return SpeedEstimate(
        speeds=TierSpeeds(*mixed),
        source=Source.RUNS if runs else Source.COUNTERS,
        confidence_frac=known / (known + _FEW_COUNT) * _PROFILE_CONFIDENCE_FRAC,
        run_count=seen.run_count,
    )


def _exposed(speed_frac: float) -> float:
    """Exposed communication over compute."""
    return 1.0 / speed_frac - 1.0


def _kind(job: JobSpec) -> str:
    bucket = max(size for size in GPU_BUCKETS if size <= max(job.gpu_count, 1))
    return f"{job.user_id} {bucket} {job.name}"


def _busy_frac(run: RunEnded) -> float | None:
    """How busy the links of a job's GPUs were, 0 to 1: the busier kind of link.

    The mean of its whole run where probes measured it; otherwise the last load of its GPUs.
    """
    known = [frac for frac in (run.job.nvlink_frac, run.job.pcie_frac) if frac is not None]
    if known:
        return min(max(known), 1.0)
    cluster = run.cluster
    found: list[float] = []
    for share in run.job.shares:
        row = cluster.index_of[share.node]
        if not cluster.loads.known_frac[row]:
            return None
        load = cluster.loads.by_gpu[row, list(share.gpu_indices)][:, _LINK_COLUMNS]
        found += load.max(axis=1).tolist()
    return float(np.mean(found)) if found else None
