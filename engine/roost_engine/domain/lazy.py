"""Records that are worked out when somebody reads them.

Most of what explains a decision is never read: the daemon shows it to whoever asks, a simulation
of a million jobs to nobody. What it is worked out from must not change in the meantime.
"""

from collections.abc import Callable
from dataclasses import fields
from typing import Any, Self


class Late:
    """Base of a frozen dataclass with slots whose missing fields are worked out together."""

    __slots__ = ("_work_out",)
    _work_out: Callable[[], Self]

    @classmethod
    def later(cls, work_out: Callable[[], Self], **known: object) -> Self:
        """Make a record of which only some fields are known.

        Args:
            work_out: makes the same record with all its fields; called at most once.
            known: fields that are set at once.
        """
        record, put = object.__new__(cls), object.__setattr__
        put(record, "_work_out", work_out)
        for name, value in known.items():
            put(record, name, value)
        return record

    def __getattr__(self, name: str) -> Any:
        """Work out what is missing: a slot that is not set comes here."""
        if name == "_work_out" or name not in type(self).__slots__:
            raise AttributeError(f"{type(self).__name__} has no {name}")
        whole = self._work_out()
        object.__delattr__(self, "_work_out")
        for field in fields(self):  # type: ignore[arg-type]
            object.__setattr__(self, field.name, getattr(whole, field.name))
        return getattr(self, name)
