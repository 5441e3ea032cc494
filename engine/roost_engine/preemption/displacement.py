"""Search for the fewest running jobs that must stop so that a waiting job fits."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.link_table import mask_of
from roost_engine.cluster.node_sets import EVERY_NODE, NodeSet
from roost_engine.cluster.tiers import closest_tier, largest_sizes
from roost_engine.domain.actions import Exclusions
from roost_engine.domain.lazy import Lazy
from roost_engine.domain.model import JobId, JobSpec, NodeShare, Shape
from roost_engine.domain.tier import Tier
from roost_engine.placement.candidates import Candidates
from roost_engine.placement.eligibility import nodes_with_capacity, usable_nodes
from roost_engine.placement.options import GangOption

Propose = Callable[[], Candidates]
_NO_EXCLUSIONS: Lazy[Exclusions] = Lazy(tuple)


class FoundCapacity(NamedTuple):
    """The result of a search.

    Attributes:
        candidates: of the waiting job, with the allocations of the first victims ignored.
        victim_count: how many of the first victims.
        examined_count: no victim after so many of the first was looked at.
    """

    candidates: Candidates
    victim_count: int
    examined_count: int


def find_capacity(
    cluster: Cluster, victims: Sequence[JobId], propose: Propose, least_count: int | None = 0
) -> FoundCapacity | None:
    """Find the candidates that a job has if as few running jobs as possible are stopped.

    The search ignores the allocations of the first 1, 2, 4, ... victims until there are candidates,
    then bisects between the last two of these numbers. It proposes candidates at most
    2 + 2 log2(victims) times, and ignores the allocations of at most twice the victims needed.
    It begins with the least number instead of 1 where that is known, and mostly ends there.

    Args:
        cluster: the nodes and allocations; changed during the search only.
        victims: running jobs that may be stopped, in the order in which they are to be stopped.
        propose: lists the candidates of the waiting job on the cluster as it is then.
        least_count: see least_victim_count.

    Returns:
        What was found; None where the job does not fit even if all victims stop.
    """
    if least_count is None:
        return None
    if not least_count and (already_fit := propose()):
        # The job fits now, on nodes that are reserved for another job.
        return FoundCapacity(already_fit, 0, 0)
    with cluster.without_first(victims) as leave_out:
        count = min(max(1, least_count), len(victims))
        too_few = max(0, count - 1)
        while True:
            leave_out(count)
            found = propose()
            if found:
                break
            if count == len(victims):
                return None
            too_few, count = count, min(2 * count, len(victims))
        best, examined_count = found, count
        while too_few + 1 < count:
            middle = (too_few + count) // 2
            leave_out(middle)
            found = propose()
            if found:
                best, count = found, middle
            else:
                too_few = middle
    return FoundCapacity(best, count, examined_count)


class _Missing(NamedTuple):
    """What a shape misses.

    Attributes:
        gpu_count: GPUs that it asks of a node.
        usable: the nodes that it may use.
        counts: by scope, how many more of these nodes must have so many GPUs free.
    """

    gpu_count: int
    usable: NodeSet
    counts: dict[int, int]


def least_victim_count(
    cluster: Cluster,
    job: JobSpec,
    shapes: Sequence[Shape],
    victims: Sequence[JobId],
    in_a_rack: bool = False,
) -> int | None:
    """Return how many of the first victims must stop at least for a job to fit in a shape.

    Only the number of GPUs on each node is counted, so the job may need more victims.

    Args:
        cluster: the nodes and allocations.
        job: its partition, features and node lists count.
        shapes: in which it could run.
        victims: running jobs that may be stopped, in the order in which they are to be stopped.
        in_a_rack: whether all nodes have to be in one rack.

    Returns:
        0 to the number of victims; None where all of them are too few.
    """
    gpu_free, index_of = cluster.gpu_free, cluster.index_of
    scopes = cluster.rack_nodes if in_a_rack else [EVERY_NODE]
    shapes_missing: list[_Missing] = []
    for shape in shapes:
        usable, _ = usable_nodes(cluster, job, shape)
        able, count = usable & gpu_free.at_least[shape.gpus_per_node], shape.node_count
        large = [at for at, nodes in enumerate(scopes) if (usable & nodes).bit_count() >= count]
        counts = {at: count - (able & scopes[at]).bit_count() for at in large}
        if min(counts.values(), default=1) <= 0:
            return 0
        shapes_missing.append(_Missing(shape.gpus_per_node, usable, counts))
    free: dict[int, int] = {}
    for position, victim in enumerate(victims, start=1):
        for share in cluster.shares(victim):
            node = index_of[share.node]
            before = free[node] if node in free else gpu_free[node]
            now = free[node] = before + len(share.gpu_indices)
            for gpu_count, usable, counts in shapes_missing:
                if not (before < gpu_count <= now and usable >> node & 1):
                    continue
                scope = cluster.rack_of[node] if in_a_rack else 0
                if scope in counts:
                    counts[scope] -= 1
                    if not counts[scope]:
                        return position
    return None


def foreseen_gang(
    cluster: Cluster, job: JobSpec, shapes: Sequence[Shape], victims: Sequence[JobId]
) -> Candidates | None:
    """Return in which shape and on which tier a search for a gang of whole nodes would end.

    Nodes of which every GPU is free have the same index set free, so counts tell what a search
    finds, and nothing has to be freed for it. Most such gangs then decline to be so far apart.

    Args:
        cluster: the nodes and allocations.
        job: its partition, features and node lists count.
        shapes: in which it could run.
        victims: as few of the first ones as least_victim_count says; one or more.

    Returns:
        Candidates of which only shape and tier may be read; None where a search must tell, or where
        it would find the closest tier that the job could have.
    """
    shape = shapes[0]
    if len(shapes) > 1 or shape.gpus_per_node < largest_sizes(cluster)[0]:
        return None
    if job.fixed_indices or job.required_nodes or shape.node_count == 1:
        return None
    if cluster.faults or cluster.seats is not None or cluster.free.is_contested:
        return None
    able = _able_without(cluster, job, shape, victims)
    if able.bit_count() < shape.node_count:
        return None  # CPUs or memory are missing
    tier, closest = Tier.RACK, closest_tier(cluster, job)
    if closest == Tier.CLUSTER or not any(
        (able & rack).bit_count() >= shape.node_count for rack in cluster.rack_nodes
    ):
        tier = Tier.CLUSTER
    if tier <= closest:
        return None
    return Candidates(cluster, shape, (GangOption((), (), tier),), _NO_EXCLUSIONS)


def _able_without(
    cluster: Cluster, job: JobSpec, shape: Shape, victims: Sequence[JobId]
) -> NodeSet:
    """Return the nodes that can take a part of a shape of whole nodes if victims stop.

    No GPU is broken, and none has two holders.
    """
    able = nodes_with_capacity(cluster, job, shape)
    usable, _ = usable_nodes(cluster, job, shape)
    freed: dict[int, list[NodeShare]] = {}
    for victim in victims:
        for share in cluster.shares(victim):
            freed.setdefault(cluster.index_of[share.node], []).append(share)
    whole = (1 << shape.gpus_per_node) - 1
    for node, shares in freed.items():
        _, free = cluster.free_as(node)
        for share in shares:
            free |= mask_of(share.gpu_indices)
        if free & whole != whole or not usable >> node & 1:
            continue
        cpus = cluster.cpu_free[node] + sum([share.cpu_count for share in shares])
        memory = cluster.memory_free[node] + sum([share.memory_bytes for share in shares])
        if cpus >= shape.cpus_per_node and memory >= shape.memory_per_node_bytes:
            able |= 1 << node
    return able


def closest_only(propose: Propose, cluster: Cluster, closest: Tier) -> Candidates:
    """Return the candidates of a job if one of them is on the closest tier that it could have."""
    found = propose()
    if not found or found.tier <= closest:
        return found
    return Candidates(cluster, found.shape, (), _NO_EXCLUSIONS)


def holders(
    cluster: Cluster, victims: Sequence[JobId], shares: Sequence[NodeShare]
) -> tuple[JobId, ...]:
    """Return the victims that must stop so that the shares become free.

    These are the victims that hold a wanted GPU, and, on a node where CPUs or memory then still
    run short, further victims in their order until both suffice.
    """
    wanted = {share.node: share for share in shares}
    leaving: dict[JobId, None] = {}
    for job_id in victims:
        for held in cluster.shares(job_id):
            need = wanted.get(held.node)
            if need is not None and not set(need.gpu_indices).isdisjoint(held.gpu_indices):
                leaving[job_id] = None
    for need in shares:
        node = cluster.index_of[need.node]
        cpus, memory = int(cluster.cpu_free[node]), int(cluster.memory_free[node])
        here = [(v, s) for v in victims for s in cluster.shares(v) if s.node == need.node]
        for job_id, held in sorted(here, key=lambda pair: pair[0] not in leaving):
            if job_id not in leaving and cpus >= need.cpu_count and memory >= need.memory_bytes:
                break
            leaving[job_id] = None
            cpus, memory = cpus + held.cpu_count, memory + held.memory_bytes
    return tuple(leaving)


def vacated(
    cluster: Cluster, job_id: JobId, planned: Sequence[NodeShare], awaited: Iterable[JobId]
) -> tuple[NodeShare, ...]:
    """Return the part of a job's planned shares that no awaited victim holds any more.

    The engine holds this part for the job, so that no other job gets it.
    """
    taken = {
        (share.node, gpu)
        for job_id in awaited
        for share in cluster.shares(job_id)
        for gpu in share.gpu_indices
    }
    held = {share.node: share for share in cluster.shares(job_id)}
    found = []
    for need in planned:
        node, own = cluster.index_of[need.node], held.get(need.node, NodeShare(need.node, ()))
        cpus = int(cluster.cpu_free[node]) + own.cpu_count
        memory = int(cluster.memory_free[node]) + own.memory_bytes
        gpus = tuple(gpu for gpu in need.gpu_indices if (need.node, gpu) not in taken)
        found.append(
            NodeShare(
                need.node,
                gpus,
                max(0, min(need.cpu_count, cpus)),
                max(0, min(need.memory_bytes, memory)),
            )
        )
    return tuple(found)
