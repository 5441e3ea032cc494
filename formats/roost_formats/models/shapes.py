"""Shapes of everything that a model computes, inferred before any runtime allocates it.

The file states only the shapes of inputs, outputs and weights. What lies between can be far larger:
a Concat of a value with itself doubles it, and 24 of them in a row need gigabytes. So each allowed
operator has a rule here that gives its output's shape, with the batch sizes as symbols.

Source of the rules: Operators.md of ONNX 1.23. Page: docs/policy.md.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from roost_engine.domain.errors import PolicyError
from roost_formats.models.onnx_file import OnnxGraph, OnnxNode
from roost_formats.models.signature import Signature

_NAMED_INPUTS = 3  # in messages: a Concat may have any number

Attributes: TypeAlias = Mapping[str, float | int]


@dataclass(frozen=True, slots=True)
class Size:
    """The size of one dimension: a number plus multiples of batch symbols.

    Attributes:
        number: the part that no symbol multiplies.
        multiples: how often each symbol is in the size, sorted by symbol. Two candidates for each
            candidate and one more is Size(1, (("candidate", 2),)), "2 candidate + 1" in messages.
    """

    number: int
    multiples: tuple[tuple[str, int], ...] = ()

    @classmethod
    def of(cls, size: int | str) -> "Size":
        """Return the size that a signature gives as a number or a symbol."""
        return cls(size) if isinstance(size, int) else cls(0, ((size, 1),))

    def __add__(self, other: "Size") -> "Size":
        sums = dict(self.multiples)
        for symbol, count in other.multiples:
            sums[symbol] = sums.get(symbol, 0) + count
        return Size(self.number + other.number, tuple(sorted(sums.items())))

    def __str__(self) -> str:
        parts = [symbol if n == 1 else f"{n} {symbol}" for symbol, n in self.multiples]
        if self.number or not parts:
            parts.append(str(self.number))
        return " + ".join(parts)

    @property
    def of_one_item(self) -> int:
        """The size in a batch of one item."""
        return self.number + sum(count for _, count in self.multiples)


Shape: TypeAlias = tuple[Size, ...]
_ONE = Size(1)


def shape_of(sizes: Sequence[int | str]) -> Shape:
    """Return a shape from numbers and batch symbols."""
    return tuple(Size.of(size) for size in sizes)


def described(shape: Shape) -> str:
    """Return a shape as text, such as "[candidate, 18]"."""
    return f"[{', '.join(str(size) for size in shape)}]"


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
        wanted = shape_of(tensor.sizes)
        column = (*wanted, _ONE) if len(wanted) == 1 else wanted
        if tensor.name not in shapes:
            raise PolicyError(f"no operation of the model gives its output {tensor.name!r}")
        if shapes[tensor.name] not in (wanted, column):
            raise PolicyError(
                f"the model computes {tensor.name}{described(shapes[tensor.name])};"
                f" want {tensor.name}{described(wanted)}"
            )
    _check_sums(graph, shapes, signature)


def infer_shapes(graph: OnnxGraph, signature: Signature) -> Mapping[str, Shape]:
    """Return the shape of every input, weight and computed value of a graph, by name.

    Raises:
        PolicyError: two values have the same name, an operation reads a value that no operation
            before it gives, the inputs do not fit the operator, or a value is too large.
    """
    shapes = {tensor.name: shape_of(tensor.sizes) for tensor in signature.inputs}
    shapes |= {name: shape_of(weight.shape) for name, weight in graph.weights.items()}
    constants = set(graph.weights)
    for node in graph.nodes:
        name, inputs = _output_of(node), inputs_of(node)
        if name in shapes:
            raise PolicyError(f"the model has two values named {name!r}")
        what = f"the shape of {name!r} cannot be inferred: {node.operator}"
        for missing in [read for read in inputs if read not in shapes]:
            raise PolicyError(f"{what} reads {missing!r}, which nothing before it gives")
        try:
            shape = _shape_after(node, [shapes[read] for read in inputs])
        except ValueError as error:
            raise PolicyError(f"{what} {error}") from error
        if constants.issuperset(inputs):
            constants.add(name)
        _check_value(name, shape, signature, is_constant=name in constants)
        shapes[name] = shape
    return shapes


def inputs_of(node: OnnxNode) -> tuple[str, ...]:
    """Return the values that an operation reads, without the empty names of absent last inputs."""
    inputs = list(node.inputs)
    while inputs and not inputs[-1]:
        inputs.pop()
    return tuple(inputs)


def operators() -> frozenset[str]:
    """Return the operators that have a rule here."""
    return frozenset(_RULES)


def _output_of(node: OnnxNode) -> str:
    if len(node.outputs) != 1 or not node.outputs[0]:
        raise PolicyError(
            f"an operation {node.operator} has {len(node.outputs)} outputs; want one with a name"
        )
    return node.outputs[0]


def _elements(shape: Shape) -> int:
    """The numbers in a value, for a batch of one item."""
    return math.prod(size.of_one_item for size in shape)


def _check_value(name: str, shape: Shape, signature: Signature, *, is_constant: bool) -> None:
    if len(shape) > signature.limits.rank:
        raise PolicyError(
            f"{name!r} has the shape {described(shape)}; at most {signature.limits.rank}"
            " dimensions are allowed"
        )
    if sum(bool(size.multiples) for size in shape) > 1:
        raise PolicyError(
            f"{name!r} has the shape {described(shape)}, which grows faster than the batch"
        )
    _check_limit(repr(name), _elements(shape), signature, is_constant=is_constant)


def _check_sums(graph: OnnxGraph, shapes: Mapping[str, Shape], signature: Signature) -> None:
    """Check the sums: a graph can keep all of its values in memory until its last operation."""
    constants = set(graph.weights)
    for node in graph.nodes:
        if constants.issuperset(inputs_of(node)):
            constants.update(node.outputs)
    computed = [name for node in graph.nodes for name in node.outputs if name not in constants]
    for names, is_constant in ((constants, True), (computed, False)):
        total = sum(_elements(shapes[name]) for name in names)
        _check_limit("the model", total, signature, is_constant=is_constant)


def _check_limit(what: str, elements: int, signature: Signature, *, is_constant: bool) -> None:
    limits = signature.limits
    limit = limits.weight_elements if is_constant else limits.intermediate_elements
    if elements > limit:
        of = "from weights alone" if is_constant else f"for one {' and one '.join(signature.batch)}"
        raise PolicyError(f"{what} holds {elements:,} numbers {of}; {limit:,} are allowed")


# -- one rule an operator ----------------------------------------------------------------------


def _broadcast(left: Shape, right: Shape) -> Shape:
    """The shape of an operation on pairs of numbers: a size of 1 is repeated to fit the other."""
    rank = max(len(left), len(right))
    pairs = zip(
        (_ONE,) * (rank - len(left)) + left, (_ONE,) * (rank - len(right)) + right, strict=True
    )
    return tuple(_fitted(a, b) for a, b in pairs)


def _fitted(left: Size, right: Size) -> Size:
    if left == right or right == _ONE:
        return left
    if left == _ONE:
        return right
    raise ValueError(f"sizes {left} and {right} do not fit")


def _pairwise(inputs: Sequence[Shape], attributes: Attributes) -> Shape:
    return _broadcast(inputs[0], inputs[1])


def _same(inputs: Sequence[Shape], attributes: Attributes) -> Shape:
    return inputs[0]


def _softmax(inputs: Sequence[Shape], attributes: Attributes) -> Shape:
    _axis(attributes.get("axis", -1), inputs[0])
    return inputs[0]


def _concat(inputs: Sequence[Shape], attributes: Attributes) -> Shape:
    if "axis" not in attributes:
        raise ValueError("there is no axis")
    first = inputs[0]
    axis = _axis(attributes["axis"], first)
    for shape in inputs[1:]:
        if shape[:axis] + shape[axis + 1 :] != first[:axis] + first[axis + 1 :]:
            raise ValueError(f"they differ elsewhere than on axis {axis}")
        if len(shape) != len(first):
            raise ValueError("they differ in their number of dimensions")
    joined = Size(0)
    for shape in inputs:
        joined += shape[axis]
    return (*first[:axis], joined, *first[axis + 1 :])


def _matmul(inputs: Sequence[Shape], attributes: Attributes) -> Shape:
    """A vector on the left is a row, a vector on the right a column; either is dropped after."""
    left, right = inputs
    if not left or not right:
        raise ValueError("one is a single number")
    _check_inner(left[-1], right[-2] if len(right) > 1 else right[-1])
    columns = right[-1:] if len(right) > 1 else ()
    return (*_broadcast(left[:-2], right[:-2]), *left[-2:-1], *columns)


def _gemm(inputs: Sequence[Shape], attributes: Attributes) -> Shape:
    left, right = inputs[:2]
    if len(left) != 2 or len(right) != 2:
        raise ValueError("the factors must have two dimensions")
    left = left[::-1] if attributes.get("transA", 0) else left
    right = right[::-1] if attributes.get("transB", 0) else right
    _check_inner(left[1], right[0])
    product = (left[0], right[1])
    # The summand is repeated to fit the product, never the product to fit the summand.
    if len(inputs) == 3 and _broadcast(product, inputs[2]) != product:
        raise ValueError("the summand is larger than the product")
    return product


def _check_inner(left: Size, right: Size) -> None:
    if left != right:
        raise ValueError(f"inner sizes {left} and {right} differ")


def _axis(value: float, shape: Shape) -> int:
    """An axis counted from the first dimension; ONNX counts negative ones from the end."""
    if not isinstance(value, int) or not -len(shape) <= value < len(shape):
        raise ValueError(f"there is no axis {value}")
    return value % len(shape)


@dataclass(frozen=True, slots=True)
class _Rule:
    """The shape of an operator's output, and how many inputs it takes at least and at most."""

    shape: Callable[[Sequence[Shape], Attributes], Shape]
    least: int
    most: float


