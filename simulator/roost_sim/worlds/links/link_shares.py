"""Link shares: divides links among the jobs that cross them, max-min fair by progressive filling.

A link with enough bandwidth for all its jobs limits none of them. So a change affects only the jobs
that are connected to it through overloaded links, and only their shares are computed again.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from math import inf
from typing import TypeAlias

from roost_engine.domain.model import JobId

LinkId: TypeAlias = tuple[str, str]  # ("node" | "rack" | "pod", its name)

_ROUNDING = 1e-9  # relative; sums of loads that only just fit do not count as overload


@dataclass(frozen=True, slots=True)
class Traffic:
    """The traffic of one job on each link that it crosses, averaged over its steps."""

    links: tuple[LinkId, ...]
    bytes_per_s: float


@dataclass(slots=True)
class LinkShares:
    """The jobs on the links of a cluster.

    Attributes:
        capacity_bytes_per_s: of every link that a job may cross.
    """

    capacity_bytes_per_s: Mapping[LinkId, float]
    _traffic: dict[JobId, Traffic] = field(default_factory=dict)
    _jobs_on: dict[LinkId, dict[JobId, None]] = field(default_factory=dict)
    _wanted: dict[LinkId, float] = field(default_factory=dict)  # bytes/s, overloaded links only
    _share: dict[JobId, float] = field(default_factory=dict)
    _arrival: dict[JobId, int] = field(default_factory=dict)
    _next: int = 0

    def share_frac(self, job_id: JobId) -> float:
        """Return the fraction of its traffic that a job can send, above 0 and at most 1.

        Raises:
            KeyError: the job is not on any link.
        """
        return self._share[job_id]

    def add(self, job_id: JobId, traffic: Traffic) -> tuple[JobId, ...]:
        """Add a job to its links.

        Returns:
            The other jobs whose share changed, in the order in which they were added.

        Raises:
            KeyError: a link is unknown.
            ValueError: the job was added already.
        """
        if job_id in self._traffic:
            raise ValueError(f"job {job_id} is on its links already")
        for link in traffic.links:
            self.capacity_bytes_per_s[link]
        self._traffic[job_id], self._share[job_id] = traffic, 1.0
        self._arrival[job_id], self._next = self._next, self._next + 1
        if not traffic.links:
            return ()
        for link in traffic.links:
            self._jobs_on.setdefault(link, {})[job_id] = None
            self._add_up(link)
        changed = self._refill(self._tied_to([job_id]))
        return tuple(other for other in changed if other != job_id)

    def remove(self, job_id: JobId) -> tuple[JobId, ...]:
        """Remove a job from its links.

        Returns:
            The jobs whose share changed, in the order in which they were added.

        Raises:
            KeyError: the job is not on any link.
        """
        tied = self._tied_to([job_id])
        traffic = self._traffic.pop(job_id)
        del self._share[job_id], self._arrival[job_id]
        if not traffic.links:
            return ()
        for link in traffic.links:
            del self._jobs_on[link][job_id]
            self._add_up(link)
        return self._refill(other for other in tied if other != job_id)

    def _add_up(self, link: LinkId) -> None:
        """Update whether a link is overloaded. Summed each time: increments would drift."""
        wanted = sum([self._traffic[job].bytes_per_s for job in self._jobs_on[link]])
        if wanted > self.capacity_bytes_per_s[link] * (1 + _ROUNDING):
            self._wanted[link] = wanted
        else:
            self._wanted.pop(link, None)

    def _tied_to(self, seeds: Iterable[JobId]) -> list[JobId]:
        """Return the jobs that share an overloaded link with a seed, directly or through others."""
        found = dict.fromkeys(seeds)
        waiting = list(found)
        seen = set[LinkId]()
        while waiting:
            for link in self._traffic[waiting.pop()].links:
                if link in seen or link not in self._wanted:
                    continue
                seen.add(link)
                fresh = [job for job in self._jobs_on[link] if job not in found]
                found.update(dict.fromkeys(fresh))
                waiting += fresh
        return list(found)

    def _refill(self, jobs: Iterable[JobId]) -> tuple[JobId, ...]:
        """Compute the shares of a closed group of jobs; returns the jobs whose share changed."""
        group = sorted(jobs, key=self._arrival.__getitem__)
        before = [self._share[job] for job in group]
        self._fill(group)
        return tuple(job for job, old in zip(group, before, strict=True) if self._share[job] != old)

    def _fill(self, group: Sequence[JobId]) -> None:
        """Raise all shares together; a full link fixes the shares of its jobs.

        The level at which a link is full can only rise while other links fix shares. So a level in
        the heap is too low at worst; it is computed again when it is popped.
        """
        open_ = set(group)
        links = dict.fromkeys(
            link for job in group for link in self._traffic[job].links if link in self._wanted
        )
        spare = {link: self.capacity_bytes_per_s[link] for link in links}
        wanted = {link: self._wanted[link] for link in links}
        levels = [(spare[link] / wanted[link], link) for link in links]
        heapify(levels)
        while open_ and levels:
            supposed, link = heappop(levels)
            level = _level(spare[link], wanted[link])
            if level > supposed:
                heappush(levels, (level, link))
                continue
            for job in self._jobs_on[link]:
                if job in open_:
                    open_.discard(job)
                    self._share[job] = min(level, 1.0)
                    bytes_per_s = self._traffic[job].bytes_per_s
                    for crossed in self._traffic[job].links:
                        if crossed in spare:
                            spare[crossed] -= bytes_per_s * self._share[job]
                            wanted[crossed] -= bytes_per_s
        for job in open_:
            self._share[job] = 1.0


def _level(spare: float, wanted: float) -> float:
    return max(spare, 0.0) / wanted if wanted > 0 else inf
