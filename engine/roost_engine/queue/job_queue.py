"""The jobs that could be placed if there were capacity, grouped by what they ask for.

Jobs with the same demand have capacity or not together. So a pass tries one job of each group, and
a group without capacity is not tried again until a node that it could use gains capacity. The cost
of a pass depends on how many kinds of jobs wait, not on how many jobs.
"""

from bisect import insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from math import inf

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.node_sets import NodeSet
from roost_engine.domain.model import JobId, JobSpec
from roost_engine.job_record import JobRecord
from roost_engine.policies.protocols import CandidatePolicy, QueueMark, QueueView, SortKey
from roost_engine.policies.slots import OrderSlot
from roost_engine.queue.group import Group, QueueOwners, demand_key, demand_of
from roost_engine.queue.limited_groups import LimitedGroups
from roost_engine.queue.overdue_jobs import OverdueJobs
from roost_engine.queue.quotas import Quotas
from roost_engine.queue.turns import Turn, first_hopeful, first_preemptors, push_turn


class JobQueue:
    """Decides which job is offered GPUs next.

    Args:
        order: ranks the jobs.
        first_job_matters: whether a pass is due when another job becomes the first of its group,
            also where the group has no capacity.
        known: see QueueView; the caller changes it.

    Attributes:
        is_keyed: whether its order gives keys.
        wants_pass: whether a pass could change anything or jobs have not been reported, even
            where no node was freed; if not, begin_pass() and end_pass() need not be called.
        has_preemptors: whether there is a job in the queue for which Slurm may preempt.
        departure_count: how many jobs have left it.
        limited: the groups that a quota holds back.
        overdue: the queued jobs that have waited for as long as the order lets any job wait.
        owners: the agents whose jobs these are; None: there is one agent.
    """

    def __init__(
        self,
        order: OrderSlot,
        first_job_matters: bool = False,
        known: Mapping[JobId, JobRecord] | None = None,
    ) -> None:
        self._order, self._first_job_matters = order, first_job_matters
        self.is_keyed = order.is_keyed
        self._known = {} if known is None else known
        self.owners: QueueOwners | None = None
        self._groups: dict[tuple[object, ...], Group] = {}  # by Demand, or what equals it
        self._entries: dict[JobId, tuple[Group, SortKey]] = {}
        self._jobs: dict[JobId, JobRecord] = {}
        self._group_count = 0
        self._preempting_group_count, self.has_preemptors = 0, False
        self._arrival_count = self.departure_count = 0
        self._ranked = QueueMark(0, 0, 0, 0.0)  # of the last ranking by an order without keys
        self._generation = order.generation  # of the keys
        self.wants_pass = False
        self._is_due = False  # whether a pass could change anything
        self._pass_s: float | None = None  # time of the present pass, if there is one
        self._left_s: float | None = None  # time of the last pass in which a job left
        self._hopeful: list[Group] = []  # groups that may find capacity in this pass
        self._unreported: dict[JobId, None] = {}  # added, and not reported by end_pass() yet
        self.limited = LimitedGroups(self._jobs)
        self.overdue = OverdueJobs(order.longest_wait_s)

    def __contains__(self, job_id: JobId) -> bool:
        return job_id in self._jobs

    def key_for(self, record: JobRecord, at_s: float) -> SortKey:
        """Return the key by which a job is to be queued."""
        return self._order.key(record, at_s)

    def would_try_only(self, job: JobSpec, impatient_s: float) -> bool:
        """Return whether a pass would try this job and no other one, were it queued.

        That is so where every other job is known to find no capacity, with or without reserved
        nodes, and none has waited since `impatient_s`. Only for an order that has keys.
        """
        if self.wants_pass or (self._groups and demand_key(job) in self._groups):
            return False
        for group in self._groups.values():
            if group.last_failure is None or group.hints or group.limit:
                return False
            if group.ages and group.ages[0][0] <= impatient_s:
                return False
        return True

    def note_placed_at_once(self) -> None:
        """Count a job that is placed without being queued, as if it had come and left."""
        self._arrival_count += 1
        self.departure_count += 1

    def add(self, record: JobRecord, at_s: float, key: SortKey | None = None) -> None:
        """Queue a job.

        Args:
            record: the job.
            at_s: engine time.
            key: what key_for() has returned; None: it has not been asked.
        """
        job, since_s = record.spec, record.queued_s
        job_id = job.job_id
        agent = 0 if self.owners is None else self.owners.note_waiting(job)
        group = self._groups.get(demand_key(job, agent)) or self._new_group(job, agent)
        left = self._take_out(job_id) if job_id in self._jobs else None
        key = record.sort_key = self._order.key(record, at_s) if key is None else key
        self._arrival_count += 1
        self._jobs[job_id] = record
        self._entries[job_id] = group, key
        insort(group.job_ids, (key, job_id))
        group.since_s[job_id] = since_s
        if group.limit:
            self.limited.note(group, record, at_s)
        heappush(group.ages, (since_s, job_id))
        if left is not None:
            self._forget_if_empty(left)
            if group.wider_since_s < inf:
                group.forget()  # the job may have waited for the tight shapes for long enough
        self.overdue.note_queued(record)
        self._unreported[job_id] = None
        self.wants_pass = True
        is_first = self._first_job_matters and group.job_ids[0][1] == job_id
        if is_first or group.last_failure is None or group.hints:
            self._is_due = True

    def remove(self, job_id: JobId) -> None:
        """Take a job out, if it is in."""
        if job_id not in self._jobs:
            return
        self.departure_count += 1
        if self.owners is not None:
            self.owners.note_left(job_id)
        self._forget_if_empty(self._take_out(job_id))
        for other in self._groups.values():
            if other.hints:
                break
        else:
            return
        # Nodes may have been reserved for the job. Within a pass that matters only afterwards: the
        # jobs before it had their turn already, and it took nothing that was reserved for them.
        self.wants_pass = True
        if self._pass_s is None:
            self._is_due = True
        else:
            self._left_s = self._pass_s

    def note_gone(self, job_id: JobId) -> None:
        """Let the next pass try a group whose alarm is that of a job which is about to go away."""
        entry = self._entries.get(job_id)
        if entry is not None and entry[0].loses_alarm(job_id):
            self.postpone()

    def view(self, cluster: Cluster, at_s: float) -> QueueView:
        """Return what an order sees."""
        jobs = tuple(self._jobs.values())
        return QueueView(jobs=jobs, cluster=cluster, at_s=at_s, known=self._known)

    def key_of(self, job_id: JobId) -> SortKey | None:
        """Return what a job is sorted by; None: it is not queued."""
        entry = self._entries.get(job_id)
        return None if entry is None else entry[1]

    def defer(self, job_id: JobId) -> None:
        """Set a job aside until it is added again or its group may have more capacity."""
        group, key = self._entries[job_id]
        del group.job_ids[group.place_of((key, job_id))]
        group.deferred[job_id] = None

    def lift_limits(self, quotas: Quotas) -> None:
        """Offer GPUs again to the groups whose quotas have enough left."""
        if self.limited.lift(quotas):
            self.postpone()
        if any(group.demand.node_quotas for group in self._groups.values()):
            self.postpone()  # a node may have CPUs left for them

    def recall_all(self) -> None:
        """Forget which groups had no capacity and which jobs were set aside."""
        for group in self._groups.values():
            self._recall(group)

    def note_overdue(self, at_s: float) -> None:
        """Put the jobs first that have waited for as long as the order lets any job wait."""
        for record in self.overdue.advance(self._jobs.values(), at_s):
            self._is_due = True
            if self.is_keyed:
                self._sort_again(record, at_s)
            else:
                self._ranked = QueueMark(-1, 0, 0, 0.0)  # the next pass ranks all jobs

    def _sort_again(self, record: JobRecord, at_s: float) -> None:
        """Sort a queued job by its present key."""
        job_id = record.job_id
        group, old = self._entries[job_id]
        key = record.sort_key = self._order.key(record, at_s)
        self._entries[job_id] = group, key
        if job_id not in group.deferred:
            del group.job_ids[group.place_of((old, job_id))]
            insort(group.job_ids, (key, job_id))

    def begin_pass(self, cluster: Cluster, candidates: CandidatePolicy, at_s: float) -> bool:
        """Recall groups that may have capacity now, rank the jobs; return whether a pass is due."""
        self.note_overdue(at_s)
        if self._generation != self._order.generation:
            self._generation, self._is_due = self._order.generation, True
            key_again = self._order.key_again
            self._put_in_order(
                sorted((key_again(job, at_s), one) for one, job in self._jobs.items())
            )
        if cluster.free.freed:
            self._note_freed(cluster.take_freed_nodes(), cluster, candidates)
        is_due = self._is_due or (self._left_s is not None and at_s > self._left_s)
        self._is_due, self._left_s, self._pass_s = False, None, at_s
        if is_due and not self._order.is_keyed:
            mark = QueueMark(self._arrival_count, self.departure_count, cluster.freed_count, at_s)
            if self._order.is_outdated(self._ranked, mark):
                self._rank(cluster, mark)
        return is_due

    def _note_freed(self, freed: NodeSet, cluster: Cluster, candidates: CandidatePolicy) -> None:
        """Give hints to the groups that may have capacity now that nodes were freed."""
        free_count = cluster.free.gpu_count
        for group in self._groups.values():
            if group.gpu_count > free_count:
                continue  # no GPUs could be offered, whatever the candidates are
            if group.last_failure is None and not group.deferred:
                continue
            gained = candidates.hints(cluster, group.sample, freed)
            if gained and group.deferred:
                self._recall(group)
                continue
            for hint in gained:
                if not hint.is_void(cluster):
                    group.hints[hint.shape] = hint
                    self._is_due = True

    def offers(self, impatient_s: float) -> Iterator[tuple[Group, JobId]]:
        """Yield the jobs to try, with their groups, in order.

        The caller tries the job, and then removes it, defers it, or notes the failure of its group.
        A group without capacity has one turn all the same, with its first job that has waited since
        `impatient_s`: nodes may be reserved for it.
        """
        turns: list[Turn] = []
        self._hopeful = []
        for group in self._groups.values():
            if group.limit:
                continue
            if group.last_failure is None or group.hints:
                if group.job_ids:
                    self._hopeful.append(group)
                    push_turn(turns, group, group.job_ids[0])
            elif group.ages and group.ages[0][0] <= impatient_s:  # has_since(), without a call
                push_turn(turns, group, group.first_since(impatient_s))
        while turns:
            _, key, _, job_id, group = heappop(turns)
            was_without_capacity = group.last_failure is not None and not group.hints
            yield group, job_id
            if group.limit:
                continue
            if group.last_failure is None:
                if group.job_ids:
                    push_turn(turns, group, group.job_ids[0])
            elif not was_without_capacity and group.has_since(impatient_s):
                impatient = group.first_since(impatient_s)
                push_turn(turns, group, impatient if impatient != (key, job_id) else None)

    def end_pass(self) -> Sequence[tuple[JobId, Group]]:
        """End the pass.

        Returns:
            The jobs added since the last pass whose group has no capacity or is held back by a
            quota, each with its group.
        """
        self._pass_s = None
        found: list[tuple[JobId, Group]] = []
        if self._unreported:
            unreported, self._unreported = self._unreported, {}
            for job_id in unreported:
                if job_id not in self._entries:
                    continue
                group, _ = self._entries[job_id]
                if group.last_failure is None and not group.limit:
                    self._unreported[job_id] = None  # the pass ended before its turn
                elif job_id not in group.deferred:
                    found.append((job_id, group))
        self.wants_pass = bool(self._is_due or self._unreported or self._left_s is not None)
        return found

    def is_settled(self, reserved: NodeSet) -> bool:
        """Return whether no job would find capacity outside these nodes."""
        # A group that is blocked stays so until the pass ends: no reserved node is given up in it.
        self._hopeful = [group for group in self._hopeful if not group.is_blocked(reserved)]
        return not self._hopeful

    def has_blocked(self) -> bool:
        """Return whether some queued job found no capacity."""
        groups = self._groups.values()
        return any(group.last_failure is not None and not group.limit for group in groups)

    def blocked(self) -> Iterator[JobId]:
        """Yield the first job of each group without capacity, in order.

        When that job has left the queue before the next step, the next of its group has a turn.
        """
        turns: list[Turn] = []
        for group in self._groups.values():
            if group.last_failure is not None and not group.limit:
                push_turn(turns, group, group.head())
        while turns:
            _, _, _, job_id, group = heappop(turns)
            yield job_id
            if job_id not in group.since_s:
                push_turn(turns, group, group.head())

    def has_deferred(self) -> bool:
        """Return whether some queued job declined an offer and waits for a better one."""
        return any(group.deferred and not group.limit for group in self._groups.values())

    def deferred(self) -> Iterator[JobId]:
        """Yield of each group the first job that declined an offer, in order."""
        turns: list[Turn] = []
        for group in self._groups.values():
            if group.deferred and not group.limit:
                push_turn(turns, group, min((self._entries[one][1], one) for one in group.deferred))
        while turns:
            yield heappop(turns)[3]

    def blocked_preemptors(self, count: int) -> Sequence[JobId]:
        """Return the first job of each group without capacity for which Slurm may preempt.

        Args:
            count: the most that are returned; the first in order.
        """
        return first_preemptors(self._groups.values(), count)

    def blocked_by_reservation(self, count: int) -> Iterator[tuple[Group, JobId]]:
        """Return jobs of groups that have capacity only on reserved nodes, in order.

        Args:
            count: how many jobs to look at. A job is left out if its group finds no capacity on
                the reserved nodes either, or if it has left the queue meanwhile.
        """
        return first_hopeful(self._groups.values(), count)

    @property
    def is_postponed(self) -> bool:
        """Whether a pass ended before every group that may have capacity had its turn."""
        return self._is_due

    def postpone(self) -> None:
        """Let the pass continue after the next event."""
        self._is_due = self.wants_pass = True

    def check_invariants(self) -> None:
        """Raise AssertionError where the groups and the jobs disagree."""
        if self._is_due or self._unreported or self._left_s is not None:
            assert self.wants_pass, "a pass would not begin"
        queued = [job_id for group in self._groups.values() for job_id in group.since_s]
        assert sorted(queued) == sorted(self._jobs) == sorted(self._entries)
        assert self._jobs.keys() >= set(self.overdue), "an overdue job has left"
        for demand, group in self._groups.items():
            assert group.demand == demand, "a group is misfiled"
            assert demand_of(group.sample, demand.agent) == demand, "its sample is another's"
            group.check_invariants()

    def _new_group(self, job: JobSpec, agent: int) -> Group:
        demand, self._group_count = demand_of(job, agent), self._group_count + 1
        group = self._groups[demand] = Group(self._group_count, demand, job)
        if demand.preempts:
            self._preempting_group_count += 1
            self.has_preemptors = True
        return group

    def _take_out(self, job_id: JobId) -> Group:
        del self._jobs[job_id]
        self.overdue.forget(job_id)
        group, key = self._entries.pop(job_id)
        if job_id in group.deferred:
            del group.deferred[job_id]
        else:
            del group.job_ids[group.place_of((key, job_id))]
        del group.since_s[job_id]
        if self.owners is not None and group.since_s and group.sample.job_id == job_id:
            # The sample's agent says which nodes the group may have; this one's may have changed.
            group.sample = self._jobs[next(iter(group.since_s))].spec
        return group

    def _forget_if_empty(self, group: Group) -> None:
        if not group.since_s:
            del self._groups[group.demand]
            if group.demand.preempts:
                self._preempting_group_count -= 1
                self.has_preemptors = self._preempting_group_count > 0
            self.limited.forget(group)

    def _recall(self, group: Group) -> None:
        group.forget()
        for job_id in group.deferred:
            insort(group.job_ids, (self._entries[job_id][1], job_id))
        group.deferred.clear()
        self._is_due = self.wants_pass = True

    def _rank(self, cluster: Cluster, mark: QueueMark) -> None:
        """Sort every job by an order without lasting keys."""
        ranked = self._order.rank(self.view(cluster, mark.at_s))
        self._put_in_order(((place,), job_id) for place, job_id in enumerate(ranked))
        self._ranked = mark

    def _put_in_order(self, sorted_jobs: Iterable[tuple[SortKey, JobId]]) -> None:
        for group in self._groups.values():
            group.job_ids.clear()
        entries, jobs = self._entries, self._jobs
        for entry in sorted_jobs:
            key, job_id = entry
            group = entries[job_id][0]
            entries[job_id] = group, key
            jobs[job_id].sort_key = key
            if job_id not in group.deferred:
                group.job_ids.append(entry)
