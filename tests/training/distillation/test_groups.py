import numpy as np
import pytest

from roost_engine.cluster.features import COLUMN, COLUMNS, HEURISTIC_WEIGHTS
from roost_train.distillation.groups import NEAR_TIE_STEP, GroupMix, draw_groups

NEAR_TIES = GroupMix(near_tie_frac=1.0, scattered_frac=0.0)
ORDINARY = GroupMix(near_tie_frac=0.0, scattered_frac=0.0)


@pytest.mark.parametrize("size", [2, 7, 64])
def test_every_column_is_a_fraction(size: int) -> None:
    groups = draw_groups(np.random.default_rng(0), 50, size)
    assert groups.shape == (50, size, len(COLUMNS))
    assert groups.min() >= 0.0
    assert groups.max() <= 1.0
    np.testing.assert_array_equal(groups, groups.astype(np.float32))


def test_same_seed_same_groups() -> None:
    first, second = (draw_groups(np.random.default_rng(3), 20, 9) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_near_ties_differ_in_load_alone_by_thousandths() -> None:
    groups = draw_groups(np.random.default_rng(0), 100, 16, NEAR_TIES)
    varies = np.ptp(groups, axis=1) > 0
    loads = np.arange(COLUMN["switch_sm_frac"], COLUMN["load_known_frac"])
    assert not np.delete(varies, loads, axis=1).any()
    assert ((varies.sum(axis=1) >= 1) & (varies.sum(axis=1) <= 3)).all()
    smallest = min(
        np.diff(np.sort(group[:, column])).min()
        for group, row in zip(groups, varies, strict=True)
        for column in np.flatnonzero(row)
    )
    assert smallest == pytest.approx(NEAR_TIE_STEP, rel=1e-3)


def test_ordinary_groups_hang_together() -> None:
    groups = draw_groups(np.random.default_rng(0), 400, 16, ORDINARY).reshape(-1, len(COLUMNS))
    links, best = groups[:, COLUMN["link_frac"]], groups[:, COLUMN["link_best_frac"]]
    linked = links > 0
    assert np.corrcoef(links[linked], best[linked])[0, 1] > 0.3
    near, node = groups[:, COLUMN["switch_sm_frac"]], groups[:, COLUMN["node_sm_frac"]]
    assert np.corrcoef(near[near > 0], node[near > 0])[0, 1] > 0.5
    unknown = groups[:, COLUMN["load_known_frac"]] == 0
    assert not groups[unknown, COLUMN["switch_sm_frac"] : COLUMN["load_known_frac"]].any()


def test_no_column_is_a_combination_of_others() -> None:
    groups = draw_groups(np.random.default_rng(0), 200, 16).reshape(-1, len(HEURISTIC_WEIGHTS))
    assert np.linalg.matrix_rank(groups) == len(COLUMNS)
