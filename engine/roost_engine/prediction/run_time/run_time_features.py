"""What a model of run times reads of a job: numbers, the same for training and for roostd.

| columns | meaning |
|---|---|
| `ln_frac_0` ... `ln_frac_32` | ln of the share that ends in each band, by the history alone |
| `known_KIND` | ln(1 + jobs known): of the user, of as many GPUs, of this name, of this shape |
| `last_KIND`, `before_KIND` | ln of the last run time and of the one before; -1: there is none |
| `p10_KIND`, `p50_KIND`, `p90_KIND` | ln of the quantiles by the jobs of that kind alone |
| `gpus`, `nodes`, `cpus` | ln of GPUs, of nodes, and of 1 + CPUs on each node |
| `has_limit`, `limit` | whether there is a time limit, and ln of its seconds; 0 without one |
| `running`, `oldest`, `youngest` | ln(1 + the user's running jobs), ln(1 + age) of two of them |
| `since_end` | ln(1 + seconds since something was last learned of the user) |
| `hour_*`, `weekday_*` | sine and cosine of the wall clock in UTC; 0 where it is unknown |
| `name_0` ... `name_15` | three letters of the normalised name, hashed; the sum of squares is 1 |

Of wide kinds the number of jobs is left out: it grows for as long as a site is watched, so later
values would be ones that training never saw. All seconds are at full speed. A change of a column's
meaning is a new SCHEMA_VERSION.
"""

from collections.abc import Sequence
from functools import lru_cache
from math import cos, isfinite, log, log1p, pi, sin
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from roost_engine.domain.model import JobSpec
from roost_engine.prediction.run_time.history import RunTimeHistory, fracs_of
from roost_engine.prediction.run_time.history_kinds import KnownKind, normalised
from roost_engine.prediction.run_time.run_times import BAND_COUNT, RunTimes

SCHEMA_VERSION = 1

_NAME_COUNT = 16
_LEVELS = ("all", "partition", "gpus", "account", "user", "user_gpus", "name", "own")
_RECENT = ("user", "user_gpus", "name", "own")
_SPREAD = ("gpus", "account", "user")
_QUANTILES = (0.1, 0.5, 0.9)
_DAY_S, _WEEK_DAYS = 86_400.0, 7
_MIN_FRAC = 1e-6

COLUMNS: tuple[str, ...] = (
    *(f"ln_frac_{band}" for band in range(BAND_COUNT)),
    *(f"known_{level}" for level in _RECENT),
    *(f"{which}_{level}" for level in _RECENT for which in ("last", "before")),
    *(f"p{100 * frac:.0f}_{level}" for level in _SPREAD for frac in _QUANTILES),
    *("gpus", "nodes", "cpus", "has_limit", "limit"),
    *("running", "oldest", "youngest", "since_end"),
    *("hour_sin", "hour_cos", "weekday_sin", "weekday_cos"),
    *(f"name_{number}" for number in range(_NAME_COUNT)),
)


class RunTimeFeatures:
    """Describes jobs by what a history knows of them.

    Args:
        history: of the site's jobs.
        zero_epoch_s: the wall clock at engine time 0; None: unknown.
    """

    def __init__(self, history: RunTimeHistory, zero_epoch_s: float | None = None) -> None:
        self._history, self._zero_epoch_s = history, zero_epoch_s

    def of(self, job: JobSpec, at_s: float) -> NDArray[np.float32]:
        """Return the columns of a job, float32 [column], all finite.

        Args:
            job: as Slurm shows it.
            at_s: engine time.
        """
        levels = _by_level(job, self._history.known_kinds(job, at_s))
        fracs = fracs_of(levels["own"].hazards)
        row: list[float] = np.log(fracs + _MIN_FRAC).tolist()
        row += [log1p(levels[level].job_count) for level in _RECENT]
        for level in _RECENT:
            row += _recent(levels[level].last_s)
        for level in _SPREAD:
            times = RunTimes(fracs_of(levels[level].hazards))
            row += [log(times.quantile_s(frac)) for frac in _QUANTILES]
        row += _of_request(job)
        row += self._of_user(job.user_id, levels["user"], at_s)
        row += self._of_clock(at_s)
        row += _of_name(normalised(job.name))
        return np.array(row, dtype=np.float32)

    def _of_user(self, user_id: int, user: KnownKind, at_s: float) -> list[float]:
        ages_s = self._history.running_ages_s(user_id, at_s)
        since_s = 30 * _DAY_S if user.since_s is None else user.since_s
        oldest_s, youngest_s = (max(ages_s), min(ages_s)) if ages_s else (0.0, 0.0)
        return [log1p(len(ages_s)), log1p(oldest_s), log1p(youngest_s), log1p(since_s)]

    def _of_clock(self, at_s: float) -> list[float]:
        if self._zero_epoch_s is None:
            return [0.0] * 4
        days = (self._zero_epoch_s + at_s) / _DAY_S
        turns = (days % 1.0, (days % _WEEK_DAYS) / _WEEK_DAYS)
        return [wave(2 * pi * turn) for turn in turns for wave in (sin, cos)]


def _by_level(job: JobSpec, kinds: Sequence[KnownKind]) -> dict[str, KnownKind]:
    """Name the kinds of a job; a level that the job lacks is the next wider one without jobs."""
    has = {"partition": bool(job.qos), "account": bool(job.account)}
    has["name"] = bool(normalised(job.name))
    if job.user_id < 0:
        has.update(dict.fromkeys(_RECENT, False))
    found: dict[str, KnownKind] = {}
    rest = iter(kinds)
    wider = kinds[0]
    for level in _LEVELS:
        if has.get(level, True):
            wider = found[level] = next(rest)
        else:
            found[level] = KnownKind(wider.hazards)
    return found


def _recent(last_s: Sequence[float]) -> list[float]:
    known = [log(max(run_s, 1.0)) for run_s in reversed(last_s)]
    return [*known, -1.0, -1.0][:2]


def _of_request(job: JobSpec) -> list[float]:
    shape, limit_s = job.shapes[0], job.time_limit_s
    has_limit = limit_s is not None and isfinite(limit_s) and limit_s > 0
    return [
        log(max(job.gpu_count, 1)),
        log(max(shape.node_count, 1)),
        log1p(max(shape.cpus_per_node, 0)),
        float(has_limit),
        log(max(limit_s, 1.0)) if has_limit and limit_s is not None else 0.0,
    ]


@lru_cache(maxsize=4_096)
def _of_name(name: str) -> tuple[float, ...]:
    """Return the hashed letters of a name; crc32 is the same on every machine."""
    text = f" {name} ".encode("utf-8", "surrogatepass")
    sums = np.zeros(_NAME_COUNT)
    if name:
        for begin in range(len(text) - 2):
            found = crc32(text[begin : begin + 3])
            sums[found % _NAME_COUNT] += 1.0 if found & 0x8000_0000 else -1.0
    length = float(np.sqrt((sums * sums).sum()))
    return tuple((sums / length if length else sums).tolist())
