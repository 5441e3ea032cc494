import tests.training.torch_library  # noqa: F401  (skips this module where torch is missing)

# isort: split

from pathlib import Path

import pytest

from roost_formats.models.loader import load_model
from roost_formats.models.signature import GRAPH
from roost_train.graph.release import write_graph
from roost_train.graph.training import GraphFigures, GraphHyperParameters
from roost_train.networks.graph_net import GraphNet

pytestmark = pytest.mark.torch


def test_a_release_is_loaded_as_the_daemon_would(tmp_path: Path) -> None:
    figures = GraphFigures(
        decision_count=1,
        explained_frac=0.5,
        regret=0.1,
        heuristic_regret=0.2,
        random_regret=0.3,
    )
    parameters = GraphHyperParameters(price=0.1)
    path = write_graph(GraphNet.random(2), parameters, figures, tmp_path / "new", "roost-train")
    assert load_model(path, GRAPH.kind, lambda: 0.0).name.startswith("onnx:")
    assert path.stat().st_size < 100_000
