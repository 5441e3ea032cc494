"""The file of what was learned of neighbours: the table of kinds, and the best rates of kinds.

A row is [kind, beside, level, total, square, count, worst, predicted, observed].
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from math import isfinite
from operator import attrgetter

from roost_engine.domain.job_kind import user_and_name
from roost_engine.prediction.interference.interference_table import (
    ALONE,
    MOST_ROWS,
    Key,
    Residuals,
    TableState,
)

MOST_BYTES = 32 << 20  # ten thousand rows with the longest names of jobs take less
_SCHEMA = "roost.interference-file/1"
_COLUMNS = attrgetter(*(column.name for column in fields(Residuals)))
_NUMBERS = len(fields(Residuals))
_LARGEST = 1e6  # no sum of fifty capped residuals comes near


@dataclass(frozen=True, slots=True)
class Learned:
    """What the file holds.

    Attributes:
        model: whose predictions the residuals are against.
        table: the table of kinds.
        best: the best steps per second, by size and kind.
    """

    model: str = ""
    table: TableState = field(default_factory=TableState)
    best: Mapping[str, float] = field(default_factory=dict)


def text_of(learned: Learned) -> str:
    """Return the text of the file."""
    rows = [[*key, *_COLUMNS(found)] for key, found in learned.table.rows]
    document = {"schema": _SCHEMA, "model": learned.model, "rows": rows, "best": dict(learned.best)}
    return json.dumps(document, separators=(",", ":"))


def read_learned(text: str) -> Learned:
    """Read what `text_of` returned.

    Raises:
        one of state_file.DAMAGED: it is something else.
    """
    document = json.loads(text)
    if document["schema"] != _SCHEMA:
        raise ValueError(f"want schema {_SCHEMA}, got {document['schema']!r:.60}")
    rows, best = document["rows"], document["best"]
    if len(rows) > MOST_ROWS or len(best) > MOST_ROWS:
        raise ValueError(f"has more than {MOST_ROWS} rows")
    table = TableState(tuple(_row(row) for row in rows))
    rates = {str(key): _number(rate) for key, rate in best.items()}
    return Learned(str(document["model"]), table, rates)


def _row(row: Sequence[object]) -> tuple[Key, Residuals]:
    names, numbers = row[:3], [_number(each) for each in row[3:]]
    if len(numbers) != _NUMBERS or not all(isinstance(name, str) for name in names):
        raise ValueError(f"a row has {len(row)} columns, or a name that is no text")
    found = Residuals(*numbers)
    if found.square < 0 or found.count <= 0 or max(map(abs, numbers)) > _LARGEST:
        raise ValueError("a row holds what no reports add up to")
    key = Key(*map(str, names))
    for kind in (key.kind, key.beside):
        if kind != ALONE and not 0 <= user_and_name(kind)[0] < 1 << 32:
            raise ValueError("a kind is of no user")
    return key, found


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{value!r:.40} is no number")
    number = float(value)  # OverflowError: a whole number of more than 308 digits
    if not isfinite(number):
        raise ValueError(f"{value!r:.40} is no number")
    return number
