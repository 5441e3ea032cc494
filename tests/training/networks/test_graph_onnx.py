"""A graph network as an ONNX file, read by torch, numpy and ONNX Runtime."""

import tests.training.torch_library  # noqa: F401  (skips this module where torch is missing)

# isort: split

import numpy as np
import pytest

from roost_engine.scoring.graph_columns import OUTPUT_SIZES
from roost_formats.models.loader import open_session
from roost_formats.models.onnx_file import read_onnx
from roost_formats.models.score import GRAPH_MODEL
from roost_formats.models.signature import GRAPH
from roost_train.export.numpy_policy import run_all
from roost_train.networks.graph_net import GraphNet
from roost_train.networks.graph_onnx import draw_batch, export_graph

pytestmark = pytest.mark.torch
TOLERANCE = 1e-5
COUNTS = (
    {"gpu": 40, "node": 5, "rack": 3, "pod": 2, "candidate": 17},
    {"gpu": 8, "node": 1, "rack": 1, "pod": 1, "candidate": 0},
    {"gpu": 0, "node": 0, "rack": 0, "pod": 0, "candidate": 64},
    {"gpu": 256, "node": 0, "rack": 0, "pod": 0, "candidate": 0},
)


@pytest.mark.parametrize("counts", COUNTS)
@pytest.mark.parametrize("shipped", [False, True])
def test_numpy_torch_and_onnx_runtime_agree(counts: dict[str, int], shipped: bool) -> None:
    model = GRAPH_MODEL.read_bytes() if shipped else export_graph(GraphNet.random(7))
    graph = read_onnx(model, GRAPH)
    batch = draw_batch(np.random.default_rng(1), counts)
    readings = (
        run_all(graph, batch),
        GraphNet.from_weights(graph.weights).answer(batch),
        open_session(model, GRAPH).run(batch),
    )
    for name, sizes in OUTPUT_SIZES.items():
        one, *others = (np.asarray(reading[name]) for reading in readings)
        for other in others:
            difference = np.abs(one.reshape(-1) - other.reshape(-1)).max(initial=0.0)
            # Float32 has seven digits: a score of 20 steps by 2e-6.
            allowed = TOLERANCE * max(1.0, float(np.abs(one).max(initial=0.0)))
            assert difference <= allowed, (name, sizes)


def test_the_same_weights_give_the_same_bytes() -> None:
    assert export_graph(GraphNet.random(1)) == export_graph(GraphNet.random(1))
