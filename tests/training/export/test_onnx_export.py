"""export.onnx_export: the same graph gives the same bytes, and a broken graph is no file."""

import onnx
import pytest
from onnx import TensorProto, helper

from roost_train.export.onnx_export import IR_VERSION, OPSET, serialized


def graph(operator: str = "Neg") -> onnx.GraphProto:
    return helper.make_graph(
        [helper.make_node(operator, ["x"], ["y"])],
        "one",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n"])],
    )


def test_the_same_graph_gives_the_same_bytes() -> None:
    assert serialized(graph()) == serialized(graph())
    assert serialized(graph()) != serialized(graph("Abs"))


def test_a_file_states_the_oldest_versions_that_carry_it() -> None:
    model = onnx.load_model_from_string(serialized(graph()))
    assert (model.ir_version, model.opset_import[0].version) == (IR_VERSION, OPSET)


def test_an_operator_that_onnx_does_not_know_is_refused() -> None:
    with pytest.raises(onnx.checker.ValidationError, match="Nonsense"):
        serialized(graph("Nonsense"))
