"""Sharing: which jobs shared GPUs, for how long, and how much their partners slowed them."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from roost_engine.domain.model import JobId, NodeName, NodeShare

LIMITS_FRAC = (0.15, 0.3, 0.5)


@dataclass(slots=True)
class _Shared:
    seconds: float = 0.0
    work_s: float = 0.0  # that it would have needed alone for what it did beside partners


@dataclass(slots=True)
class PairLog:
    """Adds up what partners do to each job. `note` is called by `worlds.sharing`.

    Attributes:
        clock: the engine time of the simulation.
    """

    clock: Callable[[], float] = lambda: 0.0
    _jobs: dict[JobId, _Shared] = field(default_factory=dict)
    _open: dict[JobId, tuple[float, float]] = field(default_factory=dict)

    def note(self, job_id: JobId, speed_frac: float | None) -> None:
        """Note the speed of a job beside its partners from now on; None: it has none."""
        now_s = self.clock()
        begun = self._open.pop(job_id, None)
        if begun is not None:
            shared = self._jobs.setdefault(job_id, _Shared())
            shared.seconds += now_s - begun[0]
            shared.work_s += (now_s - begun[0]) * begun[1]
        if speed_frac is not None:
            self._open[job_id] = now_s, speed_frac

    def speeds(self) -> Mapping[JobId, tuple[float, float]]:
        """Return by job the seconds beside partners, and the mean share of its speed kept then."""
        return {
            job_id: (shared.seconds, shared.work_s / shared.seconds)
            for job_id, shared in self._jobs.items()
            if shared.seconds > 0
        }


@dataclass(slots=True)
class GpuHolds:
    """Finds the times in which two jobs held one GPU.

    Intervals come in the order of their ends. Of two jobs that shared a GPU the one that ends last
    finds the interval of the other.
    """

    _held_s: dict[tuple[NodeName, int], list[tuple[float, float]]] = field(default_factory=dict)

    def doubled(
        self, shares: tuple[NodeShare, ...], begin_s: float, end_s: float
    ) -> Iterator[tuple[NodeName, float, float]]:
        """Add the interval in which a job held some GPUs.

        Yields:
            (node, begin, end) of each time in which another job held one of these GPUs too.
        """
        for node, gpu in [(share.node, gpu) for share in shares for gpu in share.gpu_indices]:
            held = self._held_s.setdefault((node, gpu), [])
            for since_s, until_s in held:
                if until_s > begin_s:
                    yield node, max(since_s, begin_s), until_s
            held.append((begin_s, end_s))


@dataclass(frozen=True, slots=True, kw_only=True)
class SharingFigures:
    """What sharing did in one run.

    Attributes:
        jobs: jobs that had a partner.
        hours: of these jobs beside partners.
        mean_speed_frac: mean over these jobs of their mean speed beside partners.
        slowed_frac: the fraction of these jobs that lost more than each of LIMITS_FRAC.
    """

    jobs: int
    hours: float
    mean_speed_frac: float | None
    slowed_frac: tuple[float, ...]


def sharing_of(log: PairLog) -> SharingFigures:
    """Compute the figures of a run."""
    found = list(log.speeds().values())
    count = len(found)
    slowed = tuple(
        sum(speed < 1.0 - limit for _, speed in found) / count if count else 0.0
        for limit in LIMITS_FRAC
    )
    return SharingFigures(
        jobs=count,
        hours=sum(seconds for seconds, _ in found) / 3600,
        mean_speed_frac=sum(speed for _, speed in found) / count if count else None,
        slowed_frac=slowed,
    )
