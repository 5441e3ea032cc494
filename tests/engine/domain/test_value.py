"""Values: equal and hashable as frozen dataclasses are, without the price of one."""

import copy
import pickle
from dataclasses import dataclass, replace

from roost_engine.domain import actions, events, model
from roost_engine.domain.value import value


@value(kw_only=True)
class _Seen:
    at_s: float
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Frozen:
    at_s: float
    names: tuple[str, ...] = ()


@value(eq=False)
class _Same:
    number: int


@value()
class _OwnHash:
    number: int

    def __hash__(self) -> int:
        return 7


def test_values_of_equal_fields_are_equal_and_hash_alike() -> None:
    one, other = _Seen(at_s=1.0, names=("n1",)), _Seen(at_s=1.0, names=("n1",))
    assert one == other
    assert hash(one) == hash(other) == hash(_Frozen(at_s=1.0, names=("n1",)))
    assert one != replace(one, at_s=2.0)
    assert len({one, other}) == 1


def test_values_are_copied_and_pickled() -> None:
    one = _Seen(at_s=1.0, names=("n1",))
    assert pickle.loads(pickle.dumps(one)) == copy.deepcopy(one) == one


def test_a_value_without_equality_is_itself_alone() -> None:
    one = _Same(1)
    assert one != _Same(1)
    assert len({one, _Same(1)}) == 2


def test_a_value_keeps_its_own_hash() -> None:
    assert hash(_OwnHash(1)) == 7
    assert hash(model.Shape(node_count=2, gpus_per_node=8)) == 2 << 8 ^ 8


def test_a_value_keeps_its_fields_in_slots() -> None:
    for kind in (_Seen, events.Tick, actions.Place, model.JobSpec):
        assert "__dict__" not in dir(kind)
