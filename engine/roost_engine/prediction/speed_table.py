"""Speeds of the models that users name, from a table that the site gives."""

from dataclasses import dataclass, field
from statistics import median

from roost_engine.prediction.speed import NoTable, TierSpeeds


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpeeds:
    """One line of the table: how fast a model goes on each tier, on so many GPUs.

    Attributes:
        model: as users name it; case does not matter.
        gpu_count: 2 or more.
        speeds: of one node, one rack and across racks; only their ratios matter.
    """

    model: str
    gpu_count: int
    speeds: TierSpeeds


@dataclass(slots=True)
class TableOfSpeeds:
    """See prediction.speed.SpeedTable. Between the numbers of GPUs that a model has, the nearest.

    Attributes:
        rows: the table.
    """

    rows: tuple[ModelSpeeds, ...]
    _by_model: dict[str, dict[int, TierSpeeds]] = field(default_factory=dict)
    _typical: dict[int, TierSpeeds] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for row in self.rows:
            self._by_model.setdefault(row.model.lower(), {})[row.gpu_count] = row.speeds

    def speeds(self, model: str, gpu_count: int) -> TierSpeeds | None:
        """See prediction.speed.SpeedTable."""
        known = self._by_model.get(model.lower())
        return None if known is None else _nearest(known, gpu_count)

    def typical(self, gpu_count: int) -> TierSpeeds:
        """See prediction.speed.SpeedTable: the median, tier by tier, of all models."""
        if gpu_count < 2 or not self._by_model:
            return NoTable().typical(gpu_count)
        known = self._typical.get(gpu_count)
        if known is None:
            each = [_nearest(rows, gpu_count) for rows in self._by_model.values()]
            known = TierSpeeds(
                *(median(one.at(tier) / one.at(0) for one in each) for tier in range(3))
            )
            self._typical[gpu_count] = known
        return known


def _nearest(rows: dict[int, TierSpeeds], gpu_count: int) -> TierSpeeds:
    """Of the number of GPUs whose ratio to the wanted one is closest; of two, the smaller."""
    return rows[min(rows, key=lambda count: (max(count, gpu_count) / min(count, gpu_count), count))]
