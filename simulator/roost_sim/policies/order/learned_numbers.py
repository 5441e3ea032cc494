"""The numbers of roostd's orders, read from names of orders.

A name may carry numbers: `learned:ageing=0.5:window_s=86400` and `las:longest_wait_s=86400` are the
orders of roostd with these keys in the order section of its configuration.
Source: docs/order.md.
"""

from collections.abc import Mapping
from math import inf

from roost_engine.queue.learned_order import LearnedOrderConfig
from roost_sim.policies.part_numbers import PartNumbersError

LEARNED = "learned"
_KEYS = ("ageing", "window_s", "window_backlogs")


def learned_config(numbers: Mapping[str, float]) -> LearnedOrderConfig:
    """Return the order's numbers: the given ones, and defaults for the others.

    Raises:
        PartNumbersError: a key is unknown, or its value out of range.
    """
    for key, value in numbers.items():
        if key not in _KEYS:
            known = ", ".join(_KEYS)
            raise PartNumbersError(f"no number {key!r} of the learned order: there are {known}")
        if not 0.0 <= value < inf:
            raise PartNumbersError(f"learned order: want {key} from 0, finite, got {value:g}")
    return LearnedOrderConfig(**numbers)  # type: ignore[arg-type]


def longest_wait_s(numbers: Mapping[str, float]) -> float:
    """Return after which wait a job goes first in an order without ageing.

    Raises:
        PartNumbersError: another key is given, or the value is out of range.
    """
    key = "longest_wait_s"
    if list(numbers) != [key]:
        raise PartNumbersError(f"orders without ageing have the number {key!r} alone")
    if not numbers[key] > 0.0:
        raise PartNumbersError(f"want {key} above 0, got {numbers[key]:g}")
    return numbers[key]
