"""lazy: a record whose fields are worked out when somebody reads one."""

from dataclasses import FrozenInstanceError, dataclass, replace

import pytest

from roost_engine.domain.lazy import Late


@dataclass(frozen=True, slots=True)
class Sum(Late):
    terms: tuple[int, ...]
    total: int
    note: str = "plain"


class Adder:
    def __init__(self) -> None:
        self.call_count = 0

    def __call__(self) -> Sum:
        self.call_count += 1
        return Sum((1, 2), 3)


def test_nothing_is_worked_out_for_what_is_known() -> None:
    adder = Adder()
    late = Sum.later(adder, terms=(1, 2))
    assert late.terms == (1, 2)
    assert adder.call_count == 0


def test_the_rest_is_worked_out_once() -> None:
    adder = Adder()
    late = Sum.later(adder, terms=(1, 2))
    assert (late.total, late.note) == (3, "plain")
    assert replace(late, note="again") == Sum((1, 2), 3, "again")
    assert adder.call_count == 1


def test_it_stays_frozen_and_misses_what_no_field_is_called() -> None:
    for record in (Sum.later(Adder(), terms=()), Sum((1, 2), 3)):
        with pytest.raises(FrozenInstanceError):
            record.total = 4  # type: ignore[misc]
        with pytest.raises(AttributeError, match="Sum has no mean"):
            record.mean  # noqa: B018
