"""A site's own rules: which jobs Slurm may start, and on which nodes. Pure: no clock, no I/O.

Slurm would refuse or delay the start of a job that these rules bind, so GPUs that Roost allocated
to the job would idle. The rules are as old as the answers of Slurm's commands; what is left of each
quota is counted from the queue dump that it is asked about.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from roost_engine.domain.model import NodeName, NodeSpec, QuotaUse
from roost_slurm.text.assoc_mgr import AssocMgr
from roost_slurm.text.licenses import License
from roost_slurm.text.partitions import Partition
from roost_slurm.text.qos import PARTITION_MAX_NODES, PARTITION_TIME_LIMIT, QosTraits
from roost_slurm.text.reservations import Reservation
from roost_slurm.text.scheduling import Scheduling
from roost_slurm.text.scontrol import JobDetail
from roost_slurm.text.squeue import QueuedJob
from roostd.slurm.rules import shared_nodes
from roostd.slurm.rules.limit_reasons import beyond_job_limits, unreachable
from roostd.slurm.rules.node_limits import NodeLimits
from roostd.slurm.rules.quotas import QuotaRules

_BY_QOS, _BY_PARTITION = "preempt/qos", "preempt/partition_prio"
# Only these free a victim's GPUs: a suspended job keeps them, under GANG too.
_FREEING = frozenset({"REQUEUE", "CANCEL"})


@dataclass(frozen=True, kw_only=True)
class SiteRules:
    """What Slurm's commands print of a site's rules. An empty part binds no job.

    Attributes:
        read_epoch_s: when Slurm was asked.
        partitions, qos_traits, licenses: by name.
        nodes: those with GPUs, by name.
        socket_counts: of these nodes; one that is missing has one socket.
        user_ids: of the users that MAGNETIC reservations name.
        group_members: ids of the members of each group that they name.
        hidden: by partition, nodes that Slurm would wake for its jobs and does not show.
    """

    read_epoch_s: float = 0.0
    scheduling: Scheduling = field(default_factory=Scheduling)
    partitions: Mapping[str, Partition] = field(default_factory=dict)
    accounting: AssocMgr = field(default_factory=AssocMgr)
    qos_traits: Mapping[str, QosTraits] = field(default_factory=dict)
    licenses: Mapping[str, License] = field(default_factory=dict)
    reservations: tuple[Reservation, ...] = ()
    nodes: Mapping[NodeName, NodeSpec] = field(default_factory=dict)
    socket_counts: Mapping[NodeName, int] = field(default_factory=dict)
    user_ids: Mapping[str, int] = field(default_factory=dict)
    group_members: Mapping[str, frozenset[int]] = field(default_factory=dict)
    hidden: Mapping[str, frozenset[NodeName]] = field(default_factory=dict)

    def binds_like(self, other: "SiteRules") -> bool:
        """Return whether the rules are the same as others, whenever both were read."""
        return self is other or replace(other, read_epoch_s=self.read_epoch_s) == self

    @cached_property
    def _quotas(self) -> QuotaRules:
        return QuotaRules(
            self.scheduling, self.accounting, self.qos_traits, self.partitions, self.licenses
        )

    @cached_property
    def _node_limits(self) -> NodeLimits:
        return NodeLimits(
            reservations=self.reservations,
            partitions=self.partitions,
            nodes=self.nodes,
            socket_counts=self.socket_counts,
            user_ids=self.user_ids,
            group_members=self.group_members,
            read_epoch_s=self.read_epoch_s,
        )

    def priority_tier_of(self, job: QueuedJob) -> int:
        """Return the priority tier of a job's partition, the first of several; 0: unknown."""
        partition = self.partitions.get(job.partition.partition(",")[0])
        return 0 if partition is None else partition.tier

    def why_not(self, job: QueuedJob, detail: JobDetail | None) -> str | None:
        """Return why Slurm would not start a job whatever else runs, or None.

        The text begins with Slurm's own name of the reason. A job that may run in several
        partitions is not judged.
        """
        partition = self.partitions.get(job.partition)
        if partition is not None:
            flags = self._quotas.flags(job)
            least_nodes = detail.min_node_count if detail is not None else job.node_count
            found = (
                _closed(partition)
                or _not_allowed(partition, job, self._accounts(job))
                or _too_large(partition, job, least_nodes, flags)
                or _too_many_cpus(partition, job, detail, self._most_sockets)
            )
            if found is not None:
                return found
        if self.scheduling.enforces_limits:
            found = beyond_job_limits(self._quotas, job, detail)
            if found is not None:
                return found
        return unreachable(self._quotas, job)

    def why_left(self, job: QueuedJob, node_count: int) -> str | None:
        """Return why Roost leaves a job of at least so many nodes to Slurm for its partition."""
        partition, has_topologies = self.partitions.get(job.partition), self._has_topologies
        return shared_nodes.why_left(partition, job, node_count, has_topologies=has_topologies)

    @cached_property
    def _has_topologies(self) -> bool:
        return len({partition.topology for partition in self.partitions.values()}) > 1

    @cached_property
    def cpu_sharing(self) -> frozenset[str]:
        """Return the partitions whose jobs Slurm may start on CPUs that other jobs have."""
        return shared_nodes.cpu_sharing(self.partitions, self.scheduling)

    def quotas(self, job: QueuedJob) -> tuple[QuotaUse, ...]:
        """Return every shared limit that a job counts against, and what it takes of each."""
        return self._quotas.uses(job)

    def free(self, jobs: Iterable[QueuedJob]) -> Mapping[str, float]:
        """Return what the running jobs of a queue dump leave of each quota of its jobs.

        May be below 0: an administrator has lowered a limit. Only limits on minutes are taken from
        slurmctld's own numbers. Of limits on nodes a waiting job is expected to take as many as it
        asks for, though slurmctld counts a node once for all jobs of a user or an account there.
        """
        return self._quotas.free(jobs)

    def closed_nodes(self, job: QueuedJob, at_epoch_s: float) -> frozenset[NodeName]:
        """Return the nodes that reservations close to a job that would start now."""
        return self._node_limits.closed_nodes(job, at_epoch_s)

    def node_quotas(self, job: QueuedJob, at_epoch_s: float) -> tuple[str, ...]:
        """Return the limits on the CPUs of each node that a job counts against."""
        return self._node_limits.quotas(job, at_epoch_s)

    def reserving(self, job: QueuedJob, at_epoch_s: float) -> frozenset[str]:
        """Return the reservations of GPUs into whose windows a job would run, started now."""
        return self._node_limits.reserving(job, at_epoch_s)

    def node_cpus(
        self, jobs: Iterable[QueuedJob], details: Mapping[int, JobDetail], at_epoch_s: float
    ) -> Mapping[str, Mapping[NodeName, float]]:
        """Return what the running jobs of a queue dump leave of each of these on each node."""
        return self._node_limits.cpus_left(jobs, details, at_epoch_s)

    def preempts(self, job: QueuedJob) -> frozenset[str]:
        """Return the classes of running jobs that Slurm would stop for a job: see preempt_class."""
        match self.scheduling.preempt_type:
            case preempt if preempt == _BY_QOS:
                traits = self.qos_traits.get(job.qos)
                names = traits.preempts if traits is not None else frozenset()
                return frozenset(f"qos:{name}" for name in names if self._qos_frees(name))
            case preempt if preempt == _BY_PARTITION and job.partition in self.partitions:
                tier = self.partitions[job.partition].tier
                return frozenset(
                    f"partition:{one.name}"
                    for one in self.partitions.values()
                    if one.tier < tier and self._partition_frees(one.name)
                )
        return frozenset()

    def preempt_class(self, job: QueuedJob) -> str:
        """Return as what Slurm's preemption knows a job, "" where it would not free its GPUs."""
        by, partition = self.scheduling.preempt_type, job.partition.partition(",")[0]
        if by == _BY_QOS and job.qos and self._qos_frees(job.qos):
            return f"qos:{job.qos}"
        if by == _BY_PARTITION and self._partition_frees(partition):
            return f"partition:{partition}"
        return ""

    def preempt_exempt_s(self, job: QueuedJob) -> float:
        """Return for how long a job runs before Slurm may stop it for another one.

        The QoS says so whose limits come first, of those that say anything, else slurm.conf.
        """
        traits = (self.qos_traits.get(qos.name) for qos in self._quotas.qos_in_order(job))
        times = (one.preempt_exempt_s for one in traits if one is not None)
        said = next((time_s for time_s in times if time_s is not None), None)
        return self.scheduling.preempt_exempt_s if said is None else said

    @cached_property
    def _most_sockets(self) -> int:
        return max(self.socket_counts.values(), default=1)

    def _accounts(self, job: QueuedJob) -> Iterator[str]:
        yield job.account
        for one in self._quotas.associations(job):
            yield one.account

    def _qos_frees(self, name: str) -> bool:
        """Whether preempting a job of this QoS frees its GPUs."""
        traits, limits = self.qos_traits.get(name), self.accounting.qos.get(name)
        modes = {mode.upper() for mode in traits.preempt_modes} if traits is not None else set()
        if limits is not None and not modes:
            modes = set(limits.preempt_mode.split(","))
        modes -= {"CLUSTER", "OFF", "WITHIN", "GANG"}
        return not _FREEING.isdisjoint(modes or self.scheduling.preempt_modes)

    def _partition_frees(self, name: str) -> bool:
        """Whether preempting a job of this partition frees its GPUs."""
        partition = self.partitions.get(name)
        if partition is None:
            return False
        return not _FREEING.isdisjoint(partition.preempt_modes or self.scheduling.preempt_modes)


