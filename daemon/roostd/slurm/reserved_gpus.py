"""Which GPUs reservations of GPUs hold on each node. Pure: no clock, no I/O.

From 24.11 on a reservation may hold GPUs (`TRES=gres/gpu=3`). slurmctld keeps jobs without types
off these GPUs, but not jobs that ask for exact ones, as a pin does: such a job starts there, and
the jobs of the reservation wait for it. scontrol prints how many GPUs a reservation has, and not
which. On 24.11.5 these are the lowest indices of each node that neither a job nor another
reservation has when the reservation is made, as many as its part of the cores.

When it was made is not shown either: after the last poll without it. A GPU that a job held for a
part of the time since may have been free or not. So each node has the GPUs that may be reserved,
of which the lowest stand for the reserved ones. Where these are more, Roost pins jobs to the node
alone and Slurm chooses the GPUs, until jobs show which GPUs are reserved: those of the reservation
run on them, and jobs beside it for which Slurm has chosen the GPUs do not.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import TypeAlias

from roost_engine.domain.model import JobId, NodeName, NodeShare, NodeSpec
from roost_slurm.text.reservations import Reservation
from roost_slurm.text.squeue import QueuedJob, SlurmJobState
from roostd.slurm.request import pinned_indices
from roostd.slurm.rules.site_rules import SiteRules

_FLEX = "FLEX"  # its jobs may have GPUs outside it
_Hold: TypeAlias = tuple[int, NodeName, int]  # a holder, and one of its GPUs
_Gpus: TypeAlias = Mapping[NodeName, frozenset[int]]


@dataclass(frozen=True, slots=True)
class Poll:
    """The jobs that held GPUs at one poll of the queue.

    Attributes:
        at_epoch_s: when Slurm was asked.
        holders: these jobs, and their GPUs.
    """

    at_epoch_s: float
    holders: Sequence[tuple[QueuedJob, tuple[NodeShare, ...]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservedGpus:
    """The GPUs of one reservation.

    Attributes:
        start_epoch_s, end_epoch_s: of its window.
        gpu_count: of all its nodes together.
        counts: how many it has of each node.
        possible: those that it may have, by node.
        proven: those of these on which jobs of it have run.
        since_epoch_s: jobs that started later than that show which GPUs it has; -inf: it is older
            than what is known of the queue.
        polls: from the last one before it was made to the first one that showed it; () once the
            poll after that has come, as the queue is read before the reservations.
    """

    start_epoch_s: float
    end_epoch_s: float
    gpu_count: int
    counts: Mapping[NodeName, int]
    possible: _Gpus
    proven: _Gpus
    since_epoch_s: float
    polls: tuple[Poll, ...] = ()

    @property
    def shares(self) -> tuple[NodeShare, ...]:
        """The GPUs that stand for its own; the CPUs are counted as a limit of each node."""
        return tuple(
            NodeShare(name, tuple(sorted(self._likely_first(name)[:count])))
            for name, count in self.counts.items()
        )

    @property
    def unsure_nodes(self) -> frozenset[NodeName]:
        """The nodes of which it may have other GPUs."""
        counts, possible = self.counts, self.possible
        return frozenset(name for name in counts if len(possible[name]) > counts[name])

    def is_of(self, one: Reservation) -> bool:
        """Return whether a reservation is the one that these GPUs were found for."""
        return one.gpu_count == self.gpu_count and self.counts.keys() <= set(one.nodes)

    def _likely_first(self, name: NodeName) -> list[int]:
        proven = self.proven[name]
        return sorted(self.possible[name], key=lambda gpu: (gpu not in proven, gpu))


def reserved_gpus(
    rules: SiteRules, polls: Sequence[Poll], before: Mapping[str, ReservedGpus]
) -> dict[str, ReservedGpus]:
    """Return the GPUs of each reservation that has some GPUs of its nodes, by its name.

    A reservation that has all cores of its nodes closes them anyway, and is left out: it has them
    where its partition has no DefCpuPerGPU.

    Args:
        rules: with the reservations in the order in which they were made.
        polls: from the last one before the reading of the reservations before this one to now.
            Where now is the only one, reservations may be of any age.
        before: what this function returned the last time.
    """
    found: dict[str, ReservedGpus] = {}
    for one in rules.reservations:
        if not one.gpu_count or not one.cores or _has_all_cores(one, rules.nodes):
            continue
        others = [*found.values(), *(before[name] for name in before if name != one.name)]
        gpus = _chosen(one, rules.nodes, polls, before.get(one.name), others)
        if not gpus.polls:
            gpus = _narrowed(gpus, one, rules, polls[-1])
        start_s, end_s = one.start_epoch_s, one.end_epoch_s
        found[one.name] = replace(gpus, start_epoch_s=start_s, end_epoch_s=end_s)
    return found


def job_id_of(name: str) -> JobId:
    """Return as which job the engine knows the holder of a reservation's GPUs."""
    return JobId(f"reservation {name}")


def _has_all_cores(one: Reservation, nodes: Mapping[NodeName, NodeSpec]) -> bool:
    known = [nodes[NodeName(name)].cpu_count for name in one.nodes if name in nodes]
    return one.cpu_count is None or one.cpu_count >= sum(known)


def _counts(one: Reservation, nodes: Mapping[NodeName, NodeSpec]) -> dict[NodeName, int]:
    """Return how many GPUs of each node a reservation has."""
    core_count = sum(one.cores.values())
    counts = {
        NodeName(name): round(one.gpu_count * cores / core_count)
        for name, cores in one.cores.items()
        if name in nodes and name in one.nodes
    }
    return {name: counts[name] for name in map(NodeName, one.nodes) if counts.get(name)}


