"""Adds a report up: what Roost chose beside what Slurm did, from the journal's past jobs.

Jobs are counted as they are read, so the memory does not grow with their number. Intervals are
those of a bootstrap over users and days: the jobs of one user on one day are alike, so that jobs
drawn singly would make the intervals too narrow.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from roost_formats.journal.past_jobs import PastJob
from roost_formats.report.figures import (
    SAME_START_S,
    Estimate,
    GroupFigures,
    GroupPair,
    LimitFigures,
    ReportFigures,
)

_DAY_S, _HOUR_S = 86_400.0, 3_600.0
_RESAMPLES, _SEED = 400, 20_260_301
_LEFT_NAMED = 20

# The sums of a cell, by place in its row.
_COLUMNS = (
    *("jobs", "run_gpu_s", "started", "chosen", "same"),
    *("link_gpus", "real", "planned", "stock_gpus", "stock", "real_beside_stock"),
    *("sooner", "sooner_s", "sooner_gpu_s", "later"),
    *("speed_gpus", "speed_gpu_s"),
)
_AT = {name: place for place, name in enumerate(_COLUMNS)}

Sums = NDArray[np.float64]  # [..., column]


class Watch(StrEnum):
    """What Roost did with a job.

    WATCHED: it chose, and Slurm started the job where it liked: modes shadow and advise.
    ENFORCED: Slurm started the job where Roost chose.
    LEFT: Roost chose nothing.
    """

    WATCHED = "watched"
    ENFORCED = "enforced"
    LEFT = "left"

    @classmethod
    def of(cls, job: PastJob) -> "Watch":
        """Return what Roost did with a job."""
        if job.is_binding is None:
            return cls.LEFT
        return cls.ENFORCED if job.is_binding else cls.WATCHED


@dataclass(slots=True)
class Tally:
    """Adds jobs up, by partition, user, day and what Roost did."""

    cells: dict[tuple[Watch, str, int, int], list[float]] = field(default_factory=dict)
    limits: Counter[str] = field(default_factory=Counter)
    limited_s: Counter[str] = field(default_factory=Counter)
    left: Counter[str] = field(default_factory=Counter)
    job_count: int = 0

    def add(self, job: PastJob) -> None:
        """Add a job."""
        self.job_count += 1
        if job.limit:
            self.limits[job.limit] += 1
            self.limited_s[job.limit] += round(job.limited_s)
        watch = Watch.of(job)
        if watch is Watch.LEFT:
            self.left[job.reason or "started before roostd saw it wait"] += 1
            return
        key = watch, job.partition, job.user_id, int(job.ended_s // _DAY_S)
        row = self.cells.get(key)
        if row is None:
            row = self.cells[key] = [0.0] * len(_COLUMNS)
        _add(row, job)

    def figures(self, since_s: float, until_s: float) -> ReportFigures:
        """Return the figures of all jobs."""
        keys = list(self.cells)
        sums = np.array(list(self.cells.values())).reshape(len(keys), len(_COLUMNS))

        def of(watch: Watch, takes: Callable[[str, int], bool]) -> GroupFigures | None:
            rows = [i for i, key in enumerate(keys) if key[0] is watch and takes(key[1], key[2])]
            return _figures(sums[rows], [(keys[i][2], keys[i][3]) for i in rows]) if rows else None

        def pair(name: str, takes: Callable[[str, int], bool]) -> GroupPair:
            return GroupPair(name, of(Watch.WATCHED, takes), of(Watch.ENFORCED, takes))

        users = Counter[int]()
        for key, row in self.cells.items():
            users[key[2]] += round(row[_AT["run_gpu_s"]])
        return ReportFigures(
            since_s=since_s,
            until_s=until_s,
            job_count=self.job_count,
            watched=of(Watch.WATCHED, lambda partition, user: True),
            enforced=of(Watch.ENFORCED, lambda partition, user: True),
            limits=tuple(
                LimitFigures(limit, count, float(self.limited_s[limit]))
                for limit, count in self.limits.most_common()
            ),
            left=tuple(self.left.most_common(_LEFT_NAMED)),
            partitions=tuple(
                pair(name, lambda partition, user, name=name: partition == name)  # type: ignore[misc]
                for name in sorted({key[1] for key in keys})
            ),
            users=tuple(
                pair(str(one), lambda partition, user, one=one: user == one)  # type: ignore[misc]
                for one, _ in users.most_common()
            ),
        )


def tally(jobs: Iterable[PastJob]) -> Tally:
    """Return the sums of jobs."""
    found = Tally()
    for job in jobs:
        found.add(job)
    return found


def _add(row: list[float], job: PastJob) -> None:
    row[_AT["jobs"]] += 1
    if job.started_s is None:
        return
    gpus = job.gpu_count
    row[_AT["run_gpu_s"]] += job.run_gpu_s
    row[_AT["started"]] += 1
    if job.decided_s is None or not job.planned:
        row[_AT["later"]] += 1
        return
    row[_AT["chosen"]] += 1
    row[_AT["same"]] += job.is_as_planned
    _add_links(row, job)
    sooner_s = job.started_s - job.decided_s
    if sooner_s > SAME_START_S:
        row[_AT["sooner"]] += 1
        row[_AT["sooner_s"]] += sooner_s
        row[_AT["sooner_gpu_s"]] += sooner_s * gpus
    if job.speeds_frac and job.tier is not None and job.planned_tier is not None:
        real, planned = job.speeds_frac[job.tier], job.speeds_frac[job.planned_tier]
        row[_AT["speed_gpus"]] += gpus
        row[_AT["speed_gpu_s"]] += job.run_gpu_s * (1 - real / planned)


def _add_links(row: list[float], job: PastJob) -> None:
    best, real, planned = job.best_link_score, job.link_score, job.planned_link_score
    # Slurm may have taken nodes of another kind, of which the best is another.
    real_best = job.real_best_link_score or best
    if not best or not real_best or real is None or planned is None:
        return  # one GPU a node has no links, and those of a lost node are not known
    gpus = job.gpu_count
    row[_AT["link_gpus"]] += gpus
    row[_AT["real"]] += gpus * real / real_best
    row[_AT["planned"]] += gpus * planned / best
    if job.stock_link_score is not None:
        row[_AT["stock_gpus"]] += gpus
        row[_AT["stock"]] += gpus * job.stock_link_score / best
        row[_AT["real_beside_stock"]] += gpus * real / real_best


def _figures(rows: Sums, blocks: Iterable[tuple[int, int]]) -> GroupFigures:
    """Return the figures of cells.

    Args:
        rows: float64 [cell, column].
        blocks: the user and the day of each cell; cells of one block are drawn together.
    """
    numbers: dict[tuple[int, int], int] = {}
    of_cell = [numbers.setdefault(block, len(numbers)) for block in blocks]
    block_sums = np.zeros((len(numbers), len(_COLUMNS)))
    np.add.at(block_sums, of_cell, rows)
    total, drawn = block_sums.sum(axis=0), _resampled(block_sums)

    def count(name: str) -> int:
        return round(float(total[_AT[name]]))

    def ratio(above: str, below: str, less: str = "") -> Estimate:
        return _estimate(total, drawn, lambda sums: _ratio(sums, above, below, less))

    def hours(name: str) -> Estimate:
        return _estimate(total, drawn, lambda sums: sums[..., _AT[name]] / _HOUR_S)

    return GroupFigures(
        job_count=count("jobs"),
        started_count=count("started"),
        gpu_hours=float(total[_AT["run_gpu_s"]]) / _HOUR_S,
        chosen_count=count("chosen"),
        same_frac=ratio("same", "chosen"),
        real_link_frac=ratio("real", "link_gpus"),
        planned_link_frac=ratio("planned", "link_gpus"),
        stock_link_frac=ratio("stock", "stock_gpus"),
        planned_gain_frac=ratio("planned", "link_gpus", "real"),
        stock_gain_frac=ratio("real_beside_stock", "stock_gpus", "stock"),
        sooner_count=count("sooner"),
        later_count=count("later"),
        sooner_s=ratio("sooner_s", "sooner"),
        waiting_gpu_hours=hours("sooner_gpu_s"),
        running_gpu_hours=hours("speed_gpu_s") if count("speed_gpus") else Estimate(),
    )


def _ratio(sums: Sums, above: str, below: str, less: str) -> Sums:
    counted = sums[..., _AT[above]] - (sums[..., _AT[less]] if less else 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        found: Sums = counted / sums[..., _AT[below]]
    return found


def _resampled(rows: Sums) -> Sums:
    """Return the sums of draws of as many blocks with replacement: [draw, column].

    One block says nothing of others: then there is no draw.
    """
    count = len(rows)
    if count < 2:
        return rows[:0]
    rng = np.random.default_rng(_SEED)  # the same journal gives the same report
    weights = rng.multinomial(count, np.full(count, 1 / count), size=_RESAMPLES)
    drawn: Sums = weights @ rows
    return drawn


def _estimate(total: Sums, drawn: Sums, figure: Callable[[Sums], Sums]) -> Estimate:
    value = float(figure(total))
    if not np.isfinite(value):
        return Estimate()
    if drawn.shape[0] < _RESAMPLES:
        return Estimate(value)
    values = figure(drawn)
    values = values[np.isfinite(values)]
    low, high = np.percentile(values, (2.5, 97.5)) if len(values) else (value, value)
    return Estimate(value, float(low), float(high))
