"""Values that are computed when they are first read.

Most explanations of decisions are never read: the daemon shows one only to an operator who asks,
and a simulation of a million jobs shows none.
"""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Lazy(Generic[T]):
    """One value, computed by the first `get()`.

    The data that the computation reads must not change before the first `get()`.
    """

    __slots__ = ("_compute", "_value")
    _compute: Callable[[], T] | None
    _value: T

    def __init__(self, compute: Callable[[], T]) -> None:
        self._compute = compute

    @classmethod
    def of(cls, value: T) -> "Lazy[T]":
        """Return a Lazy of a value that is known already."""
        known = cls(lambda: value)
        known.get()
        return known

    def get(self) -> T:
        """Return the value; compute it if this is the first call."""
        if self._compute is not None:
            self._value = self._compute()
            self._compute = None
        return self._value

    def __eq__(self, other: object) -> bool:
        """Compare the values, which computes both."""
        return isinstance(other, Lazy) and self.get() == other.get()

    __hash__ = None  # type: ignore[assignment]  # a value may hold arrays

    def __repr__(self) -> str:
        """Return the representation of the value; that computes it."""
        return repr(self.get())

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy the value, not the function that computes it."""
        return Lazy.of, (self.get(),)
