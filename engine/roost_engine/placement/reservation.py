"""When a job without capacity will have it, by the time limits of the running jobs.

The reservation of EASY backfill (Lifka, JSSPP 1995): the first job without capacity gets the nodes
that will be free soonest, and other jobs may use these only if they will end in time.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import inf

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.link_table import MAX_GPUS
from roost_engine.cluster.node_sets import EVERY_NODE, NO_NODES, NodeSet, first_nodes
from roost_engine.domain.model import JobId, JobSpec, Shape
from roost_engine.placement.eligibility import usable_nodes


@dataclass(frozen=True, slots=True, eq=False)
class Reservation:
    """Nodes reserved for one waiting job.

    Attributes:
        nodes: as many as its shape has; none when it can never have so many.
        start_s: engine time by which they have capacity, if every job keeps its time limit.
        job_id: of the waiting job.
    """

    nodes: NodeSet
    start_s: float
    job_id: JobId


class RunEnds:
    """When running jobs end by their time limits, in order of time."""

    def __init__(self) -> None:
        self._ends: list[tuple[float, JobId]] = []
        self._end_of: dict[JobId, float] = {}

    def __iter__(self) -> Iterator[tuple[float, JobId]]:
        return iter(self._ends)

    def __len__(self) -> int:
        return len(self._ends)

    def add(self, job_id: JobId, end_s: float) -> None:
        """Note when a job will have ended; in place of what was noted before."""
        self.remove(job_id)
        self._end_of[job_id] = end_s
        insort(self._ends, (end_s, job_id))

    def remove(self, job_id: JobId) -> None:
        """Forget a job, if it is there."""
        end_s = self._end_of.pop(job_id, None)
        if end_s is not None:
            del self._ends[bisect_left(self._ends, (end_s, job_id))]


def reserve(
    cluster: Cluster,
    job: JobSpec,
    shape: Shape,
    ends: Iterable[tuple[float, JobId]],
    at_s: float,
    within: NodeSet = EVERY_NODE,
) -> Reservation:
    """Find the nodes that have capacity for a shape soonest.

    Ties, also between nodes for which no time is known, go to the node with more free GPUs, then to
    the lower node index. Only GPUs are counted; a gang needs the same indices on each node, which
    may delay it further.

    Args:
        cluster: the nodes and what jobs hold on them.
        job: its partition, features and node lists count.
        shape: what it waits for.
        ends: engine time at which a job ends by its time limit, ascending; jobs that are not in it
            have none.
        at_s: engine time.
        within: the nodes that may be reserved.
    """
    nodes, required = usable_nodes(cluster, job, shape)
    nodes &= within
    if nodes.bit_count() < shape.node_count or required is None:
        return Reservation(NO_NODES, inf, job.job_id)
    chosen, start_s = required, at_s
    missing, awaited = shape.node_count - required.bit_count(), required
    for able_s, able in _able(cluster, nodes, shape.gpus_per_node, ends, at_s):
        if awaited & able:
            awaited &= ~able
            start_s = able_s
        if missing and (more := _with_most_free_gpus(cluster, able & ~required, missing)):
            chosen |= more
            missing -= more.bit_count()
            start_s = able_s
        if not missing and not awaited:
            break
    return Reservation(chosen, start_s, job.job_id)


def _able(
    cluster: Cluster,
    nodes: NodeSet,
    gpu_count: int,
    ends: Iterable[tuple[float, JobId]],
    at_s: float,
) -> Iterator[tuple[float, NodeSet]]:
    """Yield the times at which nodes come to have so many free GPUs, and which these are.

    The first time is now, the last inf, for the nodes of which no time is known.
    """
    gpu_free, shares_of, index_of = cluster.gpu_free, cluster.shares, cluster.index_of
    able = nodes & gpu_free.at_least[gpu_count]
    left, time_s, seats = nodes & ~able, at_s, cluster.seats
    freed: dict[int, int] = {}
    ended: set[JobId] = set()
    for end_s, job_id in ends:
        if end_s > time_s:  # a job that is overdue ends now
            yield time_s, able
            time_s, able = end_s, NO_NODES
        ended.add(job_id)
        for share in shares_of(job_id):
            node = index_of[share.node]
            if left >> node & 1:
                freed_count = len(share.gpu_indices)
                if seats is not None:
                    freed_count = seats.left_alone_count(job_id, share.node, ended)
                freed[node] = freed_count = freed.get(node, 0) + freed_count
                if gpu_free[node] + freed_count >= gpu_count:
                    able |= 1 << node
                    left ^= 1 << node
    yield time_s, able
    yield inf, left


def _with_most_free_gpus(cluster: Cluster, nodes: NodeSet, count: int) -> NodeSet:
    """Return the nodes of a set with the most free GPUs; all of them if there are no more."""
    if nodes.bit_count() <= count:
        return nodes
    chosen = NO_NODES
    for gpu_count in range(MAX_GPUS, -1, -1):
        here = first_nodes(nodes & cluster.gpu_free.at_least[gpu_count] & ~chosen, count)
        chosen |= here
        count -= here.bit_count()
        if not count:
            break
    return chosen
