"""Kinds of jobs and what a history of run times counts of each: see `history`."""

import re
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from roost_engine.domain.model import JobSpec
from roost_engine.prediction.run_time.run_times import BAND_COUNT, ENDS_S

KEPT_FRAC, KEPT_OF_USER_FRAC, KEPT_OF_NARROW_FRAC = 1.0, 0.95, 0.9  # at each later end
CACHE_LIMIT = 4_096  # names, and requests that are alike: users run similar jobs repeatedly

_LONGEST_NAME = 200

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

    def __hash__(self) -> int:
        """Hash the name, which is unique: kinds are looked up for each question."""
        return hash(self.name)


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


def kinds_of(job: JobSpec, reads_limits: bool = True) -> tuple[Kind, ...]:
    """Return the kinds that a job is of, the widest first; without a user, no narrow ones.

    The names of models do not count: they stand for how a job communicates, not for how long.
    """
    shape = job.shapes[0]
    return _kinds(
        job.partition if job.qos else "",  # partitions count together with QoS only
        job.qos,
        job.account,
        job.user_id,
        normalised(job.name),
        (shape.node_count, shape.gpus_per_node, shape.cpus_per_node),
        job.time_limit_s if reads_limits else None,
    )


def user_size_kind(job: JobSpec) -> str | None:
    """Return the name of the kind of a user's jobs of this size; None: the user is unknown."""
    return _user_size_name(job.user_id, job.gpu_count) if job.user_id >= 0 else None


def _user_size_name(user_id: int, gpu_count: int) -> str:
    return f"user {user_id} {gpu_count} gpus"


@lru_cache(CACHE_LIMIT, typed=True)  # limits of 60 and 60.0 s have different names
def _kinds(
    partition: str,
    qos: str,
    account: str,
    user_id: int,
    name: str,
    shape: tuple[int, int, int],
    limit_s: float | None,
) -> tuple[Kind, ...]:
    """See kinds_of; the name is normalised, the shape has nodes, and GPUs and CPUs of each."""
    node_count, gpus_per_node, cpus_per_node = shape
    gpu_count, user = node_count * gpus_per_node, f"user {user_id}"
    limit = f" {limit_s}" if limit_s else ""
    named = f"{user} name {name}" if name else user
    finest = f"{named} {node_count}x{gpus_per_node} {cpus_per_node}{limit}"
    wide = ("all", qos and f"partition {partition} {qos}", f"{gpu_count} gpus")
    sized = _user_size_name(user_id, gpu_count)
    narrow = (user, sized, name and named, finest) if user_id >= 0 else ()
    return (
        *(Kind(kind, KEPT_FRAC) for kind in wide if kind),
        *((Kind(f"account {account}", KEPT_FRAC),) if account else ()),
        *(
            Kind(kind, KEPT_OF_USER_FRAC if kind is user else KEPT_OF_NARROW_FRAC)
            for kind in narrow
            if kind
        ),
    )


_VARYING = re.compile(r"(?=[0-9a-f]*\d)[0-9a-f]{6,}|\d+")


def normalised(name: str) -> str:
    """Return a job's name without what changes from run to run: numbers and hashes.

    Of a long name only the beginning counts.
    """
    return _without_varying(name[:_LONGEST_NAME])


@lru_cache(CACHE_LIMIT)
def _without_varying(name: str) -> str:
    return _VARYING.sub("#", name.casefold())
