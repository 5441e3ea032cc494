"""Allocations: which job holds what, on which nodes."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager

from roost_engine.cluster.claims import claimable
from roost_engine.cluster.free_capacity import FreeCapacity
from roost_engine.cluster.seats import Seats
from roost_engine.domain.model import JobId, NodeName, NodeShare


class Allocations:
    """The shares that jobs hold, and what that leaves free.

    Args:
        free: what is free on each node; changed here.

    Attributes:
        index_of: node index, by name; the cluster adds to it.
        change_count: how often something changed that a search for placements reads.
        seats: the GPUs that one more job may share; None: jobs share none.
    """

    # An object with slots, and Cluster too: with more than 30 attributes in a dict of its own,
    # CPython 3.11 looks each method up by name at each call.
    __slots__ = ("_shares", "_watched", "change_count", "free", "index_of", "seats")

    def __init__(self, free: FreeCapacity) -> None:
        self.free = free
        self.index_of: dict[NodeName, int] = {}
        self.change_count = 0
        self.seats: Seats | None = None
        self._shares: dict[JobId, tuple[NodeShare, ...]] = {}
        self._watched: dict[JobId, None] | None = None

    def hold(self, job_id: JobId, shares: Iterable[NodeShare]) -> None:
        """Let a job hold these shares, in place of those it held before."""
        known_nodes, before = self.index_of, self._shares.get(job_id, ())
        if shares is before and before:
            return
        known = tuple([claimable(share) for share in shares if share.node in known_nodes])
        if known and known == before:
            return
        if before:
            self._unclaim(before)
        self._shares.pop(job_id, None)  # so that it comes last
        self._shares[job_id] = known
        self._claim(known)
        self._note_held(job_id, known)

    def _note_held(self, job_id: JobId, shares: tuple[NodeShare, ...]) -> None:
        self.change_count += 1
        if self.seats is not None:
            self.seats.hold(job_id, shares)
        if self._watched is not None:
            self._watched[job_id] = None

    def release(self, job_id: JobId) -> bool:
        """Free what a job holds. Returns whether it held anything."""
        shares = self._shares.pop(job_id, ())
        self._unclaim(shares)
        if shares:
            self._note_held(job_id, ())
        return bool(shares)

    def watch_again(self) -> None:
        """Let the next take_changed_jobs() return every job that holds something."""
        self._watched = None

    def take_changed_jobs(self) -> Collection[JobId]:
        """Return the jobs whose allocation changed since the only caller's last call."""
        changed = self._shares if self._watched is None else self._watched
        self._watched = {}
        return tuple(changed)

    @contextmanager
    def without(self, job_ids: Sequence[JobId]) -> Iterator[None]:
        """Free what these jobs hold for as long as the context lasts."""
        with self.without_first(job_ids) as leave_out:
            leave_out(len(job_ids))
            yield

    @contextmanager
    def without_first(self, job_ids: Sequence[JobId]) -> Iterator[Callable[[int], None]]:
        """Yield a function that sets how many of the first jobs hold nothing: 0 when it begins.

        A call costs as much as the number changes. All jobs hold their shares again at the end.
        """
        freed, left_out_count = self.free.freed, 0

        def leave_out(count: int) -> None:
            nonlocal left_out_count
            for job_id in job_ids[left_out_count:count]:
                self._unclaim(self.shares(job_id))
            for job_id in job_ids[count:left_out_count]:
                self._claim(self.shares(job_id))
            left_out_count = count
            self.free.trial_count += 1

        try:
            yield leave_out
        finally:
            leave_out(0)
            self.free.freed = freed

    def shares(self, job_id: JobId) -> tuple[NodeShare, ...]:
        """Return what a job holds; empty when nothing."""
        return self._shares.get(job_id, ())

    def held_jobs(self) -> Collection[JobId]:
        """Return every job that holds something, in the order in which they began to."""
        return self._shares.keys()

    def _claim(self, shares: Iterable[NodeShare]) -> None:
        for share in shares:
            self.free.claim(self.index_of[share.node], share)

    def _unclaim(self, shares: Iterable[NodeShare]) -> None:
        for share in shares:
            self.free.unclaim(self.index_of[share.node], share)
