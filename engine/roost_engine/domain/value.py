"""Values: dataclasses whose fields never change, which the type checker alone enforces."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def value(*, kw_only: bool = False, eq: bool = True) -> Callable[[type[T]], type[T]]:
    """Return a decorator that makes a dataclass with slots, frozen to the type checker.

    A dataclass that is frozen at run time too stores each field by a call: 3.4 instead of 0.9 µs
    for a JobSpec of 27 fields. For what is made several times for each job, such as events, actions
    and shares, that was a tenth of a simulation.
    """

    def decorate(cls: type[T]) -> type[T]:
        hashes = eq and "__hash__" not in cls.__dict__
        return dataclass(slots=True, kw_only=kw_only, eq=eq, unsafe_hash=hashes)(cls)

    return decorate
