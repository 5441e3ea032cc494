"""Places jobs beside others: on the free seat of GPUs that one job holds.

Asked after each pass over the queue, for the jobs that opted in and for which no node has whole
GPUs free. A job joins one job, its host, on some of the host's GPUs of one node. Both opted in,
both say how much GPU memory they need and both are expected to lose little enough speed.
"""

from collections.abc import Callable
from dataclasses import replace
from math import inf
from typing import NamedTuple, TypeAlias

import numpy as np

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.features import COLUMNS
from roost_engine.cluster.link_table import indices_of, mask_of
from roost_engine.cluster.node_sets import NO_NODES, NodeSet
from roost_engine.cluster.seats import Seats
from roost_engine.domain.actions import Action, Decision
from roost_engine.domain.events import (
    Event,
    JobEnded,
    JobQueued,
    JobStarted,
    LinksSeen,
    LoadsSeen,
    MemorySeen,
    NodeLost,
    SharingWithdrawn,
    SpeedSeen,
    Tick,
    TopologySeen,
)
from roost_engine.domain.gpu_seat import FIRST, other_seat
from roost_engine.domain.lazy import Lazy
from roost_engine.domain.model import JobId, JobSpec, NodeShare, Placement, Shape
from roost_engine.domain.tier import Tier
from roost_engine.job_record import JobRecord
from roost_engine.placement.eligibility import usable_nodes
from roost_engine.policies.protocols import CandidatePolicy
from roost_engine.sharing.hosts import Host, Hosts, may_share
from roost_engine.sharing.memory_needs import MemoryNeeds
from roost_engine.sharing.pairs import CorrectedPair, LearningRule, PairRule, Slowdown
from roost_engine.sharing.separation import Separation
from roost_engine.sharing.separation_budget import SeparationBudget
from roost_engine.table.job_table import JobTable

POLICY = "sharing"

Put: TypeAlias = Callable[[JobRecord, Placement, Lazy[Decision]], None]


class SeatOffer(NamedTuple):
    """A seat for a job.

    Attributes:
        cost: upper bound of what both jobs lose, as log slowdowns weighed by their GPUs.
        host: the job that is there.
        mine, its: what the newcomer and the host lose.
    """

    cost: float
    placement: Placement
    host: JobId
    mine: Slowdown
    its: Slowdown


