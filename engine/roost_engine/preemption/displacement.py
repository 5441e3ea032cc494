"""Capacity for a waiting job where others run: which of them to stop, and where it then goes."""

from collections.abc import Callable, Iterable, Sequence

from roost_engine.cluster.cluster import Cluster
from roost_engine.domain.model import JobId, NodeShare
from roost_engine.placement.candidates import Candidates

Propose = Callable[[], Candidates]


def find_room(
    cluster: Cluster, victims: Sequence[JobId], propose: Propose
) -> tuple[Candidates, int] | None:
    """Find the candidates that a job would have if as few others as possible were stopped.

    The victims are tried in front parts that double in length, then between the last two of these,
    so a search asks for candidates at most 2 + 2 log2(victims) times, and unbooks hardly more
    victims than it finds to be needed.

    Args:
        cluster: as it is; the same afterwards.
        victims: running jobs, the first to go first.
        propose: asks for candidates of the waiting job.

    Returns:
        The candidates, and of how many victims they hold the GPUs at most; None without room.
    """
    unmoved = propose()
    if unmoved:
        return unmoved, 0  # there is room, and it is reserved for somebody else
    with cluster.without_first(victims) as leave_out:
        too_few, count = 0, min(1, len(victims))
        while True:
            leave_out(count)
            found = propose()
            if found:
                break
            if count == len(victims):
                return None
            too_few, count = count, min(2 * count, len(victims))
        best = found, count
        while too_few + 1 < best[1]:
            count = (too_few + best[1]) // 2
            leave_out(count)
            found = propose()
            if found:
                best = found, count
            else:
                too_few = count
    return best


def holders(
    cluster: Cluster, victims: Sequence[JobId], shares: Sequence[NodeShare]
) -> tuple[JobId, ...]:
    """Which of the victims hold a GPU, or CPUs and memory of a node, that is needed.

    A node's CPUs and memory are not told apart: whoever holds GPUs that are wanted goes, and where
    CPUs or memory still run short, whoever else of the victims is on that node.
    """
    wanted = {share.node: share for share in shares}
    direct: dict[JobId, None] = {}
    for job_id in victims:
        for held in cluster.shares(job_id):
            need = wanted.get(held.node)
            if need is not None and not set(need.gpu_indices).isdisjoint(held.gpu_indices):
                direct[job_id] = None
    for need in shares:
        row = cluster.row[need.node]
        cpus, memory = int(cluster.cpu_free[row]), int(cluster.memory_free[row])
        here = [(v, s) for v in victims for s in cluster.shares(v) if s.node == need.node]
        for job_id, held in sorted(here, key=lambda pair: pair[0] not in direct):
            if job_id not in direct and cpus >= need.cpu_count and memory >= need.memory_bytes:
                break
            direct[job_id] = None
            cpus, memory = cpus + held.cpu_count, memory + held.memory_bytes
    return tuple(direct)


def vacated(
    cluster: Cluster, job_id: JobId, planned: Sequence[NodeShare], awaited: Iterable[JobId]
) -> tuple[NodeShare, ...]:
    """What of a job's plan no awaited job holds any more: nobody else may have it."""
    taken = {
        (share.node, gpu)
        for job_id in awaited
        for share in cluster.shares(job_id)
        for gpu in share.gpu_indices
    }
    held = {share.node: share for share in cluster.shares(job_id)}
    found = []
    for need in planned:
        row, own = cluster.row[need.node], held.get(need.node, NodeShare(need.node, ()))
        cpus = int(cluster.cpu_free[row]) + own.cpu_count
        memory = int(cluster.memory_free[row]) + own.memory_bytes
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
