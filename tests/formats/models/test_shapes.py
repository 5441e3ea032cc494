from collections.abc import Mapping, Sequence

import numpy as np
import onnxruntime
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from roost_engine.domain.errors import PolicyError
from roost_formats.models.onnx_session import OnnxSession
from roost_formats.models.shapes import Size, describe, operators, shape_after, shape_of
from roost_formats.models.signature import KINDS
from roost_formats.testing.onnx_models import (
    ModelParts,
    attribute,
    blob,
    number,
    operation,
    value_info,
)

N = 5  # what the symbol n stands for when the runtime is asked; no other size is 5 or a sum of two
SIZES: st.SearchStrategy[int | str] = st.sampled_from([1, 2, 11, "n"])
SHAPES = st.lists(SIZES, max_size=3)
# Before 1.26 ONNX Runtime multiplies two vectors of different lengths. Roost refuses such a model.
MULTIPLIES_ANY_VECTORS = tuple(map(int, onnxruntime.__version__.split(".")[:2])) < (1, 26)


def after(
    operator: str, *inputs: Sequence[int | str], **attributes: int | float
) -> tuple[int | str, ...]:
    """What a rule gives, with plain sizes as numbers or symbols and others as texts."""
    shape = shape_after(operator, [shape_of(sizes) for sizes in inputs], attributes)
    return tuple(size.number if not size.multiples else str(size) for size in shape)


def test_every_kinds_operators_have_rules() -> None:
    assert operators() == frozenset.union(*(kind.allowed_operators for kind in KINDS.values()))


def test_sizes_add_up_and_read_as_sums() -> None:
    size = Size.of("n") + Size.of(3) + Size.of("m") + Size.of("n")
    assert size == Size(3, (("m", 1), ("n", 2)))
    assert str(size) == "m + 2 n + 3"
    assert size.of_one_item == 6
    assert (str(Size.of(0)), str(Size.of("n"))) == ("0", "n")
    assert describe(shape_of(["n", 18])) == "[n, 18]"


@pytest.mark.parametrize("operator", ["Identity", "Relu", "Sigmoid", "Softmax", "Tanh"])
def test_one_to_one_operators_keep_the_shape(operator: str) -> None:
    assert after(operator, ("n", 18)) == ("n", 18)


@pytest.mark.parametrize("operator", ["Add", "Div", "Mul", "Sub"])
@pytest.mark.parametrize(
    ("left", "right", "wanted"),
    [
        (("n", 18), ("n", 18), ("n", 18)),
        (("n", 18), (18,), ("n", 18)),
        (("n", 18), (1, 1), ("n", 18)),
        (("n", 1), (1, 18), ("n", 18)),
        ((), ("n",), ("n",)),
    ],
)
def test_pairs_repeat_a_size_of_one(
    operator: str,
    left: tuple[int | str, ...],
    right: tuple[int | str, ...],
    wanted: tuple[int | str, ...],
) -> None:
    assert after(operator, left, right) == after(operator, right, left) == wanted


@pytest.mark.parametrize(
    ("axis", "wanted"), [(0, ("2 n + 1", 4)), (1, ("n", 9)), (-1, ("n", 9)), (-2, ("2 n + 1", 4))]
)
def test_concat_adds_sizes_on_its_axis(axis: int, wanted: tuple[int | str, ...]) -> None:
    inputs = (("n", 4), (1, 4), ("n", 4)) if axis in (0, -2) else (("n", 4), ("n", 5))
    assert after("Concat", *inputs, axis=axis) == wanted


@pytest.mark.parametrize(
    ("left", "right", "wanted"),
    [
        (("n", 18), (18, 32), ("n", 32)),
        (("n", 18), (18,), ("n",)),
        ((18,), (18, 32), (32,)),
        ((18,), (18,), ()),
        ((7, "n", 2), (2, 3), (7, "n", 3)),
    ],
)
def test_matmul_contracts_the_inner_size(
    left: tuple[int | str, ...], right: tuple[int | str, ...], wanted: tuple[int | str, ...]
) -> None:
    assert after("MatMul", left, right) == wanted


def test_gemm_turns_its_factors_and_repeats_its_summand() -> None:
    assert after("Gemm", ("n", 18), (32, 18), (32,), transB=1) == ("n", 32)
    assert after("Gemm", ("n", 18), ("n", 4), transA=1) == (18, 4)
    assert after("Gemm", ("n", 18), (18, 4), (), alpha=0.5) == ("n", 4)