def _closed(partition: Partition) -> str | None:
    if partition.starts_jobs:
        return None
    reason = "PartitionDown" if partition.state == "DOWN" else "PartitionInactive"
    return f"{reason}: partition {partition.name} is {partition.state}"


def _not_allowed(partition: Partition, job: QueuedJob, accounts: Iterable[str]) -> str | None:
    """Return that a partition refuses a job's account or QoS.

    An account below an allowed one counts as allowed: releases differ in that.
    """
    if job.account:
        allowed, denied = partition.allowed_accounts, partition.denied_accounts
        is_denied = job.account in denied if allowed is None else allowed.isdisjoint(accounts)
        if is_denied:
            return f"AccountNotAllowed: {job.account} in partition {partition.name}"
    if job.qos:
        allowed, denied = partition.allowed_qos, partition.denied_qos
        if job.qos in denied if allowed is None else job.qos not in allowed:
            return f"QOSNotAllowed: {job.qos} in partition {partition.name}"
    return None


def _too_many_cpus(
    partition: Partition, job: QueuedJob, detail: JobDetail | None, most_sockets: int
) -> str | None:
    """Return that a job asks for more CPUs of a node than all jobs of a partition may have there.

    Slurm names no reason of its own for that: the job waits for resources. A job that may have any
    number of nodes may spread.
    """
    most_nodes, by_socket = detail and detail.max_node_count, partition.max_cpus_per_socket
    by_node = [partition.max_cpus_per_node, by_socket and by_socket * most_sockets]
    most = min((count for count in by_node if count is not None), default=None)
    if most is None or not most_nodes or job.cpu_count <= most * most_nodes:
        return None
    return (
        f"Resources: {job.cpu_count} CPUs on {most_nodes} nodes, {most} of each node"
        f" in partition {partition.name}"
    )


def _too_large(
    partition: Partition, job: QueuedJob, least_nodes: int, flags: frozenset[str]
) -> str | None:
    most, longest_s = partition.max_node_count, partition.max_time_s
    if most is not None and least_nodes > most and PARTITION_MAX_NODES not in flags:
        return f"PartitionNodeLimit: {least_nodes} nodes, {most} in partition {partition.name}"
    limit_s = job.time_limit_s
    if None in (limit_s, longest_s) or PARTITION_TIME_LIMIT in flags:
        return None
    assert limit_s is not None
    assert longest_s is not None
    if limit_s > longest_s:
        return (
            f"PartitionTimeLimit: {limit_s / 60:g} minutes,"
            f" {longest_s / 60:g} in partition {partition.name}"
        )
    return None
