"""Reads an untrusted ONNX file, before a runtime does.

A model file may come from anywhere, and runtimes have had vulnerabilities (external data that reads
other files, attributes that allocate memory). So this reader accepts only what a model of the given
kind needs, a flat graph of allowed operators over small float matrices, and refuses the rest.

Source of the field numbers: onnx.proto of ONNX 1.23. Page: docs/models.md.
"""

import math
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roost_engine.domain.errors import PolicyError
from roost_formats.models.signature import FLOAT32, INT64, Limits, Signature

OLDEST_OPSET, NEWEST_OPSET = 13, 25

_DTYPES = {1: FLOAT32, 7: INT64}  # by TensorProto.DataType
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5  # protobuf wire types
_MAX_VARINT_BYTES = 10


@dataclass(frozen=True, slots=True)
class OnnxNode:
    """One operation of the graph."""

    operator: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, float | int]


@dataclass(frozen=True, slots=True)
class OnnxValue:
    """An input or output of the graph.

    Attributes:
        name: that nodes refer to.
        dtype: the type of its numbers; None for a type that no signature uses.
        dimensions: None stands for a dimension that the file does not fix.
    """

    name: str
    dtype: np.dtype[Any] | None
    dimensions: tuple[int | None, ...]

    def describe(self) -> str:
        """Return the value as text, such as "float32 features[?, 18]"."""
        dtype = "other type" if self.dtype is None else self.dtype.name
        sizes = ", ".join("?" if size is None else str(size) for size in self.dimensions)
        return f"{dtype} {self.name}[{sizes}]"


@dataclass(frozen=True, slots=True)
class OnnxGraph:
    """A model that passed every check of this module. Weights are float32 and finite."""

    opset: int
    nodes: tuple[OnnxNode, ...]
    weights: Mapping[str, NDArray[np.float32]]
    inputs: tuple[OnnxValue, ...]
    outputs: tuple[OnnxValue, ...]

    def fed_inputs(self) -> tuple[OnnxValue, ...]:
        """Return the inputs that a call must give: old exporters list the weights beside them."""
        return tuple(value for value in self.inputs if value.name not in self.weights)


def read_onnx(model: bytes, signature: Signature) -> OnnxGraph:
    """Return the graph of a model file, checked against the limits of its kind.

    Args:
        model: the file's bytes.
        signature: of the model's kind; says which operators and sizes are allowed.

    Raises:
        PolicyError: the file is damaged, or holds something that its kind does not need.
    """
    fields = _Fields(model, "model", signature.title)
    fields.refuse({20: "training information", 25: "functions of its own"})
    graph = fields.inner(7, "graph")
    graph.refuse({15: "sparse weights", 14: "quantization"})
    limit = signature.limits.node_count
    nodes = tuple(_node(node, signature) for node in graph.inner_all(1, "operation"))
    if not 1 <= len(nodes) <= limit:
        raise PolicyError(f"the model has {len(nodes)} operations; want 1 to {limit}")
    weights: dict[str, NDArray[np.float32]] = {}
    for tensor in graph.inner_all(5, "weight"):
        name, weight = _weight(tensor, signature.limits)
        if name in weights:
            raise PolicyError(f"the model has two weights named {name!r}")
        weights[name] = weight
    return OnnxGraph(
        opset=_opset(fields),
        nodes=nodes,
        weights=weights,
        inputs=tuple(_value(value) for value in graph.inner_all(11, "graph input or output")),
        outputs=tuple(_value(value) for value in graph.inner_all(12, "graph input or output")),
    )


