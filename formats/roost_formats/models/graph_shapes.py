"""Infers the shapes of all values that a graph computes, before a runtime allocates them.

A file states only the shapes of inputs, outputs and weights. The values between them can be far
larger: a Concat of a value with itself doubles it, and two dozen of them in a row need gigabytes.
Page: docs/models.md.
"""

import math
from collections.abc import Mapping

from roost_engine.domain.errors import PolicyError
from roost_formats.models.onnx_file import OnnxGraph, OnnxNode
from roost_formats.models.shapes import Shape, describe, shape_after, shape_of
from roost_formats.models.signature import Signature


def check_shapes(graph: OnnxGraph, signature: Signature) -> None:
    """Check the shapes of a graph's outputs, and how many numbers it computes.

    Args:
        graph: whose inputs and outputs have the names and types of the signature.
        signature: of the model's kind, with numbers for every symbol beside the batch.

    Raises:
        PolicyError: a shape cannot be inferred, an output has another shape than the signature's,
            or the values hold more numbers than the signature's limits allow.
    """
    shapes = infer_shapes(graph, signature)
    for tensor in signature.outputs:
        if tensor.name not in shapes:
            raise PolicyError(f"no operation of the model gives its output {tensor.name!r}")
        shape, wanted = shapes[tensor.name], shape_of(tensor.sizes)
        is_column = len(wanted) == 1 and shape == (*wanted, *shape_of([1]))
        if shape != wanted and not is_column:
            raise PolicyError(
                f"the model computes {tensor.name}{describe(shape)};"
                f" want {tensor.name}{describe(wanted)}"
            )
    # A graph can keep all of its values in memory until its last operation, so the sum is limited.
    constants = _constants(graph)
    computed = [name for node in graph.nodes for name in node.outputs if name not in constants]
    for names, is_constant in ((constants, True), (computed, False)):
        total = sum(_elements(shapes[name]) for name in names)
        _check_limit("the model", total, signature, is_constant=is_constant)


def infer_shapes(graph: OnnxGraph, signature: Signature) -> Mapping[str, Shape]:
    """Return the shape of every input, weight and computed value of a graph, by name.

    Raises:
        PolicyError: two values have the same name, an operation reads a value that no operation
            before it gives, the inputs do not fit the operator, or one value is too large.
    """
    shapes = {tensor.name: shape_of(tensor.sizes) for tensor in signature.inputs}
    shapes |= {name: shape_of(weight.shape) for name, weight in graph.weights.items()}
    constants = _constants(graph)
    for node in graph.nodes:
        if len(node.outputs) != 1 or not node.outputs[0]:
            raise PolicyError(
                f"an operation {node.operator} has {len(node.outputs)} outputs; want a named one"
            )
        name = node.outputs[0]
        if name in shapes:
            raise PolicyError(f"the model has two values named {name!r}")
        # Checked at once, so that no later size grows without bound.
        shapes[name] = _inferred(node, name, shapes)
        _check_value(name, shapes[name], signature, is_constant=name in constants)
    return shapes


def _inferred(node: OnnxNode, name: str, shapes: Mapping[str, Shape]) -> Shape:
    what = f"the shape of {name!r} cannot be inferred: {node.operator}"
    inputs = _inputs_of(node)
    for read in inputs:
        if read not in shapes:
            raise PolicyError(f"{what} reads {read!r}, which nothing before it gives")
    try:
        return shape_after(node.operator, [shapes[read] for read in inputs], node.attributes)
    except ValueError as error:
        raise PolicyError(f"{what} {error}") from error


def _inputs_of(node: OnnxNode) -> tuple[str, ...]:
    """Return the inputs of an operation without the empty names of absent last inputs."""
    count = len(node.inputs)
    while count and not node.inputs[count - 1]:
        count -= 1
    return node.inputs[:count]


def _constants(graph: OnnxGraph) -> set[str]:
    """Return the weights and the values computed from weights alone: a runtime does so at load."""
    constants = set(graph.weights)
    for node in graph.nodes:
        if constants.issuperset(_inputs_of(node)):
            constants.update(node.outputs)
    return constants


def _elements(shape: Shape) -> int:
    """Return how many numbers a value holds, for a batch of one item."""
    return math.prod(size.of_one_item for size in shape)


def _check_value(name: str, shape: Shape, signature: Signature, *, is_constant: bool) -> None:
    rank = signature.limits.rank
    if len(shape) > rank:
        raise PolicyError(f"{name!r} has the shape {describe(shape)}; want at most {rank} sizes")
    if sum(bool(size.multiples) for size in shape) > 1:
        raise PolicyError(
            f"{name!r} has the shape {describe(shape)}, which grows faster than the batch"
        )
    _check_limit(repr(name), _elements(shape), signature, is_constant=is_constant)


def _check_limit(what: str, elements: int, signature: Signature, *, is_constant: bool) -> None:
    limits = signature.limits
    limit = limits.weight_elements if is_constant else limits.intermediate_elements
    if elements > limit:
        of = "from weights alone" if is_constant else f"for one {' and one '.join(signature.batch)}"
        raise PolicyError(f"{what} holds {elements:,} numbers {of}; {limit:,} are allowed")
