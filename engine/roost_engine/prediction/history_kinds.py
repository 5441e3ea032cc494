"""Kinds of jobs and what a history of run times counts of each: see `history`."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from roost_engine.prediction.run_times import BAND_COUNT, ENDS_S

HALF_LIFE_S = 14 * 86_400.0


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of jobs.

    Attributes:
        name: unique.
        kept_frac: of its counts, at each later end.
    """

    name: str
    kept_frac: float


@dataclass(slots=True)
class KindSums:
    """What is remembered of one kind of jobs: weighted counts as of `at_s`.

    Attributes:
        ended: float64 [band], jobs that ended in the band.
        entered: float64 [band], jobs that came to the band, with those that still run.
        last_s: run times of the last jobs that ended, the newest last.
    """

    at_s: float = 0.0
    last_s: tuple[float, ...] = ()
    ended: NDArray[np.float64] = field(default_factory=lambda: np.zeros(BAND_COUNT))
    entered: NDArray[np.float64] = field(default_factory=lambda: np.zeros(BAND_COUNT))

    def fade(self, at_s: float, kept_frac: float) -> None:
        """Let the counts fade until now, and by one more job."""
        frac = kept_frac * self.fade_frac(at_s)
        self.at_s = max(at_s, self.at_s)
        self.ended *= frac
        self.entered *= frac

    def fade_frac(self, at_s: float) -> float:
        """Return the share of the counts that is left by then."""
        return float(2.0 ** min(0.0, (self.at_s - at_s) / HALF_LIFE_S))


@dataclass(slots=True, kw_only=True)
class WatchedRun:
    """A job that runs, as far as is known.

    Attributes:
        user_id: of the job.
        kinds: that it is of, the widest first.
        since_s: engine time from which its age is known.
        age_s: at `since_s`, seconds at full speed.
        speed_frac: at which it is believed to run since then; 0: it waits.
        band: it has been counted as having left the bands before this one.
    """

    user_id: int
    kinds: tuple[Kind, ...]
    since_s: float
    age_s: float
    speed_frac: float
    band: int

    @property
    def leaves_band(self) -> bool:
        """Whether it runs, and not in the last band, which has no end."""
        return self.speed_frac > 0 and self.band < BAND_COUNT - 1

    def next_s(self) -> float:
        """Return the engine time at which it leaves its band; see `leaves_band`."""
        return self.since_s + (ENDS_S[self.band] - self.age_s) / self.speed_frac


@dataclass(frozen=True, slots=True)
class KnownKind:
    """What is known of a kind of jobs at some moment.

    Attributes:
        hazards: float64 [band], of those that come to a band, the share that ends there.
        job_count: jobs that ended or still run, recent ones counting most.
        since_s: seconds since the last of them ended, or came to a band; None: there is none.
        last_s: run times of the last jobs that ended, the newest last.
    """

    hazards: NDArray[np.float64]
    job_count: float = 0.0
    since_s: float | None = None
    last_s: tuple[float, ...] = ()
