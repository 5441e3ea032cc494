"""Small ONNX files for tests, good and bad, encoded here so that no test needs the onnx package."""

import hashlib
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from roost_engine.cluster.features import COLUMNS, HEURISTIC_WEIGHTS, SCHEMA_VERSION
from roost_engine.scoring.heuristic import HeuristicScore
from roost_formats.models.checked_model import Arrays
from roost_formats.models.manifest import Manifest, manifest_path
from roost_formats.models.score import INPUT_NAME, OUTPUT_NAME
from roost_formats.models.signature import SCORE, Signature

_FLOAT = 1


def varint(value: int) -> bytes:
    """Return a protobuf varint; a negative number takes 64 bits in two's complement."""
    encoded = bytearray()
    value &= (1 << 64) - 1
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def number(position: int, value: int) -> bytes:
    """Return a protobuf field that holds an integer."""
    return varint(position << 3) + varint(value)


def blob(position: int, value: bytes | str) -> bytes:
    """Return a protobuf field that holds a text, a blob or a message."""
    raw = value.encode() if isinstance(value, str) else value
    return varint(position << 3 | 2) + varint(len(raw)) + raw


def single(position: int, value: float) -> bytes:
    """Return a protobuf field that holds a float32."""
    return varint(position << 3 | 5) + struct.pack("<f", value)


def tensor(name: str, values: NDArray[np.float32]) -> bytes:
    """Return a TensorProto."""
    dimensions = b"".join(number(1, size) for size in values.shape)
    return dimensions + number(2, _FLOAT) + blob(8, name) + blob(9, values.astype("<f4").tobytes())


def value_info(name: str, dimensions: Sequence[int | str], element: int = _FLOAT) -> bytes:
    """Return a ValueInfoProto; a text is a dimension that is not fixed."""
    shape = b"".join(
        blob(1, number(1, size) if isinstance(size, int) else blob(2, size)) for size in dimensions
    )
    return blob(1, name) + blob(2, blob(1, number(1, element) + blob(2, shape)))


def attribute(name: str, value: float | int) -> bytes:
    """Return an AttributeProto that holds one number, as a field of a NodeProto."""
    if isinstance(value, float):
        return blob(5, blob(1, name) + single(2, value) + number(20, 1))
    return blob(5, blob(1, name) + number(3, value) + number(20, 2))


def operation(
    operator: str, inputs: Sequence[str], outputs: Sequence[str], extra: bytes = b""
) -> bytes:
    """Return a NodeProto; `extra` is appended as it is."""
    names = b"".join(blob(1, name) for name in inputs) + b"".join(blob(2, n) for n in outputs)
    return names + blob(4, operator) + extra


@dataclass(slots=True)
class ModelParts:
    """A model that answers as the heuristic does, in parts that a test can replace.

    Attributes:
        nodes: encoded NodeProto.
        weights: encoded TensorProto.
        inputs: encoded ValueInfoProto.
        outputs: encoded ValueInfoProto.
        opsets: encoded OperatorSetIdProto.
        graph_extra: appended to the GraphProto.
        model_extra: appended to the ModelProto.
    """

    nodes: list[bytes] = field(
        default_factory=lambda: [operation("MatMul", [INPUT_NAME, "weight"], [OUTPUT_NAME])]
    )
    weights: list[bytes] = field(
        default_factory=lambda: [tensor("weight", HEURISTIC_WEIGHTS[:, None])]
    )
    inputs: list[bytes] = field(
        default_factory=lambda: [value_info(INPUT_NAME, ["candidate", len(COLUMNS)])]
    )
    outputs: list[bytes] = field(
        default_factory=lambda: [value_info(OUTPUT_NAME, ["candidate", 1])]
    )
    opsets: list[bytes] = field(default_factory=lambda: [number(2, 17)])
    graph_extra: bytes = b""
    model_extra: bytes = b""

    def encode(self) -> bytes:
        """Return the file."""
        graph = blob(2, "test") + self.graph_extra
        for position, messages in ((1, self.nodes), (5, self.weights)):
            graph += b"".join(blob(position, message) for message in messages)
        for position, messages in ((11, self.inputs), (12, self.outputs)):
            graph += b"".join(blob(position, message) for message in messages)
        opsets = b"".join(blob(8, message) for message in self.opsets)
        return number(1, 8) + opsets + blob(7, graph) + self.model_extra


