"""Optimus' speed curve, and the order that follows from it for whole gangs.

Source: Peng et al., Optimus, EuroSys 2018: the time of a step on w workers is fitted to
a/w + b + d*w with no coefficient below 0 (its curve for synchronous training at a fixed batch,
the parameter servers' term left out), and the next worker goes where it saves most time.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

from roost_engine.job_record import JobRecord
from roost_engine.policies import SortKey
from roost_sim.information.knowledge import Knowledge
from roost_sim.policies.order.job_values import Remaining

_SAMPLED_GPU_COUNTS = (1, 2, 4, 8, 16, 32)
_SWEEP_COUNT = 2000
_SETTLED = 1e-12


@dataclass(frozen=True, slots=True)
class SpeedCurve:
    """Seconds of a step on w GPUs: a/w + b + d*w."""

    a: float
    b: float
    d: float

    def step_s(self, gpu_count: int) -> float:
        """Time of a step."""
        return self.a / gpu_count + self.b + self.d * gpu_count


PERFECT_SCALING = SpeedCurve(1.0, 0.0, 0.0)


def fit_curve(samples: Sequence[tuple[int, float]]) -> SpeedCurve:
    """Least squares with no coefficient below 0, by one coefficient at a time.

    Args:
        samples: (GPUs, seconds of a step), at least one.
    """
    columns = [
        [1.0 / gpus for gpus, _ in samples],
        [1.0 for _ in samples],
        [float(gpus) for gpus, _ in samples],
    ]
    found = [0.0, 0.0, 0.0]
    rest = [step_s for _, step_s in samples]
    for _ in range(_SWEEP_COUNT):
        moved = 0.0
        for which, column in enumerate(columns):
            norm = sum(value * value for value in column)
            pull = sum(value * left for value, left in zip(column, rest, strict=True)) / norm
            change = max(found[which] + pull, 0.0) - found[which]
            found[which] += change
            rest = [left - change * value for value, left in zip(column, rest, strict=True)]
            moved = max(moved, abs(change))
        if moved < _SETTLED:
            break
    return SpeedCurve(*found)


@dataclass(frozen=True, slots=True)
class MarginalGain:
    """How much remaining time a job's last GPU saves: the gang has them all or none.

    A job of one GPU comes first, as in Optimus everybody has one worker before anybody has two.

    Attributes:
        remaining: of each job.
        curve_of: the curve of a job.
    """

    remaining: Remaining
    curve_of: Callable[[JobRecord], SpeedCurve]

    def value(self, job: JobRecord, at_s: float) -> SortKey:
        """See roost_sim.policies.order.job_values.Value."""
        gpus = job.spec.gpu_count
        if gpus == 1:
            return (-inf,)
        curve = self.curve_of(job)
        steps = self.remaining.seconds(job.job_id, at_s) / curve.step_s(gpus)
        return (-steps * (curve.step_s(gpus - 1) - curve.step_s(gpus)),)


def curves_of(knowledge: Knowledge) -> Callable[[JobRecord], SpeedCurve]:
    """Curves fitted to the speeds of each model as close together as the cluster allows.

    Jobs of no known model scale perfectly.
    """
    known: dict[str, SpeedCurve] = {}

    def curve_of(job: JobRecord) -> SpeedCurve:
        profile = knowledge.profile_of.get(job.job_id)
        if profile is None or knowledge.tiers is None:
            return PERFECT_SCALING
        if profile.name not in known:
            efficient = knowledge.tiers.efficiencies
            samples = [
                (gpus, 1.0 / (gpus * efficient(profile, gpus)[0])) for gpus in _SAMPLED_GPU_COUNTS
            ]
            known[profile.name] = fit_curve(samples)
        return known[profile.name]

    return curve_of
