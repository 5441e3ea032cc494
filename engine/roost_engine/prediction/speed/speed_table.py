"""Speeds of the models that jobs name, from a table of the site."""

from dataclasses import dataclass, field
from statistics import median

from roost_engine.prediction.speed.tier_speeds import NoTable, TierSpeeds


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpeeds:
    """One line of the table: the speed of a model on one number of GPUs, by tier.

    Attributes:
        model: the name by which jobs refer to the model; case does not matter.
        gpu_count: 2 or more.
        speeds: on one node, in one rack and across racks; only their ratios matter.
    """

    model: str
    gpu_count: int
    speeds: TierSpeeds


@dataclass(slots=True)
class TableOfSpeeds:
    """A tier_speeds.SpeedTable of given speeds.

    For a number of GPUs that the table lacks, it answers with the nearest number that it has.

    Attributes:
        rows: the lines of the table.
    """

    rows: tuple[ModelSpeeds, ...]
    _by_model: dict[str, dict[int, TierSpeeds]] = field(default_factory=dict)
    _typical: dict[int, TierSpeeds] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for row in self.rows:
            self._by_model.setdefault(row.model.lower(), {})[row.gpu_count] = row.speeds

    def speeds(self, model: str, gpu_count: int) -> TierSpeeds | None:
        """See tier_speeds.SpeedTable."""
        known = self._by_model.get(model.lower())
        return None if known is None else _nearest(known, gpu_count)

    def typical(self, gpu_count: int) -> TierSpeeds:
        """See tier_speeds.SpeedTable. For each tier it is the median of all models."""
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
    """Return the speeds on the number of GPUs whose ratio to the wanted one is closest to 1.

    Of two such numbers the smaller one is taken.
    """
    return rows[min(rows, key=lambda count: (max(count, gpu_count) / min(count, gpu_count), count))]