class Seating:
    """See the module.

    A waiting job for which no host was good is not compared with that host again before something
    about the host has changed: hosts have numbers, and a host that changes gets a new one.

    Args:
        rule: says which pairs are good.
        table: the jobs.
        candidates: proposes whole GPUs.
        separation: when bad pairs are separated, and how often still; None: never.

    Attributes:
        seats: the seats that jobs hold.
        hosts: the jobs that others could join.
        needs: what jobs need of a GPU's memory.
    """

    def __init__(
        self,
        rule: PairRule,
        table: JobTable,
        candidates: CandidatePolicy,
        separation: SeparationBudget | None = None,
    ) -> None:
        self._table, self._candidates, self._rule = table, candidates, rule
        self.seats = table.cluster.seats = Seats()
        self.needs = MemoryNeeds(table)
        self.hosts = Hosts(self.seats, table, self.needs)
        self._learning = rule if isinstance(rule, LearningRule) else None
        self._is_due = False
        self._separation: Separation | None = None
        if separation is not None and self._learning is not None:
            self._separation = Separation(separation, self._learning, table, candidates)
        self._numbers: dict[Host, int] = {}
        self._next_number = 0
        # By waiting job: no host below this number is good for it.
        self._examined: dict[JobId, int] = {}

    def note(self, event: Event) -> None:
        """Note an event, before the pass that it causes."""
        self.needs.note(event)
        self.hosts.note(event)
        if isinstance(event, MemorySeen) and self._separation is not None:
            self._separation.note_overfull(self.needs.overfull(event.job_id))
        match event:
            case TopologySeen() if event.gpu_memory_bytes:
                self.seats.gpu_memory_bytes[event.name] = event.gpu_memory_bytes
            case TopologySeen() | NodeLost():
                self.seats.gpu_memory_bytes.pop(event.name, None)
            case _:
                pass
        if isinstance(event, SpeedSeen):
            self._observe(event)
        if isinstance(event, LoadsSeen | LinksSeen | SpeedSeen | MemorySeen):
            return
        self._is_due = True
        match event:
            case JobQueued():
                self._examined.pop(event.job.job_id, None)
            case JobStarted() | Tick():
                pass
            case SharingWithdrawn():
                if (record := self._table.jobs.get(event.job_id)) is not None:
                    record.spec = replace(record.spec, shares_gpus=False)
            case JobEnded():
                self._examined.pop(event.job_id, None)
                if self._learning is not None:
                    self._learning.forget(event.job_id)
                if self._separation is not None:
                    self._separation.forget(event.job_id)
            case _:
                self._examined.clear()

    def joining(self, job_id: JobId) -> list[JobId]:
        """Return the jobs that are placed beside this one and have not started yet."""
        return [one for one in self.seats.partners(job_id) if one in self._table.placing]

    def knows_pairs_of(self, job: JobSpec) -> bool:
        """Return whether the rule could ever let a job share: its model was measured."""
        return self._learning is None or self._learning.knows_pairs_of(job)

    def corrected(self) -> list[CorrectedPair]:
        """Return the pairs that runs have corrected, for operators."""
        return [] if self._learning is None else self._learning.corrected()

    def _observe(self, event: SpeedSeen) -> None:
        """Correct a pair by the speed of a job that shares its GPUs with one other."""
        record, partners = self._table.jobs.get(event.job_id), self.seats.partners(event.job_id)
        if self._learning is None or record is None or len(partners) > 1:
            return
        other = self._table.jobs.get(partners[0]) if partners else None
        if partners and other is None:
            return
        beside = None if other is None else other.spec
        beside_frac = self._learning.note_speed(record.spec, beside, event.speed_frac)
        if other is None or beside_frac is None:
            return
        self._examined.clear()  # a pair may be good now that was not
        if self._separation is not None:
            self._separation.note(record, other, beside_frac, event.at_s)

    def separate(self, reserved: NodeSet, at_s: float, actions: list[Action]) -> None:
        """Stop a job of each pair that turned out bad, where the site allows it.

        Args:
            reserved: nodes that are reserved for a job that waits.
            at_s: engine time.
            actions: receives what follows.
        """
        if self._separation is not None:
            self._separation.consider(reserved, at_s, actions)

    def review_s(self, at_s: float) -> float:
        """Return when to look at bad pairs again without an event; inf: never."""
        return inf if self._separation is None else self._separation.review_s(at_s)

    def place(self, reserved: NodeSet, at_s: float, put: Put) -> None:
        """Place the waiting jobs that find a seat, in order.

        Args:
            reserved: nodes that are reserved for a job that waits longer: no job is seated there.
            at_s: engine time.
            put: places a job.
        """
        if not self._is_due:
            return
        self._is_due = False
        hosts = self._hosts(reserved, at_s)
        for record in self._askers(at_s):
            offer = self._best(record.spec, hosts)
            if offer is None:
                # A limit of Slurm's that the job counts against may be what it waits for.
                if not (record.spec.quotas or record.spec.node_quotas):
                    self._examined[record.job_id] = self._next_number
                continue
            # Whole GPUs first: the next pass gives them to the job, or its gate waits for others.
            if self._candidates.propose(self._table.cluster, record.spec, NO_NODES, at_s):
                continue
            put(record, offer.placement, Lazy.of(self._decision(record.spec, offer, at_s)))
            hosts = self._hosts(reserved, at_s)

    def _hosts(self, reserved: NodeSet, at_s: float) -> dict[Host, int]:
        """Return the jobs that others could join now, and their numbers."""
        found = dict[Host, int]()
        for host in self.hosts.among(reserved, at_s):
            number = self._numbers.get(host)
            if number is None:
                number, self._next_number = self._next_number, self._next_number + 1
            found[host] = number
        self._numbers = found
        return found

    def _askers(self, at_s: float) -> list[JobRecord]:
        """Return the jobs that may get a seat now, in the order of the queue."""
        table, found, examined = self._table, [], self._examined
        newest = max(self._numbers.values(), default=-1)
        for job_id in table.waiting:
            if examined.get(job_id, 0) > newest:
                continue
            record = table.jobs[job_id]
            job = record.spec
            if not may_share(job) or record.standing is not None:
                continue
            key = table.queue.key_of(job_id)
            if key is None:
                continue
            if table.is_ready(record, at_s) and not table.quotas.exhausted_by(job):
                found.append(((-job.priority_tier, key, job.submit_s, job_id), record))
        return [record for _, record in sorted(found, key=lambda one: one[0])]

    def _best(self, job: JobSpec, hosts: dict[Host, int]) -> SeatOffer | None:
        shape = next((shape for shape in job.shapes if shape.node_count == 1), None)
        if shape is None or self._table.quotas.exhausted_by(job):
            return None
        usable, required = usable_nodes(self._table.cluster, job, shape)
        full = self._table.quotas.full_nodes(job) if job.node_quotas else {}
        if required is None:
            return None
        first = self._examined.get(job.job_id, 0)
        offers = [
            offer
            for host, number in hosts.items()
            if number >= first
            and usable >> host.node & 1
            and host.name not in full
            and (offer := self._offer(job, shape, host)) is not None
        ]
        return min(offers, key=lambda one: (one.cost, one.placement.nodes), default=None)

    def _offer(self, job: JobSpec, shape: Shape, host: Host) -> SeatOffer | None:
        """Return the seats beside one job, if the newcomer may have them."""
        if len(host.gpus) < shape.gpus_per_node or host.cpu_count < shape.cpus_per_node:
            return None
        if host.memory_bytes < shape.memory_per_node_bytes:
            return None
        parted = self._separation is not None and self._separation.have_parted
        if parted and parted(job.job_id, host.spec.job_id):
            return None
        needed_bytes = self.needs.expected_bytes(job) + host.gpu_memory_bytes
        if needed_bytes > self.seats.gpu_memory_bytes.get(host.name, 0):
            return None
        seat = other_seat(host.seat)
        judged = self._rule.judge(job, host.spec)
        if judged is None:
            return None
        chosen = _chosen(self._table.cluster, job, shape, host.node, seat, host.gpus)
        if chosen is None:
            return None
        mine, its = judged
        cost = mine.worst * shape.gpu_count + its.worst * host.spec.gpu_count
        placement = Placement((host.name,), chosen, shape, Tier.NODE, seat=seat)
        return SeatOffer(cost, placement, host.spec.job_id, mine, its)

    def _decision(self, job: JobSpec, offer: SeatOffer, at_s: float) -> Decision:
        cluster, placement = self._table.cluster, offer.placement
        (name,), gpus = placement.nodes, placement.gpu_indices
        table = cluster.table(cluster.index_of[name])
        return Decision(
            at_s=at_s,
            candidates=(placement,),
            features=np.zeros((1, len(COLUMNS)), dtype=np.float32),
            scores=np.zeros(1, dtype=np.float32),
            link_scores=np.array([table.set_scores[mask_of(gpus)]], dtype=np.int64),
            best_link_score=table.best_by_size[len(gpus)],
            exclusions=(),
            free_before=(NodeShare(placement.nodes[0], gpus),),
            policy=POLICY,
            neighbour=(
                f"no node has whole GPUs free: shares them with job {offer.host}; it is expected"
                f" to lose {offer.mine.in_words}, and job {offer.host} {offer.its.in_words}"
            ),
        )


