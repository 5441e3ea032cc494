"""Which rows of the table of kinds correct decisions, and what of them the engine does not know."""

from collections.abc import Iterable, Mapping
from math import log
from typing import TypeAlias

from roost_engine.domain.pair_correction import PairCorrection
from roost_engine.prediction.interference.interference_table import ALONE, Residuals, TableState

MOST_PAIRS = 2_000  # a run of the journal begins with them, about 100 bytes each
LEAST_MEAN = 0.005  # half a percent of speed; less is noise
BAD_LOSS = -log(0.85)  # a pair that costs 15 % of the speed is not made again
_LEAST_REPORTS = 3

PairKey: TypeAlias = tuple[str, str, str]  # kind, beside, level


def pairs_of(table: TableState) -> tuple[PairCorrection, ...]:
    """Return the pairs of a table that correct decisions, the largest first."""
    found = [
        PairCorrection(key.kind, key.beside, key.level, row.mean, _is_bad(row))
        for key, row in table.rows
        if key.beside != ALONE and abs(row.mean) >= LEAST_MEAN
    ]
    found.sort(key=lambda pair: (-abs(pair.mean), pair.kind, pair.beside, pair.level))
    return tuple(found[:MOST_PAIRS])


def changes_of(
    known: Mapping[PairKey, PairCorrection], pairs: Iterable[PairCorrection]
) -> tuple[PairCorrection, ...]:
    """Return what an engine that knows some pairs must be told; a mean of 0: forget the pair."""
    wanted = by_key(pairs)
    gone = [
        PairCorrection(pair.kind, pair.beside, pair.level, 0.0)
        for key, pair in known.items()
        if key not in wanted
    ]
    new = [
        pair
        for key, pair in wanted.items()
        if (was := known.get(key)) is None
        or was.is_bad != pair.is_bad
        or abs(was.mean - pair.mean) >= LEAST_MEAN
    ]
    return (*gone, *new)


def by_key(pairs: Iterable[PairCorrection]) -> dict[PairKey, PairCorrection]:
    """Return pairs by kind, neighbour's kind and level."""
    return {(pair.kind, pair.beside, pair.level): pair for pair in pairs}


def _is_bad(row: Residuals) -> bool:
    """Whether a pair lost much more than predicted, and more than may be, several times."""
    is_sure = row.count >= _LEAST_REPORTS and row.mean > row.error
    return is_sure and row.predicted + row.mean >= BAD_LOSS
