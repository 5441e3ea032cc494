"""features: columns that stay fractions, and the weights of the heuristic."""

import ast
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

import roost_engine
from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.features import (
    COLUMN,
    COLUMNS,
    HEURISTIC_WEIGHTS,
    link_scale,
    load_fractions,
)
from roost_engine.domain.model import NodeName
from roost_engine.placement.search import find_candidates
from roost_engine.testing.builders import bridges, job, node, shape, topology

any_load = arrays(np.float32, (8, 4), elements=st.floats(width=32))


@given(any_load)
def test_load_fractions_are_fractions_whatever_the_load(load: NDArray[np.float32]) -> None:
    fractions = load_fractions(load)
    assert ((fractions >= 0) & (fractions <= 1)).all()
    assert (fractions[~np.isfinite(load)] == 0).all()


@given(any_load, any_load)
def test_every_column_is_a_fraction_whatever_the_load(
    one: NDArray[np.float32], other: NDArray[np.float32]
) -> None:
    cluster = Cluster()
    for name, load in (("a", one), ("b", other)):
        cluster.apply_node(node(name))
        cluster.apply_topology(NodeName(name), topology(name, bridges()).links, ())
        cluster.apply_loads((NodeName(name),), load[None])
    for wanted in (shape(1), shape(3), shape(8), shape(2, 2)):
        features = find_candidates(cluster, job("1", wanted), wanted).features
        assert ((features >= 0) & (features <= 1)).all()


def test_rates_saturate() -> None:
    load = np.array([[0.3, 0.2, 63e9, 450e9], [2.0, 0, 1e15, 1e15]], dtype=np.float32)
    fractions = load_fractions(load)
    np.testing.assert_allclose(fractions[0], [0.3, 0.2, 0.5, 0.5], rtol=1e-6)
    np.testing.assert_allclose(fractions[1], [1.0, 0.0, 1.0, 1.0], atol=1e-3)


def test_the_link_scale_keeps_the_order_of_links() -> None:
    scores = np.array([0, 10, 20, 30, 40, 50, 60, 100, 200, 400, 1200, 1800, 9900], dtype=float)
    scaled = link_scale(scores)
    assert (np.diff(scaled[:-1]) > 0).all()
    assert scaled[0] == 0
    assert scaled[-2] == scaled[-1] == 1


def test_the_weights_match_the_columns() -> None:
    assert HEURISTIC_WEIGHTS.shape == (len(COLUMNS),) == (18,)
    assert HEURISTIC_WEIGHTS[COLUMN["load_known_frac"]] == 0
    assert np.count_nonzero(HEURISTIC_WEIGHTS) == 17


def test_no_decision_hangs_on_how_blas_rounds() -> None:
    """BLAS sums in another order on another processor, and a journal must replay anywhere."""
    folder = Path(roost_engine.__file__).parent
    products = [
        f"{path.name}:{node.lineno}"
        for path in folder.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult)
    ]
    assert not products, f"use weighted_sums instead of @ in {', '.join(products)}"