class _Fields:
    """The fields of one protobuf message, by number, in the message's order."""

    def __init__(self, message: bytes, what: str, title: str) -> None:
        """Parse a message.

        Args:
            message: its bytes.
            what: the message's name in errors.
            title: of the kind of model that it is part of.
        """
        self.what, self._title = what, title
        self._by_number: dict[int, list[int | bytes]] = {}
        for number, value in _walk(message, what):
            self._by_number.setdefault(number, []).append(value)

    def refuse(self, numbers: Mapping[int, str]) -> None:
        """Raise PolicyError if the message has any of these fields."""
        for number, name in numbers.items():
            if number in self._by_number:
                raise PolicyError(f"the {self.what} has {name}; {self._title} may not")

    def inner(self, number: int, what: str) -> "_Fields":
        """Return the fields of the one message in a field."""
        return _Fields(self.one_bytes(number), what, self._title)

    def inner_all(self, number: int, what: str) -> "Iterator[_Fields]":
        """Yield the fields of every message in a field."""
        for message in self.all_bytes(number):
            yield _Fields(message, what, self._title)

    def all_bytes(self, number: int) -> list[bytes]:
        """Return every value of a field of texts, blobs or messages."""
        values = list[bytes]()
        for value in self._by_number.get(number, []):
            if not isinstance(value, bytes):
                raise PolicyError(f"damaged model: field {number} of the {self.what} is a number")
            values.append(value)
        return values

    def one_bytes(self, number: int) -> bytes:
        """Return the one value of a field; of two values, readers may use different ones."""
        values = self.all_bytes(number)
        if len(values) != 1:
            raise PolicyError(
                f"damaged model: the {self.what} has field {number} {len(values)} times, want once"
            )
        return values[0]

    def text(self, number: int) -> str:
        """Return the text of a field, empty where it is absent."""
        if number not in self._by_number:
            return ""
        try:
            return self.one_bytes(number).decode()
        except UnicodeDecodeError as error:
            raise PolicyError(f"damaged model: a name in the {self.what} is no text") from error

    def texts(self, number: int) -> tuple[str, ...]:
        """Return every text of a field."""
        try:
            return tuple(value.decode() for value in self.all_bytes(number))
        except UnicodeDecodeError as error:
            raise PolicyError(f"damaged model: a name in the {self.what} is no text") from error

    def integers(self, number: int) -> list[int]:
        """Return every integer of a field, packed or not."""
        values = list[int]()
        for value in self._by_number.get(number, []):
            if isinstance(value, int):
                values.append(value)
                continue
            position = 0
            while position < len(value):
                integer, position = _varint(value, position, self.what)
                values.append(integer)
        return [value - (1 << 64) if value >> 63 else value for value in values]

    def integer(self, number: int) -> int | None:
        """Return the one integer of a field, None where it is absent."""
        values = self.integers(number)
        if len(values) > 1:
            raise PolicyError(f"damaged model: the {self.what} has field {number} twice")
        return values[0] if values else None


def _walk(message: bytes, what: str) -> Iterator[tuple[int, int | bytes]]:
    position = 0
    while position < len(message):
        key, position = _varint(message, position, what)
        number, wire_type = key >> 3, key & 7
        if wire_type == _VARINT:
            value, position = _varint(message, position, what)
            yield number, value
            continue
        if wire_type == _BYTES:
            length, position = _varint(message, position, what)
        elif wire_type in (_FIXED32, _FIXED64):
            length = 4 if wire_type == _FIXED32 else 8
        else:
            raise PolicyError(f"damaged model: wire type {wire_type} in the {what}")
        if number == 0 or length > len(message) - position:
            raise PolicyError(f"damaged model: the {what} ends early or is not an ONNX file")
        yield number, message[position : position + length]
        position += length


def _varint(message: bytes, position: int, what: str) -> tuple[int, int]:
    value = 0
    for count in range(_MAX_VARINT_BYTES):
        if position + count >= len(message):
            break
        byte = message[position + count]
        value |= (byte & 0x7F) << (7 * count)
        if byte < 0x80:
            return value & (1 << 64) - 1, position + count + 1
    raise PolicyError(f"damaged model: the {what} ends inside a number")


