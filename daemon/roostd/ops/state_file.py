"""A small file of the state folder without which the daemon runs: what it holds is learned again.

It is written whole or not at all. A damaged file counts as none, and the next write replaces it.
Every fault is logged.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import structlog

from roost_engine.domain.errors import RoostError

_log = structlog.get_logger(__name__)

_T = TypeVar("_T")

# What reading a damaged document may raise; OverflowError: JSON's Infinity is no count.
DAMAGED = (
    *(OSError, RoostError, ValueError, TypeError, KeyError),
    *(AttributeError, RecursionError, OverflowError),
)


class StateFile:
    """One such file.

    Args:
        path: where it is.
        name: begins the names of its log events: "waste" for waste_not_read, waste_not_stored.
        most_bytes: Roost never writes it larger.

    Attributes:
        fault: why it could not be read or written the last time; "" where it could.
    """

    def __init__(self, path: Path, name: str, most_bytes: int) -> None:
        self._path, self._name, self._most_bytes = path, name, most_bytes
        self.fault = ""

    def read(self, parse: Callable[[str], _T]) -> _T | None:
        """Return what the file holds; None: there is none, or it is damaged.

        Args:
            parse: reads the text, and raises one of DAMAGED where it is something else.
        """
        try:
            return parse(self._text())
        except FileNotFoundError:
            return None
        except DAMAGED as error:
            says_itself = isinstance(error, OSError | RoostError)
            self._note("read", str(error) if says_itself else f"{type(error).__name__}: {error}")
            return None

    def write(self, text: str) -> bool:
        """Write the file. Returns whether the disk took it; else the old file stays."""
        new = self._path.with_suffix(".new")
        try:
            new.write_text(text, encoding="utf-8")
            new.replace(self._path)
        except OSError as error:
            self._note("stored", error.strerror or str(error))
            return False
        self.fault = ""
        return True

    def _text(self) -> str:
        with self._path.open("rb") as file:
            content = file.read(self._most_bytes + 1)
        if len(content) > self._most_bytes:
            raise ValueError(f"is larger than {self._most_bytes} bytes")
        return content.decode("utf-8")

    def _note(self, what: str, why: str) -> None:
        self.fault = f"{self._path}: {why}"
        _log.error(f"{self._name}_not_{what}", path=str(self._path), error=why)