def _chosen(
    one: Reservation,
    nodes: Mapping[NodeName, NodeSpec],
    polls: Sequence[Poll],
    known: ReservedGpus | None,
    others: Iterable[ReservedGpus],
) -> ReservedGpus:
    """Return the GPUs that Slurm may have chosen for a reservation."""
    now, is_new, since_epoch_s = polls[-1], False, -inf
    if known is not None and known.is_of(one):
        if not known.polls or known.polls[-1].at_epoch_s == now.at_epoch_s:
            return known
        polls, since_epoch_s = (*known.polls, now), known.since_epoch_s
    elif len(polls) > 1:
        is_new, since_epoch_s = True, now.at_epoch_s
    always, ever = _held(one, polls, others)
    counts, possible = _counts(one, nodes), dict[NodeName, frozenset[int]]()
    for name, count in counts.items():
        every = frozenset(range(nodes[name].gpu_count))
        if since_epoch_s == -inf:
            possible[name] = every
        else:
            most = len(every - always[name]) if is_new else 0
            possible[name] = _lowest(max(count, most), every, always[name], ever[name])
    return ReservedGpus(
        start_epoch_s=one.start_epoch_s,
        end_epoch_s=one.end_epoch_s,
        gpu_count=one.gpu_count,
        counts=counts,
        possible=possible,
        proven=dict.fromkeys(counts, frozenset()),
        since_epoch_s=since_epoch_s,
        polls=tuple(polls) if is_new else (),
    )


def _held(
    one: Reservation, polls: Iterable[Poll], others: Iterable[ReservedGpus]
) -> tuple[dict[NodeName, set[int]], dict[NodeName, set[int]]]:
    """Return, by node, the GPUs that one holder has had all the time, and those held at any time.

    The GPUs of a job that completes may be free for Slurm already.
    """
    steady, ever = list[set[_Hold]](), set[_Hold]()
    for poll in polls:
        steady.append(set())
        for job, shares in poll.holders:
            if job.reservation != one.name:
                holds = set(_holds(job.number, shares))
                ever |= holds
                if job.state is not SlurmJobState.COMPLETING:
                    steady[-1] |= holds
    always = set.intersection(*steady)
    for number, other in enumerate(others):
        for name, gpus in other.possible.items():
            holds = {(-1 - number, name, gpu) for gpu in gpus}
            ever |= holds
            if name not in other.unsure_nodes:
                always |= holds
    return _by_node(always, one), _by_node(ever, one)


def _holds(holder: int, shares: Iterable[NodeShare]) -> Iterator[_Hold]:
    return ((holder, share.node, gpu) for share in shares for gpu in share.gpu_indices)


def _by_node(holds: Iterable[_Hold], one: Reservation) -> dict[NodeName, set[int]]:
    found: dict[NodeName, set[int]] = {NodeName(name): set() for name in one.nodes}
    for _, node, gpu in holds:
        if node in found:
            found[node].add(gpu)
    return found


def _lowest(count: int, every: frozenset[int], always: set[int], ever: set[int]) -> frozenset[int]:
    """Return all GPUs of a node that may be among the lowest free ones.

    With GPU 0 always held and 1 at times, the lowest two are 2 and 3, or 1 and 2: it may be any of
    these three. Where too few are free, Slurm takes the lowest of those held.
    """
    found, free_count = set[int](), 0
    for gpu in sorted(every):
        if gpu not in always and free_count < count:
            found.add(gpu)
        free_count += gpu not in ever
    missing_count = max(min(count, len(every)) - free_count, 0)
    return frozenset(found.union(sorted(always)[:missing_count]))


def _narrowed(gpus: ReservedGpus, one: Reservation, rules: SiteRules, poll: Poll) -> ReservedGpus:
    """Return what is left of the GPUs that a reservation may have by what jobs show now."""
    inside = [
        shares
        for job, shares in poll.holders
        if job.reservation == one.name
        and _FLEX not in one.flags
        and _shows(job, gpus.since_epoch_s)
    ]
    of_it = _by_node((hold for shares in inside for hold in _holds(0, shares)), one)
    proven = {name: gpus.proven[name] | of_it[name] for name in gpus.counts}
    possible = {name: gpus.possible[name] | proven[name] for name in proven}
    unsure = replace(gpus, possible=possible).unsure_nodes
    if unsure:
        beside = _beside(one, rules, poll, gpus.since_epoch_s, unsure)
        for name in unsure:
            is_complete = len(proven[name]) >= gpus.counts[name]
            left = possible[name] - beside[name]
            possible[name] = proven[name] if is_complete else left | proven[name]
    return replace(gpus, possible=possible, proven=proven)


def _beside(
    one: Reservation,
    rules: SiteRules,
    poll: Poll,
    since_epoch_s: float,
    nodes: frozenset[NodeName],
) -> dict[NodeName, set[int]]:
    """Return, by node, the GPUs of jobs that Slurm would not have placed on reserved ones.

    Of a reservation that is older than what is known, also those of pins: they were kept off it.
    """
    kept_off = [
        shares
        for job, shares in poll.holders
        if any(share.node in nodes for share in shares)
        and (since_epoch_s == -inf or _shows(job, since_epoch_s))
        and one.name in rules.reserving(job, poll.at_epoch_s)
    ]
    return _by_node((hold for shares in kept_off for hold in _holds(0, shares)), one)


def _shows(job: QueuedJob, since_epoch_s: float) -> bool:
    """Whether Slurm itself chose a job's GPUs after a time."""
    is_later = since_epoch_s < (job.start_epoch_s or -inf)
    return is_later and not pinned_indices(dict(job.tres))