def _opset(fields: _Fields) -> int:
    versions = list[int]()
    for entry in fields.inner_all(8, "operator set"):
        if entry.text(1) not in ("", "ai.onnx"):
            raise PolicyError(f"the model uses the operator set {entry.text(1)!r}; want ai.onnx")
        versions.append(entry.integer(2) or 0)
    if len(versions) != 1 or not OLDEST_OPSET <= versions[0] <= NEWEST_OPSET:
        raise PolicyError(
            f"the model's operator set versions are {versions};"
            f" want one of {OLDEST_OPSET} to {NEWEST_OPSET}"
        )
    return versions[0]


def _node(fields: _Fields, signature: Signature) -> OnnxNode:
    operator, domain = fields.text(4), fields.text(7)
    if domain not in ("", "ai.onnx") or operator not in signature.allowed_operators:
        name = f"{domain}.{operator}" if domain else operator
        allowed = ", ".join(sorted(signature.allowed_operators))
        raise PolicyError(f"the model uses the operator {name!r}; allowed are {allowed}")
    fields.refuse({8: "an overload"})
    attributes: dict[str, float | int] = {}
    for attribute in fields.inner_all(5, "attribute"):
        name, value = _attribute(attribute, operator)
        if name in attributes:  # readers would disagree on which one counts
            raise PolicyError(f"damaged model: attribute {name!r} of {operator} is there twice")
        attributes[name] = value
    return OnnxNode(operator, fields.texts(1), fields.texts(2), attributes)


def _attribute(fields: _Fields, operator: str) -> tuple[str, float | int]:
    name, integer, floats = fields.text(1), fields.integer(3), fields.all_bytes(2)
    others = {4: "text", 5: "a tensor", 6: "a subgraph", 7: "a list", 8: "a list", 9: "a list"}
    others |= {10: "tensors", 11: "subgraphs", 21: "a reference", 22: "a sparse tensor"}
    fields.refuse({number: f"{kind} ({name!r} of {operator})" for number, kind in others.items()})
    if len(floats) == 1 and integer is None and len(floats[0]) == 4:
        return name, float(struct.unpack("<f", floats[0])[0])
    if integer is not None and not floats:
        return name, integer
    raise PolicyError(f"damaged model: attribute {name!r} of {operator} has no single number")


def _weight(fields: _Fields, limits: Limits) -> tuple[str, NDArray[np.float32]]:
    name = fields.text(8)
    if fields.all_bytes(13) or fields.integer(14):
        raise PolicyError(f"weight {name!r} lies in another file; want all weights in the model")
    if _DTYPES.get(fields.integer(2) or 0) != FLOAT32:
        raise PolicyError(f"weight {name!r} is not of type float32")
    fields.refuse({3: f"a segment ({name!r})"})
    dimensions = fields.integers(1)
    if len(dimensions) > limits.rank or any(not 1 <= d <= limits.dimension for d in dimensions):
        raise PolicyError(
            f"weight {name!r} has the shape {dimensions};"
            f" want at most {limits.rank} dimensions of 1 to {limits.dimension}"
        )
    if fields.all_bytes(9) and fields.all_bytes(4):
        raise PolicyError(f"damaged model: weight {name!r} holds its numbers twice")
    payload = fields.one_bytes(9) if fields.all_bytes(9) else b"".join(fields.all_bytes(4))
    if len(payload) != 4 * math.prod(dimensions):
        raise PolicyError(
            f"weight {name!r} has {len(payload)} bytes; want {4 * math.prod(dimensions)}"
        )
    weight = np.frombuffer(payload, dtype="<f4").astype(np.float32).reshape(dimensions)
    if not np.isfinite(weight).all():
        raise PolicyError(f"weight {name!r} holds NaN or infinity")
    return name, weight


def _value(fields: _Fields) -> OnnxValue:
    tensor = fields.inner(2, "type").inner(1, "tensor type")
    dimensions = list[int | None]()
    for shape in tensor.inner_all(2, "shape"):
        dimensions += [entry.integer(1) for entry in shape.inner_all(1, "dimension")]
    return OnnxValue(fields.text(1), _DTYPES.get(tensor.integer(1) or 0), tuple(dimensions))