def doubling_parts(times: int, axis: int) -> ModelParts:
    """Return a model that answers as the heuristic does, and doubles its features many times.

    The doubled value has no effect: it is multiplied by zero, then reduced to one number for each
    candidate, which is added to the score. The shapes of the inputs and outputs do not show it.

    Args:
        times: how often the value is doubled.
        axis: 0 to double the candidates, 1 to double the columns.
    """
    names = [INPUT_NAME, *(f"doubled{step + 1}" for step in range(times))]
    nodes = [
        operation("Concat", [before, before], [after], attribute("axis", axis))
        for before, after in pairwise(names)
    ]
    nodes += [
        operation("MatMul", [INPUT_NAME, "weight"], ["heuristic"]),
        operation("Mul", [names[-1], "zero"], ["zeros"]),
    ]
    if axis == 0:  # the zeros' own product is [column, column]
        nodes += [
            operation("Gemm", ["zeros", "zeros"], ["square"], attribute("transA", 1)),
            operation("MatMul", [INPUT_NAME, "square"], ["product"]),
            operation("MatMul", ["product", "weight"], ["nothing"]),
        ]
    else:  # it is [candidate, candidate]
        nodes += [
            operation("Gemm", ["zeros", "zeros"], ["square"], attribute("transB", 1)),
            operation("MatMul", ["square", "heuristic"], ["nothing"]),
        ]
    parts = ModelParts(nodes=[*nodes, operation("Add", ["heuristic", "nothing"], [OUTPUT_NAME])])
    parts.weights.append(tensor("zero", np.zeros(1, np.float32)))
    return parts


def order_parts() -> ModelParts:
    """Return a model of kind order with 3 features of each job and 2 of the cluster.

    The rank is the job's first feature less its second, times the cluster's first.
    """
    return ModelParts(
        nodes=[
            operation("MatMul", ["cluster", "of_cluster"], ["gains"]),
            operation("Mul", ["jobs", "gains"], ["weighted"]),
            operation("MatMul", ["weighted", "ones"], ["rank"]),
        ],
        weights=[
            tensor("of_cluster", np.array([[1, -1, 0], [0, 0, 0]], np.float32)),
            tensor("ones", np.ones((3, 1), np.float32)),
        ],
        inputs=[value_info("jobs", ["n", 3]), value_info("cluster", [2])],
        outputs=[value_info("rank", ["n", 1])],
    )


def install_model(
    folder: Path,
    model: bytes,
    *,
    schema_version: int = SCHEMA_VERSION,
    columns: tuple[str, ...] = COLUMNS,
    canary_scores: NDArray[np.float32] | None = None,
) -> Path:
    """Write a score policy and its manifest, which fits it unless the arguments differ.

    Returns:
        The model's path.
    """
    features = np.random.default_rng(0).random((4, len(COLUMNS))).astype(np.float32)
    scores = HeuristicScore().score(features) if canary_scores is None else canary_scores
    return install_kind(
        folder,
        model,
        replace(SCORE, schema_version=schema_version),
        columns={INPUT_NAME: columns},
        canary_inputs={INPUT_NAME: features},
        canary_outputs={OUTPUT_NAME: scores},
    )


def install_kind(
    folder: Path,
    model: bytes,
    signature: Signature,
    *,
    columns: Mapping[str, tuple[str, ...]],
    canary_inputs: Arrays,
    canary_outputs: Arrays,
) -> Path:
    """Write a model of any kind and its manifest.

    Returns:
        The model's path.
    """
    manifest = Manifest(
        kind=signature.kind,
        schema_version=signature.schema_version,
        columns=columns,
        sha256=hashlib.sha256(model).hexdigest(),
        size_bytes=len(model),
        canary_inputs=canary_inputs,
        canary_outputs=canary_outputs,
        card={"name": "test"},
    )
    path = folder / "policy.onnx"
    path.write_bytes(model)
    manifest_path(path).write_text(manifest.to_json(), encoding="utf-8")
    return path