def partners_in_words(seats: Seats, job_id: JobId, needs: MemoryNeeds | None = None) -> str:
    """Return which jobs share GPUs with a job, for a human; empty where none does.

    Args:
        seats: that jobs hold.
        job_id: the job.
        needs: says whether they fit together still; None: jobs share GPUs no more.
    """
    others = sorted(seats.partners(job_id))
    if not others:
        return ""
    overfull = None if needs is None else needs.overfull(job_id)
    beyond = "" if overfull is None else f", where memory may run out: {overfull.in_words}"
    return f"shares GPUs with job {', '.join(others)}{beyond}"


def seated(job: JobSpec, placement: Placement) -> Placement:
    """Return a placement on whole GPUs as a job can have it.

    Slurm 22.05 gives a job that was pinned to second seats no first ones.
    """
    if job.fixed_seat == FIRST or placement.gpu_indices != job.fixed_indices:
        return placement
    return Placement(
        placement.nodes,
        placement.gpu_indices,
        placement.shape,
        placement.tier,
        seat=job.fixed_seat,
    )


def _chosen(
    cluster: Cluster, job: JobSpec, shape: Shape, node: int, seat: int, gpus: tuple[int, ...]
) -> tuple[int, ...] | None:
    """Return the GPUs that a job would share, of those of its host; None: too few."""
    if job.fixed_indices:
        if seat != job.fixed_seat or len(job.fixed_indices) != shape.gpus_per_node:
            return None
        return job.fixed_indices if set(job.fixed_indices) <= set(gpus) else None
    if len(gpus) < shape.gpus_per_node:
        return None
    free, size = mask_of(gpus), shape.gpus_per_node
    return indices_of(int(cluster.table(node).choice(free, size).masks[0]))