@pytest.mark.parametrize(
    ("operator", "inputs", "attributes", "message"),
    [
        ("Add", (("n", 18), ("n", 17)), {}, r"of \[n, 18\] and \[n, 17\]: sizes 18 and 17 do not"),
        ("Add", (("n",), (2,)), {}, "sizes n and 2 do not fit"),
        ("Add", ((2,),), {}, "has 1 inputs"),
        ("Relu", ((2,), (2,)), {}, "has 2 inputs"),
        ("Concat", (("n", 4), ("n", 4)), {}, "there is no axis$"),
        ("Concat", (("n", 4), ("n", 4)), {"axis": 2}, "there is no axis 2"),
        ("Concat", (("n", 4), ("n", 4)), {"axis": 1.0}, "there is no axis 1.0"),
        ("Concat", (("n", 4), (2, 4)), {"axis": 1}, "elsewhere than on axis 1"),
        ("Concat", (("n", 4), ("n",)), {"axis": 1}, "number of dimensions"),
        ("Concat", (), {"axis": 1}, "has 0 inputs"),
        ("Softmax", (("n",),), {"axis": -2}, "there is no axis -2"),
        ("MatMul", (("n", 18), (17, 1)), {}, "inner sizes 18 and 17 differ"),
        ("MatMul", ((1,), (2,)), {}, "inner sizes 1 and 2 differ"),
        ("MatMul", (("n", 18), ()), {}, "a single number"),
        ("Gemm", (("n", 18), (18,)), {}, "must have two dimensions"),
        ("Gemm", (("n", 18), (18, 1)), {"transA": 1}, "inner sizes n and 18 differ"),
        ("Gemm", ((1, 18), (18, 1), ("n", 1)), {}, "the summand is larger"),
        ("Loop", ((2,),), {}, "has no rule"),
    ],
)
def test_refuses_inputs_that_do_not_fit(
    operator: str,
    inputs: tuple[tuple[int | str, ...], ...],
    attributes: Mapping[str, int | float],
    message: str,
) -> None:
    with pytest.raises(ValueError, match=message):
        after(operator, *inputs, **attributes)


def runtime_shape(
    operator: str, inputs: Sequence[Sequence[int | str]], attributes: Mapping[str, int]
) -> tuple[int, ...] | None:
    """The shape that ONNX Runtime gives with N for the symbol; None where it refuses."""
    names = [f"x{position}" for position in range(len(inputs))]
    extra = b"".join(attribute(name, value) for name, value in attributes.items())
    # Sizes are declared as unknown, so that the runtime cannot go by anything but the arrays.
    parts = ModelParts(
        nodes=[operation(operator, names, ["y"], extra)],
        weights=[],
        inputs=[
            value_info(name, [f"{name}_{axis}" for axis in range(len(sizes))])
            for name, sizes in zip(names, inputs, strict=True)
        ],
        outputs=[blob(1, "y") + blob(2, blob(1, number(1, 1)))],  # float32 of any shape
    )
    arrays = {
        name: np.ones([N if size == "n" else int(size) for size in sizes], np.float32)
        for name, sizes in zip(names, inputs, strict=True)
    }
    try:
        return tuple(OnnxSession(parts.encode(), ("y",)).run(arrays)["y"].shape)
    except PolicyError:
        return None


def same_or_refused(
    operator: str, inputs: Sequence[Sequence[int | str]], attributes: Mapping[str, int]
) -> None:
    theirs = runtime_shape(operator, inputs, attributes)
    try:
        ours = shape_after(operator, [shape_of(sizes) for sizes in inputs], attributes)
    except ValueError:
        assert theirs is None
        return
    assert theirs == tuple(
        size.number + sum(N * count for _, count in size.multiples) for size in ours
    )


@pytest.mark.parametrize("operator", ["Add", "MatMul", "Mul"])
@given(inputs=st.tuples(SHAPES, SHAPES))
@settings(max_examples=60, deadline=None)
def test_runtime_gives_pairs_the_same_shape(
    operator: str, inputs: tuple[list[int | str], ...]
) -> None:
    are_vectors = all(len(sizes) == 1 for sizes in inputs)
    if MULTIPLIES_ANY_VECTORS and operator == "MatMul" and are_vectors:
        assume(inputs[0] == inputs[1])
    same_or_refused(operator, inputs, {})


@given(data=st.data(), turns=st.tuples(st.integers(0, 1), st.integers(0, 1)))
@settings(max_examples=100, deadline=None)
def test_runtime_gives_gemm_the_same_shape(data: st.DataObject, turns: tuple[int, int]) -> None:
    square = st.lists(SIZES, min_size=2, max_size=2)
    summand = st.lists(st.lists(SIZES, max_size=2), max_size=1)
    inputs = [data.draw(square), data.draw(square), *data.draw(summand)]
    same_or_refused("Gemm", inputs, {"transA": turns[0], "transB": turns[1]})


@given(
    first=SHAPES, others=st.lists(SHAPES, max_size=2), repeat=st.booleans(), axis=st.integers(-3, 3)
)
@settings(max_examples=100, deadline=None)
def test_runtime_gives_concat_the_same_shape(
    first: list[int | str], others: list[list[int | str]], repeat: bool, axis: int
) -> None:
    inputs = [first] * (len(others) + 1) if repeat else [first, *others]
    same_or_refused("Concat", inputs, {"axis": axis})
