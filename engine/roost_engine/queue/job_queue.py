"""The jobs that could be placed if there were room, grouped by what they ask for.

Jobs with the same demand have room or not together. So a pass tries one job of each group, and a
group that found no room is left alone until a node that it could use has more room. That makes
the cost of a pass a matter of how many kinds of jobs wait, not of how many jobs.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import TypeAlias

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.node_sets import EVERY_NODE, NodeSet
from roost_engine.domain.model import JobId, JobSpec, Shape
from roost_engine.job_record import JobRecord
from roost_engine.placement.candidates import Candidates
from roost_engine.placement.eligibility import Hint
from roost_engine.policies import CandidatePolicy, QueueMark, QueueView, SortKey
from roost_engine.slots import OrderSlot

Demand: TypeAlias = tuple[
    str, tuple[Shape, ...], tuple[str, ...], tuple[str, ...], tuple[str, ...]
]  # see demand_of
_Turn: TypeAlias = tuple[SortKey, int, JobId, "Group"]  # the number settles ties before the rest


def demand_of(job: JobSpec) -> Demand:
    """What two jobs must share for the failure of one to foretell that of the other."""
    return job.partition, job.shapes, job.features, job.required_nodes, job.excluded_nodes


@dataclass(slots=True, eq=False)
class Group:
    """The queued jobs of one demand.

    Attributes:
        job_ids: in order, each behind its key.
        since_s: engine time at which each could first have been placed.
        ages: the same as a heap; entries of jobs that left stay in.
        deferred: jobs that have an offer and wait for a better one.
        nothing: the last try, if it found no room.
        hints: by shape: what would have to be so for it to find some. None: there is no room
            whoever may have which nodes.
    """

    number: int
    demand: Demand
    sample: JobSpec
    job_ids: list[tuple[SortKey, JobId]] = field(default_factory=list)
    since_s: dict[JobId, float] = field(default_factory=dict)
    ages: list[tuple[float, JobId]] = field(default_factory=list)
    deferred: dict[JobId, None] = field(default_factory=dict)
    nothing: Candidates | None = None
    hints: dict[Shape, Hint] = field(default_factory=dict)

    def is_blocked(self, reserved: NodeSet) -> bool:
        """Whether a try would find no room, with these nodes reserved from it."""
        if self.nothing is None:
            return False
        for chance in self.hints.values():
            if (chance.nodes & ~reserved).bit_count() >= chance.wanted:
                return False
        return True

    def note_failure(self, nothing: Candidates) -> None:
        """Remember a try without room."""
        self.nothing = nothing
        self.hints = {chance.shape: chance for chance in nothing.hints}

    def refresh_hints(self, cluster: Cluster, candidates: CandidatePolicy) -> None:
        """Work its hints out anew, after jobs were placed: cheaper than a try."""
        self.hints = {
            chance.shape: chance
            for chance in candidates.hints(cluster, self.sample, EVERY_NODE)
            if not chance.is_void(cluster)
        }

    def restore_failure(
        self, nothing: Candidates, cluster: Cluster, candidates: CandidatePolicy
    ) -> None:
        """After a try that found room: there is none for the next job, as before, or it tries."""
        self.refresh_hints(cluster, candidates)
        if self.hints:
            self.forget()
        else:
            self.nothing = nothing

    def forget(self) -> None:
        """Let the next pass try anew."""
        self.nothing = None
        self.hints.clear()

    def place_of(self, entry: tuple[SortKey, JobId]) -> int:
        """Where an entry of job_ids is."""
        return bisect_left(self.job_ids, entry)

    @property
    def is_without_room(self) -> bool:
        """Whether a try would find no room, whichever nodes are reserved from it."""
        return self.nothing is not None and not self.hints

    def has_since(self, limit_s: float) -> bool:
        """Whether any may be one that could have been placed by then: quicker than which."""
        return bool(self.ages) and self.ages[0][0] <= limit_s

    def first_since(self, limit_s: float) -> tuple[SortKey, JobId] | None:
        """The first in order of those that could have been placed by then."""
        while self.ages and self.since_s.get(self.ages[0][1]) != self.ages[0][0]:
            heappop(self.ages)
        if not self.ages or self.ages[0][0] > limit_s:
            return None
        return next((entry for entry in self.job_ids if self.since_s[entry[1]] <= limit_s), None)


class JobQueue:
    """Who is offered GPUs next."""

    def __init__(self, order: OrderSlot) -> None:
        self._order = order
        self._groups: dict[Demand, Group] = {}
        self._entries: dict[JobId, tuple[Group, SortKey]] = {}
        self._jobs: dict[JobId, JobRecord] = {}
        self._group_count = 0
        self._arrival_count = self._departure_count = 0
        self._ranked = QueueMark(
            0, 0, 0, 0.0
        )  # when the order was last asked, where it has no keys
        self._is_due = False  # whether a pass could change anything
        self._pass_s: float | None = None  # when the pass began that is under way
        self._left_s: float | None = None  # when the pass was in which a job left
        self._hopeful: list[Group] = []  # groups that may find room in this pass
        self._untold: dict[JobId, None] = {}  # added since they were last asked for

    def __contains__(self, job_id: JobId) -> bool:
        return job_id in self._jobs

    def add(self, record: JobRecord, at_s: float) -> None:
        """Queue a job."""
        job, since_s = record.spec, record.queued_s
        job_id, demand = job.job_id, demand_of(job)
        group = self._groups.get(demand)
        if group is None:
            self._group_count += 1
            group = self._groups[demand] = Group(self._group_count, demand, job)
        left = self._take_out(job_id) if job_id in self._jobs else None
        key = self._order.key(record, at_s)
        self._arrival_count += 1
        self._jobs[job_id] = record
        self._entries[job_id] = group, key
        insort(group.job_ids, (key, job_id))
        group.since_s[job_id] = since_s
        heappush(group.ages, (since_s, job_id))
        if left is not None:
            self._forget_if_empty(left)
        self._untold[job_id] = None
        self._is_due |= not group.is_without_room

    def remove(self, job_id: JobId) -> None:
        """Take a job out, if it is in."""
        if job_id not in self._jobs:
            return
        self._departure_count += 1
        self._forget_if_empty(self._take_out(job_id))
        for other in self._groups.values():
            if other.hints:
                break
        else:
            return
        # Nodes may have been reserved for it. Within a pass that matters only later: it left after
        # the jobs before it had their turn, and took nothing that was reserved for them.
        if self._pass_s is None:
            self._is_due = True
        else:
            self._left_s = self._pass_s

    def defer(self, job_id: JobId) -> None:
        """Set a job aside until it is added again or there is more room."""
        group, key = self._entries[job_id]
        del group.job_ids[group.place_of((key, job_id))]
        group.deferred[job_id] = None

    def recall_all(self) -> None:
        """Forget who had no room and who was set aside."""
        for group in self._groups.values():
            self._recall(group)

    def begin_pass(self, cluster: Cluster, candidates: CandidatePolicy, at_s: float) -> bool:
        """Recall who may have room now, and rank. Returns whether a pass could change anything."""
        rows = cluster.take_freed_nodes()
        for group in self._groups.values() if rows else ():
            if group.nothing is None and not group.deferred:
                continue
            gained = candidates.hints(cluster, group.sample, rows)
            if gained and group.deferred:
                self._recall(group)
                continue
            for chance in gained:
                if not chance.is_void(cluster):
                    group.hints[chance.shape] = chance
                    self._is_due = True
        is_due = self._is_due or (self._left_s is not None and at_s > self._left_s)
        self._is_due, self._left_s, self._pass_s = False, None, at_s
        if is_due and not self._order.is_keyed:
            mark = QueueMark(self._arrival_count, self._departure_count, cluster.freed_count, at_s)
            if self._order.is_outdated(self._ranked, mark):
                self._rank(cluster, mark)
        return is_due

    def offers(self, impatient_s: float) -> Iterator[tuple[Group, JobId]]:
        """Give every group its turns, in the order of its jobs.

        The caller tries the job, and removes or defers it or sets `nothing` of its group. A group
        without room has one more turn, with its first job that waits since `impatient_s`.
        """
        turns: list[_Turn] = []
        self._hopeful = []
        for group in self._groups.values():
            if group.nothing is None or group.hints:
                if group.job_ids:
                    self._hopeful.append(group)
                    _push(turns, group, group.job_ids[0])
            elif group.ages and group.ages[0][0] <= impatient_s:  # has_since(), without a call
                _push(turns, group, group.first_since(impatient_s))
        while turns:
            key, _, job_id, group = heappop(turns)
            was_without_room = group.is_without_room
            yield group, job_id
            if group.nothing is None:
                _push(turns, group, _head(group))
            elif not was_without_room and group.has_since(impatient_s):
                impatient = group.first_since(impatient_s)
                _push(turns, group, impatient if impatient != (key, job_id) else None)

    def end_pass(self) -> Sequence[tuple[JobId, Candidates]]:
        """End the pass: give the jobs added since the last one that have no room, and why."""
        self._pass_s = None
        if not self._untold:
            return ()
        found = []
        untold, self._untold = self._untold, {}
        for job_id in untold:
            if job_id not in self._entries:
                continue
            group, _ = self._entries[job_id]
            if group.nothing is None:
                self._untold[job_id] = None  # the pass did not come to it
            elif job_id not in group.deferred:
                found.append((job_id, group.nothing))
        return found

    def is_settled(self, reserved: NodeSet) -> bool:
        """Whether nobody would find room, with these nodes reserved for others."""
        # Who is shut out stays so for the rest of the pass: more nodes are reserved as it goes on.
        self._hopeful = [group for group in self._hopeful if not group.is_blocked(reserved)]
        return not self._hopeful

    def has_blocked(self) -> bool:
        """Whether some queued job found no room."""
        return any(group.nothing is not None for group in self._groups.values())

    def blocked(self) -> Iterator[JobId]:
        """Give the first job of each group without room, in order.

        A group that lost its first one meanwhile gives its next.
        """
        turns: list[_Turn] = []
        for group in self._groups.values():
            _push(turns, group, _head(group) if group.nothing is not None else None)
        while turns:
            _, _, job_id, group = heappop(turns)
            yield job_id
            if job_id not in group.since_s:
                _push(turns, group, _head(group))

    def blocked_by_reservation(self, count: int) -> Iterator[tuple[Group, JobId]]:
        """Give jobs of groups that found room only on reserved nodes, in order, at most so many.

        A group that finds no room there either gives no more.
        """
        waiting: list[_Turn] = []
        for group in self._groups.values():
            if group.hints:  # no more than `count` jobs of one group can be among the first
                number = group.number
                waiting += [(key, number, job_id, group) for key, job_id in group.job_ids[:count]]
        waiting.sort()  # of sorted runs: much quicker than of jobs in any order
        for _, _, job_id, group in waiting[:count]:
            if group.hints and job_id in group.since_s:
                yield group, job_id

    @property
    def is_postponed(self) -> bool:
        """Whether a pass has not come to all who may have room."""
        return self._is_due

    def postpone(self) -> None:
        """Go on with the pass after the next event."""
        self._is_due = True

    def check_invariants(self) -> None:
        """Raise AssertionError where the groups and the jobs disagree."""
        queued = [job_id for group in self._groups.values() for job_id in group.since_s]
        assert sorted(queued) == sorted(self._jobs) == sorted(self._entries)
        for demand, group in self._groups.items():
            assert group.demand == demand == demand_of(group.sample), "a group is misfiled"
            assert group.job_ids == sorted(group.job_ids), "a group is out of order"
            inside = {job_id for _, job_id in group.job_ids}
            assert inside | set(group.deferred) == set(group.since_s)
            assert not inside & set(group.deferred)

    def _take_out(self, job_id: JobId) -> Group:
        del self._jobs[job_id]
        group, key = self._entries.pop(job_id)
        if job_id in group.deferred:
            del group.deferred[job_id]
        else:
            del group.job_ids[group.place_of((key, job_id))]
        del group.since_s[job_id]
        return group

    def _forget_if_empty(self, group: Group) -> None:
        if not group.since_s:
            del self._groups[group.demand]

    def _recall(self, group: Group) -> None:
        group.forget()
        for job_id in group.deferred:
            insort(group.job_ids, (self._entries[job_id][1], job_id))
        group.deferred.clear()
        self._is_due = True

    def _rank(self, cluster: Cluster, mark: QueueMark) -> None:
        """Ask an order that gives no lasting keys for the place of every job."""
        for group in self._groups.values():
            group.job_ids.clear()
        view = QueueView(jobs=tuple(self._jobs.values()), cluster=cluster, at_s=mark.at_s)
        for place, job_id in enumerate(self._order.rank(view)):
            group = self._entries[job_id][0]
            self._entries[job_id] = group, (place,)
            if job_id not in group.deferred:
                group.job_ids.append(((place,), job_id))
        self._ranked = mark


def _head(group: Group) -> tuple[SortKey, JobId] | None:
    return group.job_ids[0] if group.job_ids else None


def _push(turns: list[_Turn], group: Group, entry: tuple[SortKey, JobId] | None) -> None:
    if entry is not None:
        heappush(turns, (entry[0], group.number, entry[1], group))
