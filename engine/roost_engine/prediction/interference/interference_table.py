"""The table of kinds: what was observed of each kind of job beside others, with shrinkage.

A kind is the jobs of one user with one name, see domain.job_kind. What is observed of a run is its
residual: the log slowdown by the job's own report, less the predicted one. It has three parts, each
shrunk towards 0 by pseudo-observations, whose residual is 0:

    residual(a beside b) = as victim(a) + beside(b, as a saw it) + placed(a on this level)

Only reports of a's own user enter rows of a: a user who reports nonsense changes no row of other
users. One report counts for at most three spreads.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import isfinite, log, sqrt
from typing import NamedTuple

from roost_engine.prediction.interference.interference_model import PRIOR_SPREAD
from roost_engine.prediction.noted_dict import NotedDict

TABLE = "interference"
_FEW_COUNT = 2.0  # pseudo-observations of residual 0
_MOST_COUNT = 50.0  # so that a kind that changes is forgotten
_CAP_SPREADS = 3.0
MOST_ROWS = 10_000
_LEAST_SPEED_FRAC = 0.02
ALONE = ""  # in place of a neighbour's kind


class Key(NamedTuple):
    """A row of the table.

    Attributes:
        kind: whose speed it is about.
        beside: the neighbour's kind; ALONE in the rows of the kind itself and of placements.
        level: the closest level that they share; beside ALONE the kind of placement, and empty in
            the row of the kind itself.
    """

    kind: str
    beside: str
    level: str


@dataclass(slots=True)
class Residuals:
    """The observations of one row.

    Attributes:
        total: sum of capped residuals.
        square: sum of their squares.
        count: how many, at most _MOST_COUNT.
        worst: the largest residual by size, not capped beyond three spreads.
        predicted, observed: log slowdowns of the newest report.
    """

    total: float = 0.0
    square: float = 0.0
    count: float = 0.0
    worst: float = 0.0
    predicted: float = 0.0
    observed: float = 0.0

    @property
    def error(self) -> float:
        """Standard error of the mean; a prior spread where there are no reports."""
        seen, shrunk = self.count + _FEW_COUNT, self.mean
        variance = (self.square + PRIOR_SPREAD * PRIOR_SPREAD) / seen - shrunk * shrunk
        return sqrt(max(variance, 0.0) / seen)

    @property
    def mean(self) -> float:
        """The shrunk mean."""
        return self.total / (self.count + _FEW_COUNT)

    def add(self, residual: float, predicted: float, observed: float, weight: float = 1.0) -> None:
        """Add an observation that counts as `weight` reports."""
        if self.count >= _MOST_COUNT:
            keep = (_MOST_COUNT - weight) / self.count
            self.total, self.square, self.count = (
                self.total * keep,
                self.square * keep,
                self.count * keep,
            )
        self.total += weight * residual
        self.square += weight * residual * residual
        self.count += weight
        self.worst = max(self.worst, residual, key=abs)
        self.predicted, self.observed = predicted, observed


@dataclass(frozen=True, slots=True)
class TableState:
    """Everything learned, as plain data."""

    rows: tuple[tuple[Key, Residuals], ...] = ()


def log_slowdown(speed_frac: float) -> float | None:
    """Return the log slowdown of a reported speed; None where the report is absurd."""
    if not isfinite(speed_frac) or speed_frac <= 0:
        return None
    return -log(min(max(speed_frac, _LEAST_SPEED_FRAC), 1.0))


@dataclass(slots=True)
class InterferenceTable:
    """See the module.

    Attributes:
        refused_count: reports that were absurd.
    """

    refused_count: int = 0
    _rows: NotedDict[Key, Residuals] = field(default_factory=NotedDict)

    def observe(
        self,
        kind: str,
        beside: Iterable[tuple[str, str]],
        predicted: float,
        spread: float,
        speed_frac: float,
        placement: str = "",
    ) -> None:
        """Count one report.

        Args:
            kind: of the job that reported.
            beside: (kind, level) of its neighbours; the report is divided among them.
            predicted: mean log slowdown that was predicted, uncorrected.
            spread: of the same.
            speed_frac: reported, of the job's speed alone.
            placement: the kind of placement, a tier's name; empty: not known.
        """
        observed = log_slowdown(speed_frac)
        if observed is None:
            self.refused_count += 1
        else:
            self.learn(kind, beside, predicted, spread, observed, placement)

    def learn(
        self,
        kind: str,
        beside: Iterable[tuple[str, str]],
        predicted: float,
        spread: float,
        observed: float,
        placement: str = "",
        weight: float = 1.0,
    ) -> None:
        """Count one observation.

        Args:
            kind: of the job.
            beside: (kind, level) of its neighbours; the observation is divided among them.
            predicted: mean log slowdown that was predicted, uncorrected.
            spread: of the same.
            observed: log slowdown, finite.
            placement: the kind of placement, a tier's name; empty: not known.
            weight: as how many reports it counts.
        """
        cap = _CAP_SPREADS * spread
        residual = min(max(observed - predicted, -cap), cap)
        self._row(Key(kind, ALONE, "")).add(residual, predicted, observed, weight)
        pairs = list(dict.fromkeys(beside))
        if placement:
            pairs.append((ALONE, placement))
        left = residual - self._mean(Key(kind, ALONE, ""))
        for other, level in pairs:
            self._row(Key(kind, other, level)).add(left / len(pairs), predicted, observed, weight)
        while len(self._rows) > MOST_ROWS:
            del self._rows[next(iter(self._rows))]

    def worst(self, count: int | None) -> list[tuple[Key, Residuals]]:
        """Return the rows of pairs and placements, the most mispredicted first; None: all."""
        rows = [row for row in self._rows.items() if row[0].level]
        return sorted(rows, key=lambda row: (-abs(row[1].mean), row[0]))[:count]

    def kinds(self) -> Mapping[str, Residuals]:
        """Return the rows of kinds themselves, the most reports first."""
        alone = [(key.kind, row) for key, row in self._rows.items() if not key.level]
        return dict(sorted(alone, key=lambda row: (-row[1].count, row[0])))

    def state(self) -> TableState:
        """Return everything learned, as plain data."""
        return TableState(tuple((key, replace(row)) for key, row in self._rows.items()))

    def restore(self, state: TableState) -> None:
        """Restore what `state` returned, in place of everything learned since."""
        self._rows = NotedDict((key, replace(row)) for key, row in state.rows)

    def _mean(self, key: Key) -> float:
        row = self._rows.get(key)
        return 0.0 if row is None else row.mean

    def _row(self, key: Key) -> Residuals:
        row = self._rows.discard(key) or Residuals()
        self._rows[key] = row
        return row
