"""Which rows of the table of kinds correct the decisions of a run."""

from roost_engine.prediction.interference_table import ALONE, TableState
from roost_engine.scoring.neighbour_corrections import PairCorrection

MOST_PAIRS = 2_000  # a run of the journal begins with them, about 100 bytes each
LEAST_MEAN = 0.005  # half a percent of speed; less is noise


def pairs_of(table: TableState) -> tuple[PairCorrection, ...]:
    """Return the pairs of a table that correct decisions, the largest first."""
    found = [
        PairCorrection(key.kind, key.beside, key.level, row.mean)
        for key, row in table.rows
        if key.beside != ALONE and abs(row.mean) >= LEAST_MEAN
    ]
    found.sort(key=lambda pair: (-abs(pair.mean), pair.kind, pair.beside, pair.level))
    return tuple(found[:MOST_PAIRS])
