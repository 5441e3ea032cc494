import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from roost_sim.traces.fitted_traces import HELIOS, MODELS, PHILLY
from roost_sim.traces.formats import load_trace
from roost_sim.traces.generator import TraceModel, generate
from roost_sim.traces.trace import Trace
from roost_sim.worlds.speed.dally_models import DALLY_MIX

REPOSITORY = Path(__file__).parents[3]
CLASS_BOUNDS = ((1, 2), (2, 4), (4, 8), (8, 9), (9, 32))
FITTED_ON = (
    ("helios", "helios_venus_2020_mar_jul.csv.gz"),
    ("philly", "philly_2017_sep_oct.csv.gz"),
)


def distance(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """Kolmogorov and Smirnov's: the largest gap between two empirical distributions."""
    at = np.concatenate([a, b])
    below_a, below_b = (np.searchsorted(np.sort(x), at, "right") / len(x) for x in (a, b))
    return float(np.abs(below_a - below_b).max())


@pytest.fixture(params=list(MODELS.values()), ids=list(MODELS))
def model(request: pytest.FixtureRequest) -> TraceModel:
    found: TraceModel = request.param
    return found


def test_seed_decides_everything(model: TraceModel) -> None:
    once, again, other = (generate(model, 2_000, seed) for seed in (7, 7, 8))
    for column in ("submit_s", "duration_s", "gpu_count"):
        assert np.array_equal(getattr(once, column), getattr(again, column))
        assert not np.array_equal(getattr(once, column), getattr(other, column))


@pytest.mark.parametrize("job_count", [1, 2, 10_000])
def test_makes_as_many_jobs_as_asked(model: TraceModel, job_count: int) -> None:
    trace = generate(model, job_count, 0)
    assert len(trace) == job_count
    assert trace.submit_s[0] == 0.0
    assert trace.duration_s.min() >= 1.0
    assert trace.duration_s.max() <= model.longest_s


def test_probabilities_and_weights_add_up(model: TraceModel) -> None:
    assert sum(chance for _, chance in model.sizes) == pytest.approx(1.0, abs=1e-3)
    assert np.mean(model.hour_weights) == pytest.approx(1.0, abs=1e-3)
    assert np.mean(model.weekday_weights) == pytest.approx(1.0, abs=1e-3)
    for size_class in model.classes:
        assert sum(part.weight for part in size_class.durations) == pytest.approx(1.0, abs=1e-3)


def test_rate_and_largest_size_can_be_set() -> None:
    trace = generate(HELIOS, 20_000, 1, jobs_per_day=5_000.0, max_gpu_count=8)
    assert trace.span_s / 86_400 == pytest.approx(4.0, rel=0.5)
    assert trace.gpu_count.max() == 8


@pytest.mark.parametrize(("count", "rate", "largest"), [(0, None, None), (1, 0.0, None)])
def test_refuses_what_makes_no_trace(count: int, rate: float | None, largest: int | None) -> None:
    with pytest.raises(ValueError, match="want"):
        generate(PHILLY, count, 0, jobs_per_day=rate, max_gpu_count=largest)


def test_refuses_a_size_below_all() -> None:
    with pytest.raises(ValueError, match="no size"):
        generate(PHILLY, 10, 0, max_gpu_count=0)


def test_nights_are_quieter_than_days() -> None:
    trace = generate(HELIOS, 50_000, 3)
    assert trace.epoch_of_zero_s is not None
    hour = ((trace.submit_s + trace.epoch_of_zero_s) % 86_400 // 3_600).astype(int)
    counts = np.bincount(hour, minlength=24)
    assert counts[5] < 0.25 * counts[16]


@pytest.fixture(params=FITTED_ON, ids=[like for like, _ in FITTED_ON])
def pair(request: pytest.FixtureRequest, data_folder: Path) -> tuple[Trace, Trace]:
    """The trace that a model was fitted on, and one that the model made."""
    like, name = request.param
    real = load_trace(data_folder / "jobs" / name).trace
    return real, generate(MODELS[like], 100_000, 0)


@pytest.mark.data
def test_durations_of_each_size_class_are_those_of_the_trace(pair: tuple[Trace, Trace]) -> None:
    real, made = pair
    assert distance(real.duration_s, made.duration_s) < 0.03
    for low, high in CLASS_BOUNDS:
        both = [
            trace.duration_s[(trace.gpu_count >= low) & (trace.gpu_count < high)] for trace in pair
        ]
        noise = 1.36 / np.sqrt(len(both[0]))  # the gap that chance alone exceeds one time in 20
        assert distance(*both) < 0.04 + noise
        assert both[1].mean() == pytest.approx(both[0].mean(), rel=0.12)


@pytest.mark.data
def test_sizes_and_work_are_those_of_the_trace(pair: tuple[Trace, Trace]) -> None:
    for size in (1, 2, 4, 8, 16, 32):
        shares = [float(np.mean(trace.gpu_count == size)) for trace in pair]
        assert shares[1] == pytest.approx(shares[0], abs=0.01)
    work = [trace.work_gpu_s / len(trace) for trace in pair]
    assert work[1] == pytest.approx(work[0], rel=0.15)


@pytest.mark.data
def test_arrivals_come_in_the_rhythm_of_the_trace(pair: tuple[Trace, Trace]) -> None:
    by_hour = []
    for trace in pair:
        assert trace.epoch_of_zero_s is not None
        hour = ((trace.submit_s + trace.epoch_of_zero_s) % 86_400 // 3_600).astype(int)
        by_hour.append(np.bincount(hour, minlength=24) / len(trace) * 24)
    assert np.abs(by_hour[0] - by_hour[1]).mean() < 0.15
    median_gaps = [float(np.median(np.diff(trace.submit_s))) for trace in pair]
    assert median_gaps[1] == pytest.approx(median_gaps[0], rel=0.6)
    for trace in pair:  # burstier than independent arrivals, whose value is 1
        settled = trace.submit_s[len(trace) // 20 :]
        gaps_s = np.diff(settled)
        assert 1.2 < gaps_s.std() / gaps_s.mean() < 6.0


@pytest.mark.data
def test_numbers_in_the_code_are_what_the_fit_prints(data_folder: Path) -> None:
    command = [
        sys.executable,
        str(REPOSITORY / "benchmarks" / "fit_traces.py"),
        "--data",
        str(data_folder / "jobs"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=100)
    printed: dict[str, dict[str, TraceModel]] = {}
    exec(done.stdout, printed)
    for like, model in MODELS.items():
        again = printed["MODELS"][like]
        assert again.sizes == model.sizes
        assert again.jobs_per_day == pytest.approx(model.jobs_per_day)
        for mine, theirs in zip(model.classes, again.classes, strict=True):
            for a, b in zip(mine.durations, theirs.durations, strict=True):
                # Another numpy may sum in another order; two hundred rounds amplify that a bit.
                assert (a.weight, a.log_mean) == pytest.approx((b.weight, b.log_mean), rel=0.02)


def test_dally_jobs_have_the_published_figures() -> None:
    # Published of its 500 jobs: mean 14.6 h, median 3.9 h, longest 211.5 h, 13,054 GPU-hours; one
    # in four each of three models. 20,000 draws leave a few percent to chance.
    trace = generate(DALLY_MIX, 20_000, 0)
    hours = trace.duration_s / 3600
    assert hours.mean() == pytest.approx(14.6, rel=0.05)
    assert np.median(hours) == pytest.approx(3.9, rel=0.05)
    assert hours.max() == 211.5
    assert (hours * trace.gpu_count).sum() / 40 == pytest.approx(13_054, rel=0.05)
    assert np.mean(trace.gpu_count == 1) == pytest.approx(270 / 500, abs=0.01)
    bert = trace.model_names.index("bert")
    assert np.mean(trace.model_id == bert) == pytest.approx(0.25, abs=0.01)
