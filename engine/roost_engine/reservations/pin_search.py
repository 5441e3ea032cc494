"""The search for the GPUs where a waiting job runs soonest, once other jobs have ended.

It foresees ends by time limits, or by what stands in for them: see `table.job_table.JobTable.ends`.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import inf
from operator import attrgetter, itemgetter

from roost_engine.cluster.node_sets import EVERY_NODE, NO_NODES
from roost_engine.domain.model import JobId, JobSpec
from roost_engine.domain.tier import Tier
from roost_engine.job_record import JobRecord, StandingPin, shares_of
from roost_engine.placement.candidates import Candidates
from roost_engine.placement.reservation import reserve
from roost_engine.policies.protocols import CandidatePolicy, Defer
from roost_engine.preemption.displacement import (
    FoundCapacity,
    Propose,
    find_capacity,
    holders,
)
from roost_engine.preemption.preemption import AskGate
from roost_engine.scoring.scorer import Scorer
from roost_engine.table.job_table import JobTable


class PinSearch:
    """Finds busy GPUs for a standing pin, and checks those of an earlier one."""

    def __init__(
        self, table: JobTable, candidates: CandidatePolicy, scorer: Scorer, ask_gate: AskGate
    ) -> None:
        self._table, self._candidates = table, candidates
        self._scorer, self._ask_gate = scorer, ask_gate

    def soonest(
        self, record: JobRecord, ends: Sequence[tuple[float, JobId]], at_s: float
    ) -> StandingPin | Defer | None:
        """Return where a job fits once the fewest of these jobs have ended, if at all.

        Where the gate lets the job wait for a closer place than that, its verdict. A gang gets the
        nodes that come free first, where it fits there: most jobs end before their time limits, so
        the more of its nodes are free, the sooner it may start.
        """
        ids = [job_id for _, job_id in ends]
        found = self._find_on_first_nodes(record, ends, at_s) or self.find(record, ids, at_s)
        if found is None:
            return None
        candidates, count, _ = found
        verdict = self._ask_gate(record, candidates, at_s)
        if isinstance(verdict, Defer):
            return verdict
        start_s = max(end_s for end_s, _ in ends[:count])
        pin = self.choose(record.spec, candidates, ids[:count], start_s, at_s)
        other = self.without_foreign_memory(record, pin, ids, at_s)
        if other is None:
            return pin
        candidates, count, _ = other
        other_start_s = max(end_s for end_s, _ in ends[:count])
        if other_start_s > start_s:
            return pin
        chosen = self.choose(record.spec, candidates, ids[:count], other_start_s, at_s)
        return chosen if chosen.placement.tier <= pin.placement.tier else pin

    def _find_on_first_nodes(
        self, record: JobRecord, ends: Sequence[tuple[float, JobId]], at_s: float
    ) -> FoundCapacity | None:
        """Return where a gang fits on the nodes that would be reserved for it under a lease.

        Where other nodes are free as soon and closer together, those. None: one node will do, no
        end is known, no end need be awaited, or the GPUs of these nodes make no gang.
        """
        cluster, job = self._table.cluster, record.spec
        first = min(
            (reserve(cluster, job, shape, ends, at_s) for shape in job.shapes),
            key=attrgetter("start_s"),
        )
        if first.nodes.bit_count() < 2 or not at_s < first.start_s < inf:
            return None
        propose = partial(self._candidates.propose, cluster, job)
        count = bisect_right(ends, first.start_s, key=itemgetter(0))
        with cluster.without([job_id for _, job_id in ends[:count]]):
            found = propose(EVERY_NODE & ~first.nodes, at_s)
            closest = propose(NO_NODES, at_s) if found else found
        if not found:
            return None
        return FoundCapacity(min(found, closest, key=attrgetter("tier")), count, count)

    def without_foreign_memory(
        self, record: JobRecord, pin: StandingPin, ids: Sequence[JobId], at_s: float
    ) -> FoundCapacity | None:
        """Return where a job has GPUs without foreign memory, once the fewest jobs have ended.

        Returns:
            What is found; None: nothing that is as close together as a pin, or the GPUs of the pin
            have no such memory. The score may prefer a candidate that is farther apart.
        """
        if not self.has_foreign_memory(pin):
            return None
        found = self.find(record, ids, at_s, avoids_foreign=True)
        if found is None or found.candidates.tier > pin.placement.tier:
            return None
        return found

    def has_foreign_memory(self, pin: StandingPin) -> bool:
        """Return whether processes of no job use memory of a pin's GPUs."""
        return self._table.cluster.foreign.is_among(shares_of(pin.placement))

    def busy_node_count(self, pin: StandingPin) -> int:
        """Return on how many nodes jobs hold GPUs of a pin."""
        cluster = self._table.cluster
        return sum(not cluster.has_free((share,)) for share in shares_of(pin.placement))

    def foreseen(self, pin: StandingPin, at_s: float) -> StandingPin:
        """Return a pin with the start that the jobs which are left on its nodes allow.

        While all the awaited jobs run, that is unchanged: other jobs came to the nodes only if they
        end before. A job that outlives its prediction changes it.
        """
        cluster, nodes = self._table.cluster, set(pin.placement.nodes)
        has_changed = self.is_late(pin, at_s)
        if not has_changed and all(cluster.shares(job_id) for job_id in pin.awaited):
            return replace(pin, freed_count=cluster.freed_count)
        end_of = {
            job_id: end_s
            for end_s, job_id in self.ends(at_s)
            if any(share.node in nodes for share in cluster.shares(job_id))
        }
        awaited = holders(cluster, tuple(end_of), shares_of(pin.placement))
        start_s = max((end_of[job_id] for job_id in awaited), default=at_s)
        return replace(pin, start_s=start_s, freed_count=cluster.freed_count, awaited=awaited)

    def is_late(self, pin: StandingPin, at_s: float) -> bool:
        """Return whether a job that has outlived its prediction holds the GPUs of a pin."""
        if pin.start_s > at_s:
            return False
        records = map(self._table.jobs.get, pin.awaited)
        return any(one is not None and one.guess is not None for one in records)

    def fits_after(
        self, record: JobRecord, ends: Sequence[tuple[float, JobId]], at_s: float
    ) -> bool:
        """Return whether a job fits once all of these jobs have ended."""
        cluster = self._table.cluster
        with cluster.without([job_id for _, job_id in ends]):
            return bool(self._candidates.propose(cluster, record.spec, NO_NODES, at_s))

    def find(
        self,
        record: JobRecord,
        ids: Sequence[JobId],
        at_s: float,
        *,
        avoids_foreign: bool = False,
    ) -> FoundCapacity | None:
        """Return where a job fits once the fewest of these jobs, one or more, have ended.

        Args:
            record: the job.
            ids: running jobs, in the order in which they are to end.
            at_s: engine time.
            avoids_foreign: whether GPUs with foreign memory are left out.
        """
        cluster = self._table.cluster
        propose: Propose = partial(self._candidates.propose, cluster, record.spec, NO_NODES, at_s)
        if avoids_foreign:
            propose = cluster.foreign.avoiding(propose)
        found = find_capacity(cluster, ids, propose)
        return found if found is not None and found.victim_count else None

    def choose(
        self,
        job: JobSpec,
        candidates: Candidates,
        leaving: Sequence[JobId],
        start_s: float,
        at_s: float,
        give_up_s: float = inf,
    ) -> StandingPin:
        """Return a pin to the best of some candidates.

        Args:
            job: the request.
            candidates: what it could have once the jobs of `leaving` have ended.
            leaving: these jobs.
            start_s: when they have ended.
            at_s: engine time.
            give_up_s: see StandingPin.
        """
        cluster = self._table.cluster
        with cluster.without(leaving):
            placement, decision = self._scorer.choose(candidates, at_s, job)
        shares = shares_of(placement)
        awaited = holders(cluster, leaving, shares)
        why = "needed as few stops" if give_up_s < inf else "is free as soon"
        return StandingPin(
            placement=placement,
            decision=cluster.foreign.named_in(decision, shares, f"no other place {why}"),
            start_s=start_s if awaited else at_s,
            freed_count=cluster.freed_count,
            awaited=awaited,
            give_up_s=give_up_s,
        )

    def ends(self, at_s: float) -> list[tuple[float, JobId]]:
        """Return when each job that holds something ends, in order of time; inf where unknown."""
        held = self._table.cluster.held_jobs()
        ends = [(max(end_s, at_s), job_id) for end_s, job_id in self._table.ends(at_s)]
        if len(ends) < len(held):
            known = {job_id for _, job_id in ends}
            ends += [(inf, job_id) for job_id in held if job_id not in known]
        return ends

    def ends_before(self, pin: StandingPin, at_s: float) -> list[tuple[float, JobId]]:
        """Return the ends, in order of time, after which a job may have a better place than a pin.

        These are the earlier ones; for a place that is as soon, and closer, of which more is free
        or without foreign memory, those at the same time.
        """
        can_improve = pin.placement.tier is not Tier.NODE or self.has_foreign_memory(pin)
        if can_improve and pin.start_s == inf:
            return self.ends(at_s)
        found = []
        for end_s, job_id in self._table.ends(at_s):
            end_s = max(end_s, at_s)
            if end_s > pin.start_s or (end_s == pin.start_s and not can_improve):
                break
            found.append((end_s, job_id))
        return found
