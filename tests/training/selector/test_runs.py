import tests.training.torch_library  # noqa: F401  (skips this module where torch is missing)

# isort: split
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any

import numpy as np
import pytest
from tests.training.burst import best_s, burst
from tests.training.environments.small_episodes import episodes

from roost_engine.queue.selector_columns import JOB_COLUMNS
from roost_sim.runs.simulation import simulate
from roost_train.errors import TrainError
from roost_train.networks.score_selector import READ_COLUMNS, ScoreScale, ScoreSelector
from roost_train.selector.runs import (
    Case,
    RecordingModel,
    SelectorRuns,
    mean_jct_s,
    selector_runs,
)

pytestmark = pytest.mark.torch


def shortest_first(sign: float = 1.0) -> ScoreSelector:
    numbers = np.zeros(ScoreScale(np.ones(len(READ_COLUMNS))).size)
    numbers[READ_COLUMNS.index("ln_rest")] = -sign
    return ScoreScale(np.ones(len(READ_COLUMNS))).selector(numbers)


def test_without_a_model_the_teacher_decides_as_in_any_simulation() -> None:
    played = episodes(warm_count=5)
    jobs = simulate(played.run(3)).outcome.jobs[5:]
    wanted = np.mean([job.ended_s - job.submit_s for job in jobs if job.ended_s is not None])
    assert mean_jct_s(played, 3, None) == pytest.approx(wanted)


def test_a_model_orders_the_jobs() -> None:
    assert mean_jct_s(burst(), 0, shortest_first()) == pytest.approx(best_s(), rel=1e-3)
    assert mean_jct_s(burst(), 0, shortest_first(-1.0)) > 2 * best_s()


@pytest.mark.parametrize("seed", range(3))
def test_the_untrained_selector_is_the_learned_order_start_by_start(seed: int) -> None:
    """Where every job waits for GPUs, and predictors learn while it does."""
    played = episodes(120, teacher="learned+consolidation+patient", loads=(1.3,))
    usual = mean_jct_s(played, seed, None)
    assert mean_jct_s(played, seed, ScoreSelector.start()) == usual


def test_processes_give_what_this_one_gives_and_seeds_take_turns() -> None:
    known = {"both": (burst(), episodes(job_count=20))}
    cases = [Case(seed, model) for seed in range(3) for model in (None, shortest_first())]
    with selector_runs(known, 1) as runs:
        here = runs["both"].jcts_s(cases)
    with selector_runs(known, 2) as runs:
        assert runs["both"].jcts_s(cases) == here
        assert runs["both"].of_seed(5) is known["both"][1]
    assert here[1] == pytest.approx(best_s(), rel=1e-3)


class DeadPool(ProcessPoolExecutor):
    """A pool of which a worker was killed."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        raise BrokenProcessPool


def test_a_killed_worker_is_named() -> None:
    runs = SelectorRuns("one", (), DeadPool(1))
    with pytest.raises(TrainError, match="a worker process was killed: take fewer --processes"):
        runs.jcts_s([Case(0, None)])


def test_a_recorder_keeps_queues_and_changes_nothing() -> None:
    recorder = RecordingModel(shortest_first(), every=3)
    assert mean_jct_s(burst(), 0, recorder) == pytest.approx(best_s(), rel=1e-3)
    assert recorder.queues
    assert all(jobs.shape[1] == len(JOB_COLUMNS) for jobs, _ in recorder.queues)
    assert all(len(jobs) > 1 for jobs, _ in recorder.queues)
