"""lazy: a value is computed once, when it is first read."""

import copy

from roost_engine.domain.lazy import Lazy


class Counted:
    def __init__(self) -> None:
        self.call_count = 0

    def __call__(self) -> tuple[int, ...]:
        self.call_count += 1
        return 1, 2


def test_a_value_is_computed_by_the_first_read_only() -> None:
    compute = Counted()
    lazy = Lazy(compute)
    assert compute.call_count == 0
    assert lazy.get() == lazy.get() == (1, 2)
    assert compute.call_count == 1


def test_values_are_compared_not_computations() -> None:
    assert Lazy(Counted()) == Lazy.of((1, 2))
    assert Lazy(Counted()) != Lazy.of((1, 3))
    assert Lazy.of(1) != 1
    assert repr(Lazy(Counted())) == "(1, 2)"


def test_a_copy_holds_the_computed_value() -> None:
    compute = Counted()
    assert copy.deepcopy(Lazy(compute)).get() == (1, 2)
    assert compute.call_count == 1