_RULES: Mapping[str, _Rule] = {
    "Add": _Rule(_pairwise, 2, 2),
    "Concat": _Rule(_concat, 1, math.inf),
    "Div": _Rule(_pairwise, 2, 2),
    "Gemm": _Rule(_gemm, 2, 3),
    "Identity": _Rule(_same, 1, 1),
    "MatMul": _Rule(_matmul, 2, 2),
    "Mul": _Rule(_pairwise, 2, 2),
    "Relu": _Rule(_same, 1, 1),
    "Sigmoid": _Rule(_same, 1, 1),
    "Softmax": _Rule(_softmax, 1, 1),
    "Sub": _Rule(_pairwise, 2, 2),
    "Tanh": _Rule(_same, 1, 1),
}


def _shape_after(node: OnnxNode, inputs: Sequence[Shape]) -> Shape:
    """The shape of an operation's output.

    Raises:
        ValueError: the operator cannot take these inputs, or has no rule.
    """
    rule = _RULES.get(node.operator)
    if rule is None:
        raise ValueError("has no rule")
    if not rule.least <= len(inputs) <= rule.most:
        raise ValueError(f"has {len(inputs)} inputs")
    try:
        return rule.shape(inputs, node.attributes)
    except ValueError as error:
        shapes = " and ".join(described(shape) for shape in inputs[:_NAMED_INPUTS])
        raise ValueError(f"of {shapes}: {error}") from error
