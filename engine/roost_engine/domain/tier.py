"""How close together the GPUs of a placement are."""

from enum import IntEnum


class Tier(IntEnum):
    """Consolidation level of a placement; a smaller one is closer."""

    NODE = 0
    RACK = 1
    CLUSTER = 2  # across racks

    @property
    def in_words(self) -> str:
        """Return the words that `explain` prints: "in one rack"."""
        return _IN_WORDS[self]


_IN_WORDS = ("on one node", "in one rack", "across racks")
