import tests.training.torch_library  # noqa: F401  (skips this module where torch is missing)

# isort: split

import numpy as np
import pytest
import torch

from roost_engine.scoring import graph_columns as names
from roost_train.networks.graph_net import GraphNet, TorchGraph
from roost_train.networks.graph_onnx import draw_batch

pytestmark = pytest.mark.torch


def test_a_seed_gives_the_same_network() -> None:
    one, other = GraphNet.random(1).to_weights(), GraphNet.random(1).to_weights()
    assert all(np.array_equal(one[name], other[name]) for name in one)
    assert not np.array_equal(one["gpu_weight"], GraphNet.random(2).to_weights()["gpu_weight"])


def test_weights_survive_their_file() -> None:
    net = GraphNet.random(3)
    again = GraphNet.from_weights(net.to_weights())
    assert all(torch.equal(net.weights[name], again.weights[name]) for name in net.weights)
    assert len(net.parameters()) == len(net.weights)


def test_a_level_by_hand() -> None:
    net = GraphNet.random(0)
    net.weights["rack_weight"] = torch.zeros(len(names.RACK_COLUMNS), names.HIDDEN)
    net.weights["rack_weight"][0, 0] = 2.0
    net.weights["rack_mean"] = torch.eye(names.HIDDEN)
    net.weights["rack_bias"] = torch.full((names.HIDDEN,), -0.5)
    rows = torch.zeros(1, len(names.RACK_COLUMNS))
    rows[0, 0] = 0.75
    means = torch.zeros(1, names.HIDDEN)
    means[0, 1] = 1.0
    found = net.level("rack", rows, means)[0]
    assert found[:3].tolist() == [1.0, 0.5, 0.0]


def test_a_score_without_a_net_is_linear_in_the_columns() -> None:
    net = GraphNet.random(0)
    net.weights["head_weight3"] = torch.zeros_like(net.weights["head_weight3"])
    net.weights["skip"][2, 0] = 4.0
    rows = torch.zeros(2, len(names.CANDIDATE_COLUMNS))
    rows[1, 2] = 0.5
    assert net.scores(rows, torch.ones(2, names.CONTEXT_WIDTH)).tolist() == [0.0, 2.0]


def test_it_answers_as_a_graph_model() -> None:
    batch = draw_batch(
        np.random.default_rng(0), {"gpu": 5, "node": 2, "rack": 2, "pod": 1, "candidate": 3}
    )
    answer = TorchGraph(GraphNet.random(0)).ask(batch)
    assert {name: len(array) for name, array in answer.items()} == {
        "gpu_embeddings": 5,
        "node_embeddings": 2,
        "rack_embeddings": 2,
        "pod_embeddings": 1,
        "score": 3,
    }
