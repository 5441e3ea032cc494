"""Divides links among the jobs that cross them: max-min fair, by progressive filling.

A link that could carry all that its jobs want binds nobody. So a change reaches only the jobs that
are tied to it through overloaded links, and only their shares are worked out anew.
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
    """What one job puts on each link that it crosses, averaged over its steps."""

    links: tuple[LinkId, ...]
    bytes_per_s: float


@dataclass(slots=True)
class LinkShares:
    """The jobs on the links of a cluster.

    Attributes:
        capacity_bytes_per_s: of every link that may be named.
    """

    capacity_bytes_per_s: Mapping[LinkId, float]
    _traffic: dict[JobId, Traffic] = field(default_factory=dict)
    _jobs_on: dict[LinkId, dict[JobId, None]] = field(default_factory=dict)
    _wanted: dict[LinkId, float] = field(default_factory=dict)  # bytes per second, of overloaded
    _share: dict[JobId, float] = field(default_factory=dict)
    _came: dict[JobId, int] = field(default_factory=dict)
    _next: int = 0

    def share_frac(self, job_id: JobId) -> float:
        """What a job gets of what it wants, above 0 and at most 1.

        Raises:
            KeyError: it is not here.
        """
        return self._share[job_id]

    def add(self, job_id: JobId, traffic: Traffic) -> tuple[JobId, ...]:
        """Put a job on its links.

        Returns:
            The other jobs whose share changed, in the order in which they came.

        Raises:
            KeyError: a link is unknown.
            ValueError: the job is here already.
        """
        if job_id in self._traffic:
            raise ValueError(f"job {job_id} is on its links already")
        for link in traffic.links:
            self.capacity_bytes_per_s[link]
        self._traffic[job_id], self._share[job_id] = traffic, 1.0
        self._came[job_id], self._next = self._next, self._next + 1
        if not traffic.links:
            return ()
        for link in traffic.links:
            self._jobs_on.setdefault(link, {})[job_id] = None
            self._add_up(link)
        changed = self._refill(self._tied_to([job_id]))
        return tuple(other for other in changed if other != job_id)

    def remove(self, job_id: JobId) -> tuple[JobId, ...]:
        """Take a job off its links.

        Returns:
            The jobs whose share changed, in the order in which they came.

        Raises:
            KeyError: it is not here.
        """
        tied = self._tied_to([job_id])
        traffic = self._traffic.pop(job_id)
        del self._share[job_id], self._came[job_id]
        if not traffic.links:
            return ()
        for link in traffic.links:
            del self._jobs_on[link][job_id]
            self._add_up(link)
        return self._refill(other for other in tied if other != job_id)

    def _add_up(self, link: LinkId) -> None:
        """Note whether a link is overloaded. Summed anew each time: differences would drift."""
        wanted = sum([self._traffic[job].bytes_per_s for job in self._jobs_on[link]])
        if wanted > self.capacity_bytes_per_s[link] * (1 + _ROUNDING):
            self._wanted[link] = wanted
        else:
            self._wanted.pop(link, None)

    def _tied_to(self, seeds: Iterable[JobId]) -> list[JobId]:
        """The jobs that share an overloaded link with a seed, directly or through others."""
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
        """Work out the shares of a closed group of jobs; returns those that changed."""
        group = sorted(jobs, key=self._came.__getitem__)
        before = [self._share[job] for job in group]
        self._fill(group)
        return tuple(job for job, old in zip(group, before, strict=True) if self._share[job] != old)

    def _fill(self, group: Sequence[JobId]) -> None:
        """Raise all shares together; a link that is full fixes those of the jobs on it.

        What a link can still give rises while others are fixed, so a level in the heap is too low
        at worst, and is looked at again.
        """
        open_ = set(group)
        links = dict.fromkeys(
            link for job in group for link in self._traffic[job].links if link in self._wanted
        )
        room = {link: self.capacity_bytes_per_s[link] for link in links}
        wanted = {link: self._wanted[link] for link in links}
        levels = [(room[link] / wanted[link], link) for link in links]
        heapify(levels)
        while open_ and levels:
            supposed, link = heappop(levels)
            level = _level(room[link], wanted[link])
            if level > supposed:
                heappush(levels, (level, link))
                continue
            for job in self._jobs_on[link]:
                if job in open_:
                    open_.discard(job)
                    self._share[job] = min(level, 1.0)
                    bytes_per_s = self._traffic[job].bytes_per_s
                    for crossed in self._traffic[job].links:
                        if crossed in room:
                            room[crossed] -= bytes_per_s * self._share[job]
                            wanted[crossed] -= bytes_per_s
        for job in open_:
            self._share[job] = 1.0


def _level(room: float, wanted: float) -> float:
    return max(room, 0.0) / wanted if wanted > 0 else inf
