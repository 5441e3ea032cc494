"""Values that are computed when they are first read.

Most of what explains a decision is never read: the daemon shows it to an operator who asks, a
simulation of a million jobs never does.
"""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Lazy(Generic[T]):
    """One value, computed by the first `get()`.

    What the computation reads must not change in the meantime.
    """

    __slots__ = ("_compute", "_value")
    _compute: Callable[[], T] | None
    _value: T

    def __init__(self, compute: Callable[[], T]) -> None:
        self._compute = compute

    @classmethod
    def of(cls, value: T) -> "Lazy[T]":
        """Wrap a value that is known already."""
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
        """Compare the values; that computes both."""
        return isinstance(other, Lazy) and self.get() == other.get()

    __hash__ = None  # type: ignore[assignment]  # a value may hold arrays

    def __repr__(self) -> str:
        """The value, computed."""
        return repr(self.get())

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy the value, not the way to compute it."""
        return Lazy.of, (self.get(),)
