"""Rows of a table of measurements: CSV as people and programs write it.

Lines that begin with # and blank lines are no rows. Heads count in any case of letters, with a
blank or a dash in place of an underscore; columns that no reader asks for are passed over. Fields
may be parted by semicolons or tabs, the file may be gzipped and may begin with a byte-order mark.
"""

import csv
import gzip
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from io import StringIO
from math import isfinite
from pathlib import Path

from roost_train.errors import BadTable

MOST_BYTES = 256 << 20
_ABSENT = frozenset({"", "na", "n/a", "nan", "none", "null", "-"})


@dataclass(frozen=True, slots=True)
class Row:
    """One row.

    Attributes:
        path, line: where it is.
        fields: by head, in lower case with underscores.
    """

    path: Path
    line: int
    fields: Mapping[str, str]

    def __getitem__(self, name: str) -> str:
        return self.fields[name]

    def text(self, *names: str) -> str:
        """Return the first of some fields that is there; "" where none is."""
        return next((found for name in names if (found := self.fields.get(name, ""))), "")

    def number(self, name: str) -> float:
        """Return a field as a number.

        Raises:
            BadTable: it is none, or not finite.
        """
        value = self.number_of(name)
        if value is None:
            raise self.bad(f"{name} is {self.fields.get(name, '')!r}; want a number")
        return value

    def number_of(self, *names: str) -> float | None:
        """Return the first of some fields that is there, as a number; None: none is there.

        Raises:
            BadTable: it is no number, or not finite.
        """
        for name in names:
            given = self.fields.get(name, "")
            if given.lower() in _ABSENT:
                continue
            try:
                value = float(given)
            except ValueError:
                value = float("nan")
            if not isfinite(value):
                raise self.bad(f"{name} is {given!r:.60}; want a number")
            return value
        return None

    def bad(self, why: str) -> BadTable:
        """Return the error that this row cannot be used."""
        return BadTable(self.path, self.line, why)


def read_rows(path: Path, columns: Iterable[str] = ()) -> Iterator[Row]:
    """Yield the rows of a table.

    Args:
        path: of the table.
        columns: heads that must be there.

    Raises:
        BadTable: the file is missing, no text or too large, a column is missing, or a row has too
            few fields or too many.
    """
    lines = enumerate(StringIO(_text(path), newline=""), start=1)
    rows = [(at, line) for at, line in lines if line.strip() and not line.startswith("#")]
    if not rows:
        raise BadTable(path, 0, "has no line with the names of columns")
    delimiter = max(",;\t", key=rows[0][1].count)
    try:
        parsed = list(csv.reader((line for _, line in rows), delimiter=delimiter, strict=True))
    except csv.Error as error:
        raise BadTable(path, 0, f"is no CSV: {error}") from error
    if len(parsed) != len(rows):
        raise BadTable(path, 0, "a field goes over several lines; want one row a line")
    heads = [re.sub(r"[\s-]+", "_", head.strip().lower()) for head in parsed[0]]
    twice = [head for head in heads if head and heads.count(head) > 1]
    missing = [name for name in columns if name not in heads]
    if missing or twice:
        why = f"no column {missing[0]}" if missing else f"column {twice[0]} comes twice"
        raise BadTable(path, rows[0][0], f"{why}; there are {', '.join(heads)}"[:300])
    for (line, _), fields in zip(rows[1:], parsed[1:], strict=True):
        if len(fields) != len(heads):
            why = f"{len(fields)} fields; want {len(heads)}, as the first line names"
            raise BadTable(path, line, why)
        yield Row(path, line, dict(zip(heads, map(str.strip, fields), strict=True)))


def _text(path: Path) -> str:
    try:
        if path.exists() and not path.is_file():  # opening a pipe would wait for its writer
            raise BadTable(path, 0, "is no file")
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise BadTable(path, 0, f"is larger than {MOST_BYTES >> 20} MiB")
        return content.decode("utf-8-sig")
    except (OSError, EOFError, zlib.error) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise BadTable(path, 0, why) from error
    except UnicodeDecodeError as error:
        raise BadTable(path, 0, f"is no UTF-8 text: {error}") from error
