import tests.training.torch_library  # noqa: F401  (skips this module where torch is missing)

# isort: split
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="needs scikit-learn (the train extra)")

from tests.training.interference_tables import write_tables

from roost_train.interference.baselines import (
    BASELINES,
    constant_mean,
    counts_of_kinds,
    nearest_neighbour,
    table_of_kinds,
)
from roost_train.interference.pairs import Pairs, Split, parts_of, read_pairs


@pytest.fixture
def sides(tmp_path: Path) -> tuple[Pairs, Pairs]:
    pairs = read_pairs(write_tables(tmp_path))
    learned, judged = parts_of(Split.PAIRS, pairs)[0]
    return pairs.where(learned), pairs.where(judged)


def test_every_baseline_predicts_every_pair(sides: tuple[Pairs, Pairs]) -> None:
    known, asked = sides
    for predict in BASELINES.values():
        found = predict(known, asked)
        assert found.shape == (len(asked),)
        assert np.isfinite(found).all()
    assert set(constant_mean(known, asked)) == {known.slowdown.mean()}
    np.testing.assert_allclose(nearest_neighbour(known, known), known.slowdown, atol=1e-9)


def test_the_table_knows_kinds_and_falls_back_for_others(sides: tuple[Pairs, Pairs]) -> None:
    known, asked = sides
    mean = np.abs(constant_mean(known, asked) - asked.slowdown).mean()
    assert np.abs(table_of_kinds(known, asked) - asked.slowdown).mean() < mean / 2
    pairs = Pairs(
        [*known.a, *asked.a],
        [*known.b, *asked.b],
        np.concatenate([known.own, asked.own]),
        np.concatenate([known.beside, asked.beside]),
        np.concatenate([known.slowdown, asked.slowdown]),
    )
    learned, judged = parts_of(Split.GPU, pairs)[0]
    one, other = pairs.where(learned), pairs.where(judged)
    assert set(table_of_kinds(one, other)) == {one.slowdown.mean()}
    assert not counts_of_kinds(one, other)[0].any()
    assert counts_of_kinds(known, asked)[0].min() >= 1
