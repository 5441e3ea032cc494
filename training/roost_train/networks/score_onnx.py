"""A ScoreNet as an ONNX file: the same weights always give the same bytes."""

from onnx import TensorProto, helper, numpy_helper

from roost_engine.cluster.features import COLUMNS
from roost_formats.models.score import INPUT_NAME, OUTPUT_NAME
from roost_train.export.onnx_export import serialized
from roost_train.networks.score_net import ScoreNet


def export_onnx(net: ScoreNet) -> bytes:
    """Return the net as an ONNX file: features[candidate, column] to score[candidate, 1].

    The order of the additions is that of ScoreNet.forward.
    """
    node = helper.make_node
    nodes = [
        node("MatMul", [INPUT_NAME, "skip_shared"], ["shared"]),
        node("MatMul", [INPUT_NAME, "skip_load"], ["load"]),
        node("Gemm", [INPUT_NAME, "weight1", "bias1"], ["first"]),
        node("Relu", ["first"], ["first_active"]),
        node("Gemm", ["first_active", "weight2", "bias2"], ["second"]),
        node("Relu", ["second"], ["second_active"]),
        node("Gemm", ["second_active", "weight3", "bias3"], ["residual"]),
        node("Add", ["load", "residual"], ["fine"]),
        node("Add", ["shared", "fine"], [OUTPUT_NAME]),
    ]
    graph = helper.make_graph(
        nodes,
        "roost_score",
        [helper.make_tensor_value_info(INPUT_NAME, TensorProto.FLOAT, ["candidate", len(COLUMNS)])],
        [helper.make_tensor_value_info(OUTPUT_NAME, TensorProto.FLOAT, ["candidate", 1])],
        [
            numpy_helper.from_array(weight, name)
            for name, weight in sorted(net.to_weights().items())
        ],
    )
    return serialized(graph)
