"""Optimus' speed curve, and the order of whole gangs by the time that their last GPU saves.

Source: Peng et al., Optimus, EuroSys 2018: the time of a step on w workers is fitted to
a/w + b + d*w with no coefficient below 0 (its curve for synchronous training at a fixed batch,
the parameter servers' term left out), and the next worker goes where it saves most time.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

from roost_engine.job_record import JobRecord
from roost_engine.policies.protocols import SortKey
from roost_sim.information.policy_information import PolicyInformation
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
        """Return the time of a step on `gpu_count` GPUs."""
        return self.a / gpu_count + self.b + self.d * gpu_count


PERFECT_SCALING = SpeedCurve(1.0, 0.0, 0.0)


def fit_curve(samples: Sequence[tuple[int, float]]) -> SpeedCurve:
    """Fit a curve: non-negative least squares by coordinate descent.

    Args:
        samples: (GPUs, seconds of a step), at least one.
    """
    columns = [
        [1.0 / gpus for gpus, _ in samples],
        [1.0 for _ in samples],
        [float(gpus) for gpus, _ in samples],
    ]
    found = [0.0, 0.0, 0.0]
    residuals = [step_s for _, step_s in samples]
    for _ in range(_SWEEP_COUNT):
        moved = 0.0
        for which, column in enumerate(columns):
            norm = sum(value * value for value in column)
            pairs = list(zip(column, residuals, strict=True))
            step = sum(value * residual for value, residual in pairs) / norm
            change = max(found[which] + step, 0.0) - found[which]
            found[which] += change
            residuals = [residual - change * value for value, residual in pairs]
            moved = max(moved, abs(change))
        if moved < _SETTLED:
            break
    return SpeedCurve(*found)


@dataclass(frozen=True, slots=True)
class MarginalGain:
    """The remaining time that a job's last GPU saves; a gang has all its GPUs or none.

    Jobs of one GPU come first: in Optimus every job has one worker before any has two.

    Attributes:
        remaining: remaining work of each job.
        curve_of: the speed curve of a job.
    """

    remaining: Remaining
    curve_of: Callable[[JobRecord], SpeedCurve]

    def value(self, job: JobRecord, at_s: float) -> SortKey:
        """See roost_engine.queue.orders.Value."""
        gpus = job.spec.gpu_count
        if gpus == 1:
            return (-inf,)
        curve = self.curve_of(job)
        steps = self.remaining.seconds(job.job_id, at_s) / curve.step_s(gpus)
        return (-steps * (curve.step_s(gpus - 1) - curve.step_s(gpus)),)


def curves_of(information: PolicyInformation) -> Callable[[JobRecord], SpeedCurve]:
    """Return the curve of each job, fitted to its model's speed on the closest placements.

    A job without a known model scales perfectly.
    """
    known: dict[str, SpeedCurve] = {}

    def curve_of(job: JobRecord) -> SpeedCurve:
        profile = information.profile_of.get(job.job_id)
        if profile is None or information.tiers is None:
            return PERFECT_SCALING
        if profile.name not in known:
            efficient = information.tiers.efficiencies
            samples = [
                (gpus, 1.0 / (gpus * efficient(profile, gpus)[0])) for gpus in _SAMPLED_GPU_COUNTS
            ]
            known[profile.name] = fit_curve(samples)
        return known[profile.name]

    return curve_of
