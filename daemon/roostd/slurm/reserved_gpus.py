"""Which GPUs reservations of GPUs hold on each node. Pure: no clock, no I/O.

From 24.11 on a reservation may hold GPUs (`TRES=gres/gpu=3`). slurmctld keeps jobs without types
off these GPUs, but not jobs that ask for exact ones, as a pin does: such a job starts there, and
the jobs of the reservation wait for it. scontrol prints how many GPUs a reservation has, and not
which. On 24.11.5 these are the lowest indices of each node that neither a job nor another
reservation has when the reservation is made, as many as its part of the cores.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from roost_engine.domain.model import JobId, NodeName, NodeShare, NodeSpec
from roost_slurm.reservations import Reservation


@dataclass(frozen=True, slots=True)
class ReservedGpus:
    """The GPUs of one reservation.

    Attributes:
        start_epoch_s, end_epoch_s: of its window.
        gpu_count: of all its nodes together.
        shares: the GPUs by node; the CPUs are counted as a limit of each node, and are 0 here.
    """

    start_epoch_s: float
    end_epoch_s: float
    gpu_count: int
    shares: tuple[NodeShare, ...]

    def is_of(self, one: Reservation) -> bool:
        """Return whether a reservation is the one that these GPUs were found for."""
        has_as_many = one.gpu_count == self.gpu_count
        return has_as_many and {share.node for share in self.shares} <= set(one.nodes)


def reserved_gpus(
    reservations: Iterable[Reservation],
    nodes: Mapping[NodeName, NodeSpec],
    running: Mapping[JobId, tuple[NodeShare, ...]],
    before: Mapping[str, ReservedGpus],
) -> dict[str, ReservedGpus]:
    """Return the GPUs of each reservation that has some GPUs of its nodes, by its name.

    A reservation that has all cores of its nodes closes them anyway, and is left out: it has them
    where its partition has no DefCpuPerGPU.

    Args:
        reservations: in the order in which they were made.
        nodes: those with GPUs, by name.
        running: what jobs hold, reservations not among them.
        before: what this function returned the last time: Slurm chooses once.
    """
    found: dict[str, ReservedGpus] = {}
    for one in reservations:
        if not one.gpu_count or not one.cores or _has_all_cores(one, nodes):
            continue
        known = before.get(one.name)
        if known is not None and known.is_of(one):
            shares = known.shares
        else:
            others = (*found.values(), *(before[name] for name in before if name != one.name))
            held = [*running.values(), *(other.shares for other in others)]
            shares = _lowest(one, nodes, [share for shares in held for share in shares])
        window = one.start_epoch_s, one.end_epoch_s
        found[one.name] = ReservedGpus(*window, one.gpu_count, shares)
    return found


def job_id_of(name: str) -> JobId:
    """Return as which job the engine knows the holder of a reservation's GPUs."""
    return JobId(f"reservation {name}")


def _has_all_cores(one: Reservation, nodes: Mapping[NodeName, NodeSpec]) -> bool:
    known = [nodes[NodeName(name)].cpu_count for name in one.nodes if name in nodes]
    return one.cpu_count is None or one.cpu_count >= sum(known)


def _lowest(
    one: Reservation, nodes: Mapping[NodeName, NodeSpec], held: Iterable[NodeShare]
) -> tuple[NodeShare, ...]:
    taken: dict[str, set[int]] = {}
    for share in held:
        taken.setdefault(share.node, set()).update(share.gpu_indices)
    core_count = sum(one.cores.values())
    shares = []
    for name in map(NodeName, one.nodes):
        if name in nodes and one.cores.get(name):
            count = round(one.gpu_count * one.cores[name] / core_count)
            of_node = range(nodes[name].gpu_count)
            free = [index for index in of_node if index not in taken.get(name, ())]
            busy = [index for index in of_node if index not in free]
            shares.append(NodeShare(name, tuple(sorted((free + busy)[:count]))))
    return tuple(share for share in shares if share.gpu_indices)
