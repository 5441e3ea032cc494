"""heuristic: the order of its questions, and a score by hand."""

import numpy as np
import pytest

from roost_engine.cluster.features import COLUMN, COLUMNS
from roost_engine.scoring.heuristic import HeuristicScore


def score_of(**columns: float) -> float:
    features = np.zeros((1, len(COLUMNS)), dtype=np.float32)
    for name, value in columns.items():
        features[0, COLUMN[name]] = value
    return float(HeuristicScore().score(features)[0])


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        ({"tier_frac": 0.0}, {"tier_frac": 0.5}),
        ({"tier_frac": 0.5}, {"tier_frac": 1.0}),
        ({"link_frac": 0.9}, {"link_frac": 0.8}),
        ({"link_best_frac": 1.0}, {"link_best_frac": 0.5}),
        ({"fragmentation_frac": 0.0}, {"fragmentation_frac": 0.1}),
        ({"leftover_frac": 0.125}, {"leftover_frac": 0.25}),
        ({"switch_sm_frac": 0.1}, {"switch_sm_frac": 0.2}),
        ({"root_pcie_frac": 0.1}, {"root_pcie_frac": 0.2}),
        ({"node_nvlink_frac": 0.1}, {"node_nvlink_frac": 0.2}),
        ({"node_sm_frac": 0.2}, {"switch_sm_frac": 0.2}),
    ],
)
def test_the_heuristic_prefers(better: dict[str, float], worse: dict[str, float]) -> None:
    assert score_of(**better) > score_of(**worse)


def test_all_neighbours_weigh_less_than_one_gpu_left_over_of_eight() -> None:
    loudest = dict.fromkeys((name for name in COLUMNS if name.count("_") == 2), 1.0)
    del loudest["link_best_frac"], loudest["load_known_frac"]
    assert len(loudest) == 12
    assert score_of(**loudest) > score_of(leftover_frac=1 / 8)


def test_a_score_is_the_weighted_sum_of_the_columns() -> None:
    # 4 · 0.5 + 2 · 0.75 - 4 · 0.5 - 2 · 0.25 - 0.5 · 0.5 - 0.008 · 0.5
    expected = 2.0 + 1.5 - 2.0 - 0.5 - 0.25 - 0.004
    found = score_of(
        link_frac=0.5,
        link_best_frac=0.75,
        tier_frac=0.5,
        fragmentation_frac=0.25,
        leftover_frac=0.5,
        switch_sm_frac=0.5,
        load_known_frac=1.0,
    )
    assert found == pytest.approx(expected)


def test_the_score_of_a_candidate_does_not_depend_on_the_others() -> None:
    """`is_rowwise` promises it, so that a scorer may score each option once."""
    features = np.random.default_rng(1).random((50, len(COLUMNS)), dtype=np.float32)
    policy = HeuristicScore()
    together = policy.score(features)
    assert together.shape == (50,)
    assert together.dtype == np.float32
    alone = [policy.score(features[row : row + 1]).item() for row in range(50)]
    assert together.tolist() == alone
    assert policy.score(features[::-1]).tolist() == alone[::-1]
