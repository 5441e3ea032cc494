"""Simulates the queue once: every run time and every arrival is given.

This is list scheduling on counts of free GPUs, not the engine: after each end or arrival the jobs
are offered GPUs in order, jobs of one demand fit together or not at all, a job takes the fullest
nodes that hold it, and the first job without capacity that has waited out its patience has nodes
reserved by time limits. A job that a quota of Slurm's keeps waiting has no nodes reserved, and is
tried again once a job ends that counts against the quota. Left out are links, CPUs, memory, limits
on the CPUs of single nodes, and gates; preemption is in preempting_play. Page: docs/eta.md, with
the measured difference.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from math import inf
from typing import NamedTuple, TypeAlias

from roost_engine.cluster.node_sets import NO_NODES, NodeSet, first_nodes
from roost_engine.domain.config import Passing
from roost_engine.forecast.capacity import LimitEnds, NodeCapacity, QuotaCapacity
from roost_engine.forecast.snapshot import Held, Part, Snapshot, Uses
from roost_engine.policies.protocols import SortKey

_MOST_BACKFILL_TRIES = 50  # of one demand in one pass


class Entrant(NamedTuple):
    """A job that waits, or will arrive.

    Attributes:
        key: by which the order sorts it.
        number: unique; of a waiting job its index in the snapshot.
        at_s: engine time from which it may be placed.
        since_s: from which its patience counts.
        wish: index of what it asks for.
        run_s: how long it will hold its GPUs.
        limit_s: its time limit; inf: none.
        is_stoppable: once it runs it may be stopped for others.
    """

    key: SortKey
    number: int
    at_s: float
    since_s: float
    wish: int
    run_s: float
    limit_s: float
    is_stoppable: bool = False


_Entry: TypeAlias = tuple[SortKey, int, Entrant]
Turn: TypeAlias = tuple[int, SortKey, int, int]  # tier, key, number of the job, group


@dataclass(slots=True, eq=False)
class WaitingGroup:
    """The jobs of one demand.

    Attributes:
        least_count: GPUs on a node in the smallest of its parts.
        uses: what one of its jobs takes of quotas.
        jobs: a heap by key.
        is_open: a try may find capacity.
        only_reserved: the last try found capacity on reserved nodes only.
        is_limited: at the last try a quota had too little left.
        not_backfilled: the reservation for which none of its jobs was short enough, see _backfill.
    """

    number: int
    tier: int
    parts: tuple[Part, ...]
    least_count: int
    uses: Uses = ()
    jobs: list[_Entry] = field(default_factory=list)
    is_open: bool = True
    only_reserved: bool = False
    is_limited: bool = False
    not_backfilled: int = -1

    @property
    def is_without_capacity(self) -> bool:
        """Whether the last try found no capacity, whichever nodes are reserved."""
        return not (self.is_open or self.only_reserved or self.is_limited)

    def turn(self) -> Turn:
        """Return the turn of its first job."""
        key, number, _ = self.jobs[0]
        return self.tier, key, number, self.number


class Play:
    """One simulation of the queue.

    Args:
        snapshot: the queue now.
        rest_s: how long each running job still holds its GPUs.
        waiting: the waiting jobs.
        to_come: the jobs that will arrive, in order of time.

    Attributes:
        at_s: present engine time of the simulation.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        rest_s: Sequence[float],
        waiting: Sequence[Entrant],
        to_come: Iterable[Entrant] = (),
    ) -> None:
        self.at_s, self._patience_s = snapshot.at_s, snapshot.patience_s
        self._lets_pass = snapshot.passing is Passing.EASY
        self._nodes = NodeCapacity(snapshot.free)
        self._limits = LimitEnds(self._patience_s < inf)
        self._quotas = QuotaCapacity(snapshot.quotas)
        self._ends: list[tuple[float, int, Held]] = []
        for number, (job, left_s) in enumerate(zip(snapshot.running, rest_s, strict=True), 1):
            self._ends.append((snapshot.at_s + left_s, -number, job.held))
            self._limits.add(-number, job.limit_end_s, job.held)
            self._quotas.note(-number, job.uses)
        heapify(self._ends)
        self._groups = [
            WaitingGroup(
                number,
                wish.tier,
                wish.parts,
                min((part.gpu_count for part in wish.parts), default=0),
                wish.uses,
            )
            for number, wish in enumerate(snapshot.wishes)
        ]
        self._by_size = sorted(self._groups, key=lambda group: group.least_count)
        self._wanted_count = self._left_count = len(snapshot.waiting)
        self._start_s = [inf] * self._wanted_count
        self._gone: set[int] = set()  # backfilled, and still in the heap of their group
        self._later: list[tuple[float, int, Entrant]] = []  # jobs that may not be placed yet
        for entrant in waiting:
            if entrant.at_s > snapshot.at_s:
                self._later.append((entrant.at_s, entrant.number, entrant))
            else:
                group = self._groups[entrant.wish]
                group.jobs.append((entrant.key, entrant.number, entrant))
        for group in self._groups:
            heapify(group.jobs)
        heapify(self._later)
        self._to_come = iter(to_come)
        self._schedule_arrival()
        self._reserved_for: int | None = None
        self._reserved, self._reserved_from_s = NO_NODES, inf
        self._reservation_count = 0
        self._has_open = True
        self._closed: list[Turn] = []  # a heap of the groups' turns; some are out of date

    def starts_s(self, until_s: float, most_events: int = 1_000_000) -> list[float]:
        """Play on until every waiting job has started.

        Args:
            until_s: engine time at which to stop.
            most_events: moments, of ends or arrivals, after which to stop.

        Returns:
            The engine time at which each waiting job starts; inf: not before the play stopped.
        """
        for _ in range(most_events):
            self._settle()
            next_s = self._next_s()
            if not self._left_count or next_s > until_s:
                break
            self.at_s = next_s
            self._advance()
        return self._start_s

    def _settle(self) -> None:
        """Start what can start now."""
        while self._has_open and self._pass():
            pass

    def _next_s(self) -> float:
        """Return when something happens next; inf: never."""
        next_s = self._ends[0][0] if self._ends else inf
        return min(next_s, self._later[0][0]) if self._later else next_s

    def _schedule_arrival(self) -> None:
        """Push the next arrival on the heap."""
        entrant = next(self._to_come, None)
        if entrant is not None:
            heappush(self._later, (entrant.at_s, entrant.number, entrant))

    def _advance(self) -> None:
        """Free the GPUs of the jobs that end now, and queue the jobs that arrive now."""
        freed, at_s, has_quota = NO_NODES, self.at_s, False
        while self._ends and self._ends[0][0] <= at_s:
            _, number, held = heappop(self._ends)
            freed |= self._nodes.change(held, 1)
            self._limits.remove(number)
            has_quota |= self._quotas.give_back(number)
        while self._later and self._later[0][0] <= at_s:
            entrant = heappop(self._later)[2]
            if entrant.number >= self._wanted_count:
                self._schedule_arrival()
            group = self._groups[entrant.wish]
            heappush(group.jobs, (entrant.key, entrant.number, entrant))
            group.not_backfilled = -1
            group.is_open |= group.only_reserved
            if group.is_open:
                self._has_open = True
            elif group.jobs[0][1] == entrant.number and not group.is_limited:
                heappush(self._closed, group.turn())
        if has_quota:
            self._lift_limits()
        if freed:
            self._open_groups(freed)

    def _lift_limits(self) -> None:
        """Let the groups try again whose quotas have enough left now."""
        for group in self._groups:
            if group.is_limited and self._quotas.allow(group.uses):
                group.is_limited, group.is_open = False, True
                self._has_open |= bool(group.jobs)

    def _open_groups(self, freed: NodeSet) -> None:
        """Let the groups try again that may have capacity, now that nodes were freed."""
        at_least, gained, most = self._nodes.at_least, [freed], 0
        while gained[most]:  # the last set of at_least is empty
            most += 1
            gained.append(freed & at_least[most])
        for group in self._by_size:
            if group.least_count >= most:
                break
            if group.is_open or group.is_limited or not group.jobs:
                continue
            for count, size, nodes in group.parts:
                if size >= most or not nodes & gained[size]:
                    continue
                if count == 1 or (nodes & at_least[size]).bit_count() >= count:
                    group.is_open = self._has_open = True
                    break

    def _pass(self) -> bool:
        """Offer GPUs to the jobs in order; returns whether another pass may start more."""
        turns = [group.turn() for group in self._groups if group.is_open and group.jobs]
        heapify(turns)
        had_reservation = self._reserved_for is not None
        first = self._first_impatient()
        while turns:
            turn = heappop(turns)
            group = self._groups[turn[3]]
            closed = NO_NODES
            if first is not None and first < turn:
                if not self._lets_pass:
                    return False
                self._reserve(first)
                closed = self._reserved
            if self._try(group, group.jobs[0], closed):
                heappop(group.jobs)
                group.not_backfilled = -1
                self._drop_gone(group)
                if group.jobs:
                    heappush(turns, group.turn())
            elif group.only_reserved:
                self._backfill(group)
            elif self._is_impatient(group) and (first is None or turn < first):
                first = turn
        self._has_open = had_reservation and self._reserved_for is None
        if self._has_open:
            for group in self._groups:
                group.is_open |= group.only_reserved
        return self._has_open

    def _first_impatient(self) -> Turn | None:
        """Return the turn of the first job without capacity that has waited out its patience."""
        found: Turn | None = None
        if self._patience_s == inf:
            return found
        closed = self._closed
        while closed:  # in a long queue the first of all has nearly always waited for long enough
            group = self._groups[closed[0][3]]
            is_true = group.jobs and group.jobs[0][1] == closed[0][2]
            if not is_true or not group.is_without_capacity:
                heappop(closed)
            elif self._is_impatient(group):
                return closed[0]
            else:
                break
        for group in self._groups:
            if not group.is_without_capacity or not group.jobs:
                continue
            turn = group.turn()
            if (found is None or turn < found) and self._is_impatient(group):
                found = turn
        return found

    def _is_impatient(self, group: WaitingGroup) -> bool:
        """Whether the first job of a group has waited out its patience, and waits for capacity."""
        if group.is_limited or not group.parts:
            return False
        return group.jobs[0][2].since_s + self._patience_s <= self.at_s

    def _drop_gone(self, group: WaitingGroup) -> None:
        """Drop jobs from the head of a group that were backfilled from further behind."""
        while group.jobs and group.jobs[0][1] in self._gone:
            self._gone.remove(heappop(group.jobs)[1])

    def _try(self, group: WaitingGroup, entry: _Entry, closed: NodeSet) -> bool:
        """Start a job if it fits; or note that its group does not fit."""
        nodes, group.only_reserved, group.is_limited = self._nodes, False, False
        if group.uses and not self._quotas.allow(group.uses):
            group.is_open, group.is_limited = False, True
            return False
        for part in group.parts:
            able = nodes.able(part)
            if able.bit_count() < part.node_count:
                continue
            if closed:
                able &= ~closed
                if able.bit_count() < part.node_count:
                    group.only_reserved = True
                    continue
            self._start(entry[2], nodes.fullest(part, able))
            group.only_reserved = False
            return True
        group.is_open = False
        if not group.only_reserved and self._patience_s < inf:
            heappush(self._closed, group.turn())
        return False

    def _start(self, entrant: Entrant, held: Held) -> None:
        number, at_s = entrant.number, self.at_s
        self._nodes.change(held, -1)
        heappush(self._ends, (at_s + entrant.run_s, number, held))
        self._limits.add(number, at_s + entrant.limit_s, held)
        self._quotas.take(number, self._groups[entrant.wish].uses)
        if 0 <= number < self._wanted_count and self._start_s[number] == inf:
            self._start_s[number] = at_s
            self._left_count -= 1
        if number == self._reserved_for:
            self._reserved_for = None

    # -- reservations ------------------------------------------------------------------------

    def _reserve(self, turn: Turn) -> None:
        """Reserve the nodes that have capacity soonest by time limits, until the job starts.

        The engine chooses them again in each pass.
        """
        if self._reserved_for == turn[2]:
            return
        self._reserved_for = turn[2]
        self._reservation_count += 1
        part, nodes = self._groups[turn[3]].parts[0], self._nodes
        able = nodes.able(part)
        chosen, missing, start_s = able, part.node_count - able.bit_count(), self.at_s
        gained: dict[int, int] = {}
        for end_s, _, held in self._limits:
            if missing <= 0:
                break
            for node, count in held:
                if not (part.nodes & ~chosen) >> node & 1:
                    continue
                gained[node] = gained.get(node, 0) + count
                if nodes.free[node] + gained[node] >= part.gpu_count and missing > 0:
                    chosen |= 1 << node
                    missing, start_s = missing - 1, end_s
        for level in range(nodes.most, -1, -1):  # when the others become free is unknown
            if missing <= 0:
                break
            more = first_nodes(part.nodes & nodes.at_least[level] & ~chosen, missing)
            chosen |= more
            missing, start_s = missing - more.bit_count(), inf
        self._reserved, self._reserved_from_s = chosen, start_s

    def _backfill(self, group: WaitingGroup) -> None:
        """Start jobs of a group on reserved nodes that will have ended by their time limits.

        The time until the reservation begins only becomes shorter: where no job was short enough,
        none is until another comes or other nodes are reserved.
        """
        group.is_open, group.only_reserved = False, True
        if group.not_backfilled == self._reservation_count:
            return
        span_s = self._reserved_from_s - self.at_s
        # The first of a heap are about the first in order.
        short = [
            entry
            for entry in group.jobs[:_MOST_BACKFILL_TRIES]
            if entry[2].limit_s <= span_s and entry[2].limit_s < inf and entry[1] not in self._gone
        ]
        if not short:
            group.not_backfilled = self._reservation_count
            return
        short.sort()
        for entry in short:
            if not self._try(group, entry, NO_NODES):
                break
            self._gone.add(entry[1])
        self._drop_gone(group)
        group.is_open, group.only_reserved = False, not group.is_limited
