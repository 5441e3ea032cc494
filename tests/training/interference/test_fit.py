import tests.training.torch_library  # noqa: F401  (skips this module where torch is missing)

# isort: split
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.training.interference_tables import write_tables

from roost_engine.domain.tier import Tier
from roost_engine.prediction.interference.interference_model import LEVELS, UNKNOWN, Cases
from roost_engine.prediction.interference.interference_vector import QUANTITIES, vector
from roost_engine.testing.interference_cases import case_of
from roost_train.interference.fit import (
    InterferenceFit,
    Shape,
    export_interference,
    fit,
    nonnegative_least_squares,
)
from roost_train.interference.pairs import read_pairs
from roost_train.interference.spread import Spread


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> InterferenceFit:
    return fit(read_pairs(write_tables(tmp_path_factory.mktemp("tables"))), Shape())


vectors = st.dictionaries(st.sampled_from(QUANTITIES), st.floats(0, 1)).map(vector)
places = st.dictionaries(
    st.sampled_from(LEVELS), st.lists(vectors, max_size=4), min_size=1, max_size=3
)


@settings(max_examples=60, deadline=None)
@given(own=vectors, beside=places, data=st.data())
def test_more_load_never_predicts_less_slowdown(
    model: InterferenceFit,
    own: np.ndarray,
    beside: dict[str, list[np.ndarray]],
    data: st.DataObject,
) -> None:
    before = model.slowdowns(case_of(own, beside)).mean[0]
    level = data.draw(st.sampled_from(sorted(beside)))
    more = {**beside, level: [*beside[level], data.draw(vectors)]}
    assert model.slowdowns(case_of(own, more)).mean[0] >= before - 1e-5
    cases = case_of(own, beside)
    mask = cases.level(level)[:, len(QUANTITIES) * 2 : len(QUANTITIES) * 4] > 0
    cases.level(level)[:, : len(QUANTITIES) * 2][mask] += 0.3
    assert model.slowdowns(cases).mean[0] >= before - 1e-5


@settings(max_examples=40, deadline=None)
@given(own=vectors, neighbours=st.lists(vectors, min_size=2, max_size=5), seed=st.integers(0, 99))
def test_the_order_of_neighbours_changes_nothing(
    model: InterferenceFit, own: np.ndarray, neighbours: list[np.ndarray], seed: int
) -> None:
    shuffled = [neighbours[at] for at in np.random.default_rng(seed).permutation(len(neighbours))]
    one, two = (case_of(own, {"gpu": each, "nic": each}) for each in (neighbours, shuffled))
    for answer, other in zip(model.slowdowns(one), model.slowdowns(two), strict=True):
        assert answer.tobytes() == other.tobytes()


def test_without_neighbours_no_slowdown_is_predicted(model: InterferenceFit) -> None:
    mean, spread = model.slowdowns(Cases.empty(3))
    assert np.abs(mean).max() < 1e-6
    assert (spread > 0).all()
    assert (spread < 0.05).all()


def test_unknown_jobs_get_the_prior_with_a_wide_spread(model: InterferenceFit) -> None:
    known = vector({"sm": 0.8, "step_time": 0.5})
    rows = [case_of(own, {"gpu": [known]}) for own in (known, UNKNOWN)]
    (of_known,), (of_unknown,) = (model.slowdowns(row).spread for row in rows)
    assert of_unknown > of_known + 0.2
    (mean,) = model.slowdowns(rows[1]).mean
    assert 0.1 < mean < 1.5


def test_short_steps_have_a_wide_spread_and_unknown_ones_that_of_the_mean(
    model: InterferenceFit,
) -> None:
    model = replace(model, spread=Spread(base=0.1, by_step=0.3, shortness=0.4))
    whole = vector({"sm": 0.8, "step_time": 0.5})
    jobs = [vector({"sm": 0.8, "step_time": each}) for each in (0.0, 0.5, 1.0)]
    known = [model.slowdowns(case_of(own, {"gpu": [whole]})).spread[0] for own in jobs]
    assert known == pytest.approx([0.4, 0.25, 0.1], abs=0.005)
    for own, widened in ((vector({"sm": 0.8}), 0.125), (UNKNOWN, 0.25)):
        (found,) = model.slowdowns(case_of(own, {"gpu": [whole]})).spread
        assert found == pytest.approx(0.1 + 0.3 * 0.4 + widened, abs=0.005)


def test_only_jobs_that_communicate_are_slowed_off_the_gpu(model: InterferenceFit) -> None:
    talks, silent = vector({"nic": 0.504}), vector({"nic": 0.0, "sm": 1.0})
    (mean,) = model.slowdowns(case_of(talks, {"nic": [talks]}, Tier.RACK)).mean
    # The one measurement: 98.0 against 75.6 images/s.
    assert np.exp(mean) == pytest.approx(98.0 / 75.6, rel=1e-4)
    assert model.slowdowns(case_of(silent, {"nic": [talks]})).mean[0] == pytest.approx(0, abs=1e-6)
    assert model.slowdowns(case_of(talks, {"nic": [silent]})).mean[0] == pytest.approx(0, abs=1e-6)
    spreads = [model.slowdowns(case_of(talks, {"nic": [talks]}, tier)).spread[0] for tier in Tier]
    assert spreads == sorted(spreads)


def test_least_squares_with_bounds_has_known_answers() -> None:
    columns = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    free = nonnegative_least_squares(columns, columns @ np.array([2.0, 3.0]), 1e-6)
    assert free == pytest.approx([2.0, 3.0], abs=1e-3)
    bound = nonnegative_least_squares(columns, np.array([1.0, -5.0, -1.0]), 1e-6)
    assert bound == pytest.approx([0.0, 0.0], abs=1e-6)


def test_the_same_pairs_give_the_same_file(model: InterferenceFit) -> None:
    assert export_interference(model) == export_interference(model)
    assert (model.costs >= 0).all()
