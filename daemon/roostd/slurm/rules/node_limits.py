"""Limits on single nodes: reservations, and the CPUs that a partition's jobs may have there. Pure.

A reservation of whole nodes closes them to jobs that would run into its window. One of some cores
leaves the other cores to these jobs, and all cores to jobs that end before it begins. That,
MaxCPUsPerNode and MaxCPUsPerSocket are a number of CPUs of each node that some jobs share: a job
may take CPUs of several sockets.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from roost_engine.domain.model import NodeName, NodeSpec
from roost_slurm.text.hostlist import HostlistError, expand
from roost_slurm.text.partitions import Partition
from roost_slurm.text.reservations import Reservation
from roost_slurm.text.scontrol import JobDetail
from roost_slurm.text.squeue import QueuedJob

_BY_NODE, _BY_SOCKET = "MaxCPUsPerNode", "MaxCPUsPerSocket"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLimits:
    """The limits on single nodes of one site.

    Attributes:
        reservations: as they were read.
        partitions: by name.
        nodes: those with GPUs, by name.
        socket_counts: of these nodes; one that is missing has one socket.
        user_ids: of the users that reservations name.
        group_members: ids of the members of each group that they name.
        read_epoch_s: when Slurm was asked for the reservations.
    """

    reservations: tuple[Reservation, ...]
    partitions: Mapping[str, Partition]
    nodes: Mapping[NodeName, NodeSpec]
    socket_counts: Mapping[NodeName, int]
    user_ids: Mapping[str, int]
    group_members: Mapping[str, frozenset[int]]
    read_epoch_s: float

    def closed_nodes(self, job: QueuedJob, at_epoch_s: float) -> frozenset[NodeName]:
        """Return the nodes that reservations close to a job that would start now.

        A node is closed if the window of a reservation that the job does not use begins before the
        job's time limit ends. A window of no length closes none.
        """
        return frozenset(
            NodeName(name)
            for one in self.reservations
            if not self._is_partial(one) and self._binds(one, job, at_epoch_s)
            for name in one.nodes
        )

    def quotas(self, job: QueuedJob, at_epoch_s: float) -> tuple[str, ...]:
        """Return the limits on the CPUs of each node that a job counts against."""
        found = [
            _of_reservation(one)
            for one in self.reservations
            if self._is_partial(one) and self._binds(one, job, at_epoch_s)
        ]
        partition = self.partitions.get(job.partition)
        if partition is not None:
            found += [_of_partition(limit, partition) for limit in self._most_cpus(partition)]
        return tuple(found)

    def reserving(self, job: QueuedJob, at_epoch_s: float) -> frozenset[str]:
        """Return the reservations of GPUs into whose windows a job would run, started now."""
        gpu_ones = (one for one in self.reservations if one.gpu_count)
        return frozenset(one.name for one in gpu_ones if self._binds(one, job, at_epoch_s))

    def cpus_left(
        self, jobs: Iterable[QueuedJob], details: Mapping[int, JobDetail], at_epoch_s: float
    ) -> dict[str, dict[NodeName, float]]:
        """Return what the running jobs of a queue leave of each such limit on each node."""
        left = {
            _of_partition(limit, partition): {
                one.name: float(most * self._parts(limit, one)) for one in self._nodes_of(partition)
            }
            for partition in self.partitions.values()
            for limit, most in self._most_cpus(partition).items()
        }
        for one in self.reservations:
            if self._is_partial(one):
                left[_of_reservation(one)] = self._beside(one)
        if not left:
            return {}
        for job in jobs:
            if not job.is_holding:
                continue
            for quota in self.quotas(job, at_epoch_s):
                for name, cpu_count in _cpus_of(job, details.get(job.number)).items():
                    if name in left[quota]:
                        left[quota][name] -= cpu_count
        return left

    def _most_cpus(self, partition: Partition) -> dict[str, int]:
        """Return the limits of a partition on the CPUs of each node or socket, by Slurm's name."""
        most = {_BY_NODE: partition.max_cpus_per_node, _BY_SOCKET: partition.max_cpus_per_socket}
        return {limit: count for limit, count in most.items() if count is not None}

    def _parts(self, limit: str, node: NodeSpec) -> int:
        return self.socket_counts.get(node.name, 1) if limit == _BY_SOCKET else 1

    def _nodes_of(self, partition: Partition) -> Iterable[NodeSpec]:
        return (node for node in self.nodes.values() if partition.name in node.partitions)

    def _is_partial(self, one: Reservation) -> bool:
        """Whether a reservation has some cores of its nodes only.

        Slurm does not always print which cores these are.
        """
        if one.cores:
            return True
        if one.cpu_count is None or not all(name in self.nodes for name in one.nodes):
            return False
        return one.cpu_count < sum(self.nodes[NodeName(name)].cpu_count for name in one.nodes)

    def _beside(self, one: Reservation) -> dict[NodeName, float]:
        """Return the CPUs of each node that a reservation of some cores leaves to others."""
        count = one.cpu_count if one.cpu_count is not None else sum(one.cores.values())
        core_count = sum(one.cores.values())
        left = {}
        for name in map(NodeName, one.nodes):
            if name in self.nodes:
                part = one.cores.get(name, 0) / core_count if core_count else 1 / len(one.nodes)
                left[name] = self.nodes[name].cpu_count - count * part
        return left

    def _binds(self, one: Reservation, job: QueuedJob, at_epoch_s: float) -> bool:
        """Whether a job, started now or running, would run into a window that is not for it."""
        if one.name in job.reservation.split(","):
            return False
        if one.start_epoch_s <= at_epoch_s and self._draws_in(one, job):
            return False
        since_read_s = max(at_epoch_s - self.read_epoch_s, 0.0) if one.floats else 0.0
        start_s, end_s = one.start_epoch_s + since_read_s, one.end_epoch_s + since_read_s
        if end_s <= start_s or end_s <= at_epoch_s:
            return False
        limit_s = job.time_limit_s
        if limit_s is None:
            partition = self.partitions.get(job.partition)
            limit_s = partition.max_time_s if partition is not None else None
        began_s = job.start_epoch_s if job.is_holding and job.start_epoch_s else at_epoch_s
        return limit_s is None or start_s < began_s + limit_s

    def _draws_in(self, one: Reservation, job: QueuedJob) -> bool:
        """Whether a MAGNETIC reservation takes in a job that does not name it, while it lasts.

        Being a user of any other reservation is not enough; FLEX and OVERLAP open it to no other
        job either.
        """
        if "MAGNETIC" not in one.flags or not (one.users or one.accounts or one.groups):
            return False
        members = {
            user_id
            for name in one.groups
            for user_id in self.group_members.get(name.removeprefix("-"), ())
        }
        users = {self.user_ids.get(name.removeprefix("-")) for name in one.users}
        accounts = {name.removeprefix("-") for name in one.accounts}
        by_user = _admits(one.users, is_named=job.user_id in users)
        by_group = _admits(one.groups, is_named=job.user_id in members)
        return by_user and by_group and _admits(one.accounts, is_named=job.account in accounts)


def _admits(names: Collection[str], *, is_named: bool) -> bool:
    """Whether a list of users, groups or accounts lets a job in; one with a minus sign may not."""
    denies = any(name.startswith("-") for name in names)
    return not names or is_named != denies


def _of_partition(limit: str, partition: Partition) -> str:
    return f"{limit} {partition.name}"


def _of_reservation(one: Reservation) -> str:
    return f"CPUs beside reservation {one.name}"


def _cpus_of(job: QueuedJob, detail: JobDetail | None) -> Mapping[NodeName, float]:
    """Return the CPUs that a job holds on each node; an even part where that is not known."""
    if detail is not None and detail.allocated:
        found = Counter[NodeName]()
        for node in detail.allocated:
            found[NodeName(node.node)] += node.cpu_count
        return found
    try:
        names = expand(job.nodes)
    except HostlistError:
        return {}
    return {NodeName(name): job.cpu_count / len(names) for name in names}
