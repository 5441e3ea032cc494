"""A GraphNet as an ONNX file: the same weights always give the same bytes."""

from collections.abc import Mapping

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from roost_engine.scoring import graph_columns as names
from roost_formats.models.signature import GRAPH
from roost_train.export.onnx_export import serialized
from roost_train.networks.graph_net import WIDTHS, GraphNet

MODEL_FILE = "graph.onnx"
_CANARY_COUNTS = {"gpu": 4, "node": 3, "rack": 2, "pod": 2, "candidate": 4}
_CANARY_SEED = 1_000_039


def export_graph(net: GraphNet) -> bytes:
    """Return the network as an ONNX file of kind graph; the same weights give the same bytes."""
    node = helper.make_node
    nodes = [
        node("Gemm", [names.GPUS, "gpu_weight", "gpu_bias"], ["gpu_sum"]),
        node("Relu", ["gpu_sum"], [names.GPU_EMBEDDINGS]),
    ]
    levels = (
        ("node", names.GPU_SHARES, names.GPU_EMBEDDINGS, names.NODE_EMBEDDINGS),
        ("rack", names.NODE_SHARES, names.NODE_EMBEDDINGS, names.RACK_EMBEDDINGS),
        ("pod", names.RACK_SHARES, names.RACK_EMBEDDINGS, names.POD_EMBEDDINGS),
    )
    for level, shares, below, embeddings in levels:
        nodes += [
            node("MatMul", [shares, below], [f"{level}_part"]),
            node("Add", [f"{level}_part", f"{level}_rest"], [f"{level}_below"]),
            node("MatMul", [f"{level}_below", f"{level}_mean"], [f"{level}_from_below"]),
            node("Gemm", [f"{level}s", f"{level}_weight", f"{level}_bias"], [f"{level}_own"]),
            node("Add", [f"{level}_from_below", f"{level}_own"], [f"{level}_sum"]),
            node("Relu", [f"{level}_sum"], [embeddings]),
        ]
    nodes.append(node("Concat", [names.CANDIDATES, names.CONTEXT], ["head0"], axis=1))
    last = len(WIDTHS) + 1
    for number in range(1, last + 1):
        inputs = [f"head{number - 1}", f"head_weight{number}", f"head_bias{number}"]
        nodes.append(node("Gemm", inputs, [f"head_sum{number}"]))
        if number < last:
            nodes.append(node("Relu", [f"head_sum{number}"], [f"head{number}"]))
    nodes += [
        node("MatMul", [names.CANDIDATES, "skip"], ["linear"]),
        node("Add", ["linear", f"head_sum{last}"], [names.SCORE]),
    ]
    graph = helper.make_graph(
        nodes,
        "roost_graph",
        [_declared(tensor.name, tensor.sizes) for tensor in GRAPH.inputs],
        [
            _declared(tensor.name, tensor.sizes if len(tensor.sizes) > 1 else (*tensor.sizes, 1))
            for tensor in GRAPH.outputs
        ],
        [
            numpy_helper.from_array(weight, name)
            for name, weight in sorted(net.to_weights().items())
        ],
    )
    return serialized(graph)


def draw_batch(
    rng: np.random.Generator, counts: Mapping[str, int]
) -> dict[str, NDArray[np.float32]]:
    """Draw a call of a graph model: every number in 0..1.

    Args:
        rng: of the draw.
        counts: items of each level, see graph_columns.INPUT_SIZES.
    """
    return {
        name: rng.random(
            [counts[size] if isinstance(size, str) else size for size in sizes]
        ).astype(np.float32)
        for name, sizes in names.INPUT_SIZES.items()
    }


def draw_canary() -> dict[str, NDArray[np.float32]]:
    """Return the call whose answer the manifest of every graph model has."""
    return draw_batch(np.random.default_rng(_CANARY_SEED), _CANARY_COUNTS)


def _declared(name: str, sizes: tuple[int | str, ...]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, list(sizes))
