"""Generated jobs with users and names: how they repeat, and that the rest stays as fitted."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from roost_sim.traces.fitted_histories import HELIOS_USERS
from roost_sim.traces.fitted_traces import HELIOS
from roost_sim.traces.formats import load_trace
from roost_sim.traces.generator import generate
from roost_sim.traces.histories import HistoryModel, generate_history
from roost_sim.traces.repetition import prediction_errors
from roost_sim.traces.trace import Status, Trace

# Of the trace that the model was fitted on; `test_errors_are_those_of_the_trace` reads it again.
JUNE = {
    "median_of_20_of_user_and_gpus": 1.785,
    "mean_of_2_of_user": 1.968,
    "mean_of_2_of_user_and_gpus": 1.858,
}
JUNE_FILE = "helios_venus_2020_jun_nodes_status_15k.csv.gz"


@pytest.fixture(scope="module")
def made() -> Trace:
    return generate_history(HELIOS, HELIOS_USERS, 10_000, 3)


def mean_errors(count: int, *seeds: int) -> dict[str, float]:
    found = [prediction_errors(generate_history(HELIOS, HELIOS_USERS, count, n)) for n in seeds]
    return {name: float(np.mean([errors[name] for errors in found])) for name in JUNE}


def test_seed_decides_everything() -> None:
    once, again, other = (generate_history(HELIOS, HELIOS_USERS, 2_000, n) for n in (7, 7, 8))
    for column in ("submit_s", "duration_s", "gpu_count", "user_id", "status"):
        assert np.array_equal(getattr(once, column), getattr(again, column))
        assert not np.array_equal(getattr(once, column), getattr(other, column))
    assert once.job_name.names == again.job_name.names


@pytest.mark.parametrize("job_count", [1, 2, 3_000])
def test_makes_as_many_jobs_as_asked(job_count: int) -> None:
    trace = generate_history(HELIOS, HELIOS_USERS, job_count, 0)
    assert len(trace) == job_count
    assert trace.submit_s[0] == 0.0
    assert all(trace.user_name(job) and trace.job_name.of(job) for job in range(job_count))


def test_refuses_what_makes_no_trace() -> None:
    for count, rate, largest in ((0, None, None), (1, 0.0, None), (1, None, 0)):
        with pytest.raises(ValueError, match=r"want|no size"):
            generate_history(
                HELIOS, HELIOS_USERS, count, 0, jobs_per_day=rate, max_gpu_count=largest
            )


def test_rate_largest_size_and_batch_can_be_set() -> None:
    fast = generate_history(HELIOS, HELIOS_USERS, 20_000, 1, jobs_per_day=5_000.0, max_gpu_count=8)
    assert fast.span_s / 86_400 == pytest.approx(4.0, rel=0.5)
    assert fast.gpu_count.max() == 8
    batch = generate_history(HELIOS, HELIOS_USERS, 50, 1, is_batch=True)
    assert set(batch.submit_s.tolist()) == {0.0}


def test_errors_of_simple_predictors_are_those_of_the_trace_it_was_fitted_on() -> None:
    for name, error in mean_errors(6_000, 0, 1, 2).items():
        assert error == pytest.approx(JUNE[name], rel=0.15)


def test_jobs_without_history_are_harder_to_predict() -> None:
    independent = prediction_errors(generate(HELIOS, 6_000, 0))
    for name, error in mean_errors(6_000, 0).items():
        assert independent[name] > 1.15 * error


@pytest.mark.data
def test_errors_are_those_of_the_trace(data_folder: Path) -> None:
    june = load_trace(data_folder / "jobs" / JUNE_FILE).trace
    real = prediction_errors(june)
    assert real == pytest.approx(JUNE, abs=0.001)
    for name, error in mean_errors(len(june), 10, 11, 12, 13).items():
        assert error == pytest.approx(real[name], rel=0.1)


def test_few_users_have_most_jobs_and_come_back(made: Trace) -> None:
    counts = np.sort(np.bincount(made.user_id))[::-1]
    assert 60 <= len(counts) <= 160  # 95 in the trace
    assert 0.2 < counts[:5].sum() / len(made) < 0.55  # 0.35
    assert counts[20:].sum() / len(made) > 0.1  # 0.26


def test_a_name_is_one_users_and_is_submitted_again(made: Trace) -> None:
    pairs = set(zip(made.user_id.tolist(), made.job_name.ids.tolist(), strict=True))
    assert len(pairs) == len(made.job_name.names)
    counts = np.bincount(made.job_name.ids)
    assert counts.max() > 200
    assert np.median(counts) < 30


def test_jobs_of_one_user_name_and_size_run_alike(made: Trace) -> None:
    log_s = np.log(made.duration_s)
    keys = zip(
        made.user_id.tolist(), made.job_name.ids.tolist(), made.gpu_count.tolist(), strict=True
    )
    _, kind = np.unique(np.array(list(keys)), axis=0, return_inverse=True)
    means = np.bincount(kind, log_s) / np.bincount(kind)
    within = float(np.var(log_s - means[kind]))
    assert within < 0.75 * float(np.var(log_s))


def test_ends_depend_on_run_times(made: Trace) -> None:
    failed = made.status == Status.FAILED
    short = made.duration_s < 20
    assert failed[short].mean() > 0.35
    assert failed[made.duration_s > 2_000].mean() < 0.1
    assert np.mean(made.status == Status.COMPLETED) == pytest.approx(0.5, abs=0.03)


def test_sizes_and_run_times_are_those_of_independent_jobs() -> None:
    made, alone = generate_history(HELIOS, HELIOS_USERS, 40_000, 1), generate(HELIOS, 40_000, 1)
    for size in (1, 2, 4, 8, 16, 32):
        shares = [float(np.mean(trace.gpu_count == size)) for trace in (made, alone)]
        assert shares[0] == pytest.approx(shares[1], abs=0.015)
    assert np.quantile(made.duration_s, 0.5) == pytest.approx(
        np.quantile(alone.duration_s, 0.5), rel=0.1
    )
    assert made.work_gpu_s == pytest.approx(alone.work_gpu_s, rel=0.25)
    assert made.span_s == pytest.approx(alone.span_s, rel=0.4)


@pytest.mark.data
def test_counted_numbers_in_the_code_are_what_the_fit_prints(data_folder: Path) -> None:
    script = Path(__file__).parents[3] / "benchmarks" / "fit_histories.py"
    command = [sys.executable, str(script), str(data_folder / "jobs" / JUNE_FILE), "--rounds", "0"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=100)
    printed: dict[str, HistoryModel] = {}
    exec(done.stdout, printed)
    again = printed["HELIOS_USERS"]
    assert again.ends == HELIOS_USERS.ends
    assert again.patience_s == HELIOS_USERS.patience_s
