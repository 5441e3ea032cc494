import tests.training.torch_library  # noqa: F401  (skips this module where torch is missing)

# isort: split
from pathlib import Path

import numpy as np
import pytest
from tests.training.environments.test_decisions import decision

from roost_engine.queue.selector_columns import CLUSTER_COLUMNS, JOB_COLUMNS
from roost_formats.models.order import load_onnx_selector
from roost_train.networks.score_selector import (
    MOVED_COLUMNS,
    READ_COLUMNS,
    ScoreScale,
    ScoreSelector,
)
from roost_train.release.selector_release import write_selector

pytestmark = pytest.mark.torch


def drawn() -> ScoreSelector:
    rng = np.random.default_rng(1)
    return ScoreSelector(rng.normal(size=len(READ_COLUMNS)), rng.normal(size=len(MOVED_COLUMNS)))


def test_the_start_ranks_by_the_learned_order_alone() -> None:
    one = decision(6)
    ranks = ScoreSelector.start().ranks(one.jobs, one.cluster)
    due = one.jobs[:, JOB_COLUMNS.index("ln_trusted_due")]
    assert np.argsort(-ranks).tolist() == np.argsort(due).tolist()


def test_a_rank_by_hand() -> None:
    weights, moved = np.zeros(len(READ_COLUMNS)), np.zeros(len(MOVED_COLUMNS))
    weights[READ_COLUMNS.index("run_60_1")] = -2.0
    moved[MOVED_COLUMNS.index("ln_gpus")] = 3.0
    jobs, cluster = np.zeros((1, len(JOB_COLUMNS))), np.zeros(len(CLUSTER_COLUMNS))
    jobs[0, JOB_COLUMNS.index("run_60_1")] = 0.5
    jobs[0, JOB_COLUMNS.index("ln_gpus")] = 0.25
    cluster[CLUSTER_COLUMNS.index("ln_backlog")] = 1.0
    # -2 · 0.5, and 3 · 0.25 by how far the backlog is above the usual 0.6.
    ranks = ScoreSelector(weights, moved).ranks(jobs.astype(np.float32), cluster.astype(np.float32))
    assert ranks.tolist() == pytest.approx([-1.0 + 0.75 * 0.4])


def test_the_released_file_ranks_as_the_selector_does(tmp_path: Path) -> None:
    selector, saved = drawn(), [decision(9, seed=place) for place in range(3)]
    path = write_selector(selector, saved, {"data": "made up"}, tmp_path)
    loaded = load_onnx_selector(path, lambda: 0.0)
    for one in saved:
        answer = loaded.ranks(one.jobs, one.cluster)
        assert answer == pytest.approx(selector.ranks(one.jobs, one.cluster), abs=1e-5)
    assert path.stat().st_size < 10_000


def test_the_scale_is_the_spread_within_a_queue_and_not_between_queues() -> None:
    queues = [np.zeros((2, len(JOB_COLUMNS)), dtype=np.float32) for _ in range(2)]
    queues[0][:, JOB_COLUMNS.index("ln_gpus")] = 0.0, 1.0
    queues[1][:, JOB_COLUMNS.index("ln_gpus")] = 5.0, 6.0
    queues[1][:, JOB_COLUMNS.index("ln_rest")] = 3.0
    scale = ScoreScale.of(queues)
    assert scale.spread[READ_COLUMNS.index("ln_gpus")] == pytest.approx(0.5)
    assert scale.spread[READ_COLUMNS.index("ln_rest")] == pytest.approx(0.02)  # the least
    start = scale.selector(scale.start())
    assert np.flatnonzero(start.weights).tolist() == [READ_COLUMNS.index("ln_trusted_due")]
    assert scale.start().shape == (scale.size,)
