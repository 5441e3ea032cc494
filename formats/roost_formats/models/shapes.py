"""The shape of an operator's output from the shapes of its inputs: one rule for each operator.

A batch has another size at every call, so a size is a number plus multiples of symbols.
Source of the rules: Operators.md of ONNX 1.23.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

Attributes: TypeAlias = Mapping[str, float | int]
_NAMED_INPUTS = 3  # in messages: a Concat may have any number of inputs


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


def describe(shape: Shape) -> str:
    """Return a shape as text, such as "[candidate, 18]"."""
    return f"[{', '.join(str(size) for size in shape)}]"


def shape_after(operator: str, inputs: Sequence[Shape], attributes: Attributes) -> Shape:
    """Return the shape of an operator's output.

    Raises:
        ValueError: the operator cannot take these inputs, or has no rule; the text continues
            the operator's name.
    """
    rule = _RULES.get(operator)
    if rule is None:
        raise ValueError("has no rule")
    if not rule.least <= len(inputs) <= rule.most:
        raise ValueError(f"has {len(inputs)} inputs")
    try:
        return rule.shape(inputs, attributes)
    except ValueError as error:
        shapes = " and ".join(describe(shape) for shape in inputs[:_NAMED_INPUTS])
        raise ValueError(f"of {shapes}: {error}") from error


def operators() -> frozenset[str]:
    """Return the operators that have a rule."""
    return frozenset(_RULES)


def _broadcast(left: Shape, right: Shape) -> Shape:
    """Return the shape of an operation on pairs of numbers: a size of 1 is repeated to fit."""
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
    """Return the shape of a product; a vector counts as a row or column that the result lacks."""
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
    """Return an axis, counted from the first dimension; ONNX counts negative ones from the end."""
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
