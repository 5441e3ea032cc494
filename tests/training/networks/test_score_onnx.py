import tests.training.torch_library  # noqa: F401  (skips this module where torch is missing)

# isort: split
import numpy as np
import onnx
import pytest
import torch
from tests.training.random_net import random_net

from roost_engine.cluster.features import COLUMNS
from roost_formats.models.loader import open_session
from roost_formats.models.onnx_file import read_onnx
from roost_formats.models.score import INPUT_NAME, OUTPUT_NAME
from roost_formats.models.signature import SCORE
from roost_train.networks.score_onnx import export_onnx
from roost_train.release.score_release import torch_scores

pytestmark = pytest.mark.torch


def test_export_keeps_the_scores() -> None:
    net = random_net()
    features = np.random.default_rng(0).random((40, len(COLUMNS)))
    model = export_onnx(net)
    with torch.inference_mode():
        exact = net.forward(torch.from_numpy(features)).numpy()
    single = features.astype(np.float32)
    np.testing.assert_allclose(torch_scores(model, single), exact, rtol=0, atol=1e-5)
    theirs = open_session(model, SCORE).run({INPUT_NAME: single})[OUTPUT_NAME]
    np.testing.assert_allclose(theirs.reshape(-1), exact, rtol=0, atol=1e-5)


def test_export_is_one_plain_file() -> None:
    model = onnx.load_model_from_string(export_onnx(random_net()))
    assert [opset.version for opset in model.opset_import] == [17]
    assert {node.op_type for node in model.graph.node} == {"MatMul", "Gemm", "Relu", "Add"}
    assert not any(weight.external_data for weight in model.graph.initializer)


def test_the_same_weights_give_the_same_bytes() -> None:
    assert export_onnx(random_net(1)) == export_onnx(random_net(1))
    assert export_onnx(random_net(1)) != export_onnx(random_net(2))


def test_the_ends_are_those_that_the_daemon_feeds_and_reads() -> None:
    graph = onnx.load_model_from_string(export_onnx(random_net())).graph
    ends = [*graph.input, *graph.output]
    shapes = [
        [one.dim_param or one.dim_value for one in end.type.tensor_type.shape.dim] for end in ends
    ]
    assert [end.name for end in ends] == [INPUT_NAME, OUTPUT_NAME]
    assert shapes == [["candidate", len(COLUMNS)], ["candidate", 1]]


def test_weights_read_back_from_the_file_are_those_of_the_net() -> None:
    net = random_net()
    weights = read_onnx(export_onnx(net), SCORE).weights
    assert set(weights) == set(net.to_weights())
    for name, weight in net.to_weights().items():
        np.testing.assert_array_equal(weights[name], weight)
