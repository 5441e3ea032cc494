"""Writing a graph as an ONNX file: the same graph always gives the same bytes.

Graphs are written by hand through onnx.helper: torch's exporter needs another package, takes
seconds, and names and shapes a graph differently in each release.
"""

import onnx
from onnx import helper

OPSET = 17
IR_VERSION = 8  # the oldest that carries opset 17


def serialized(graph: onnx.GraphProto) -> bytes:
    """Return a graph as a checked ONNX file; the same graph gives the same bytes."""
    model = helper.make_model(
        graph,
        ir_version=IR_VERSION,
        opset_imports=[helper.make_opsetid("", OPSET)],
        producer_name="roost-train",
    )
    onnx.checker.check_model(model, full_check=True)
    content: bytes = model.SerializeToString(deterministic=True)
    return content
