"""Optimus' curve and the gain of the last GPU."""

import pytest
from tests.simulator.hand_worked import run, starts
from tests.simulator.simulated import arrival

from roost_engine.domain.model import JobId
from roost_engine.testing.builders import waiting
from roost_sim.information.progress import ProgressTable
from roost_sim.policies.order.job_values import Remaining
from roost_sim.policies.order.speed_curve import (
    PERFECT_SCALING,
    MarginalGain,
    SpeedCurve,
    fit_curve,
)


def test_optimus_prefers_the_job_whose_last_gpu_saves_most() -> None:
    # Perfect scaling: the last GPU saves work * (g/(g-1) - 1) = work / (g - 1) seconds.
    # 2: 70/7 = 10; 3: 60/4 = 15; 4, of one GPU, comes first.
    jobs = run("optimus", ("1", 0, 100, 8), ("2", 1, 70, 8), ("3", 2, 60, 5), ("4", 3, 5, 1))
    assert starts(jobs) == {"1": 0.0, "4": 100.0, "3": 100.0, "2": 160.0}


def test_speed_curve_is_found_again_from_its_own_points() -> None:
    curve = SpeedCurve(1.0, 0.2, 0.01)
    found = fit_curve([(gpus, curve.step_s(gpus)) for gpus in (1, 2, 4, 8, 16)])
    assert (found.a, found.b, found.d) == pytest.approx((1.0, 0.2, 0.01), abs=1e-3)
    falling = fit_curve([(1, 1.0), (2, 0.4), (4, 0.1)])
    assert min(falling.a, falling.b, falling.d) == 0.0


def test_a_job_that_does_not_scale_comes_late_in_optimus() -> None:
    flat = SpeedCurve(0.1, 1.0, 0.0)
    remaining = Remaining({JobId("1"): 100.0, JobId("2"): 100.0}, ProgressTable())
    gain = MarginalGain(remaining, lambda job: flat if job.job_id == "1" else PERFECT_SCALING)
    values = [gain.value(waiting(arrival(name, 0, 100, 4).spec), 0.0) for name in ("1", "2")]
    # 1: 100 / 1.025 * (0.1/3 - 0.1/4) = .81 s; 2: 100 * 4 * (1/3 - 1/4) = 33.3 s.
    assert values[0][0] == pytest.approx(-100 / 1.025 * (0.1 / 12))
    assert values[1][0] == pytest.approx(-100 / 3)
