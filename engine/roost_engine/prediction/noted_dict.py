"""A dict that notes which of its keys have changed, so that a memo of it can hold just those."""

from collections.abc import Hashable, Iterable, Mapping
from typing import TypeVar

_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")

MOST_NOTED = 50_000


class NotedDict(dict[_K, _V]):
    """See the module. The keys are in order of insertion, and so are the notes.

    A caller that changes a value in place calls `note`. Beyond MOST_NOTED keys the notes
    are dropped, because they may never be asked for.

    Args:
        items: with which it begins; none of them counts as changed.
    """

    def __init__(self, items: Mapping[_K, _V] | Iterable[tuple[_K, _V]] = ()) -> None:
        super().__init__(items)
        self._noted: dict[_K, None] = {}
        self._is_complete = True

    def __setitem__(self, key: _K, value: _V) -> None:
        """Set an item, and note it."""
        super().__setitem__(key, value)
        self.note(key)

    def __delitem__(self, key: _K) -> None:
        """Delete an item, and note it."""
        super().__delitem__(key)
        self.note(key)

    def discard(self, key: _K) -> _V | None:
        """Remove an item and note it. Returns its value; None if there is none."""
        if key not in self:
            return None
        value = self[key]
        del self[key]
        return value

    def note(self, key: _K) -> None:
        """Note that an item has changed, or is gone."""
        self._noted.pop(key, None)
        self._noted[key] = None
        if len(self._noted) > MOST_NOTED:
            self._noted.clear()
            self._is_complete = False

    def take_notes(self) -> tuple[_K, ...] | None:
        """Return the keys noted since this was last called; None: there were too many."""
        noted, is_complete = tuple(self._noted), self._is_complete
        self._noted, self._is_complete = {}, True
        return noted if is_complete else None
