"""The jobs of the in-memory Slurm, and what they need on a node."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from roost_engine.domain.model import JobId, NodeName, NodeSpec
from roost_slurm.text.hostlist import compress, expand
from roost_slurm.text.scontrol import AllocatedNode, JobDetail
from roost_slurm.text.squeue import QueuedJob, SlurmJobState
from roost_slurm.text.tres import gpu_count, parse_gres, typed_indices


@dataclass(slots=True, kw_only=True)
class StandInJob:
    """A job's record, as slurmctld has it."""

    number: int
    job_id: JobId
    array_number: int | None
    user_id: int
    partition: str
    tres: dict[str, str]
    node_range: tuple[int, int | None]
    task_count: int
    cpus_per_task: int
    memory_per_node_bytes: int | None
    excluded_nodes: str
    required_nodes: str
    run_s: float | None
    submit_epoch_s: float
    begin_epoch_s: float
    admin_comment: str
    task_limit: int | None = None
    name: str = ""
    comment: str = ""
    qos: str = ""
    account: str = ""
    licenses: str = ""
    refuses_requeue: bool = False
    priority: int = 1
    nice: int = 0
    state: SlurmJobState = SlurmJobState.PENDING
    reason: str = ""
    restart_count: int = 0
    start_epoch_s: float = 0.0
    allocated: tuple[AllocatedNode, ...] = ()

    @property
    def node_count(self) -> int:
        """The nodes that it holds, or the fewest that it asks for."""
        return len(self.allocated) or self.node_range[0]


@dataclass(slots=True)
class FreeNode:
    """The free resources of one node."""

    gpus: set[int]
    cpu_count: int
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a job needs on each of its nodes."""

    gpu_indices: tuple[int, ...]  # empty: any
    gpu_count: int
    cpu_count: int
    memory_bytes: int
    excluded: frozenset[str] = field(default_factory=frozenset)

    @classmethod
    def of(cls, job: StandInJob, node_count: int) -> "Wanted | None":
        """Return the needs on each of `node_count` nodes; None: the GPUs do not divide evenly."""
        counts = {name: gpu_count(parse_gres(text)) for name, text in job.tres.items()}
        total = counts.get("TresPerJob", 0) + counts.get("TresPerTask", 0) * job.task_count
        if total % node_count:
            return None
        typed = [typed_indices(parse_gres(text)) for text in job.tres.values()]
        return cls(
            gpu_indices=next(filter(None, typed), ()),
            gpu_count=counts.get("TresPerNode", 0) + total // node_count,
            cpu_count=-(-job.task_count * job.cpus_per_task // node_count),
            memory_bytes=job.memory_per_node_bytes or 0,
            excluded=frozenset(expand(job.excluded_nodes)),
        )

    def on(self, spec: NodeSpec, free: FreeNode, job: StandInJob) -> AllocatedNode | None:
        """Return what the job would get on a node; None: it does not fit there."""
        is_barred = spec.name in self.excluded or not spec.usable
        if is_barred or job.partition not in spec.partitions:
            return None
        if free.cpu_count < self.cpu_count or free.memory_bytes < self.memory_bytes:
            return None
        gpus = self.gpu_indices or tuple(sorted(free.gpus))[: self.gpu_count]
        if len(gpus) < self.gpu_count or not set(gpus) <= free.gpus:
            return None
        return AllocatedNode(spec.name, gpus, self.cpu_count, self.memory_bytes)


def free_on(
    nodes: Mapping[NodeName, NodeSpec], jobs: Iterable[StandInJob]
) -> dict[NodeName, FreeNode]:
    """Return what the jobs leave free on each node."""
    free = {
        name: FreeNode(set(range(spec.gpu_count)), spec.cpu_count, spec.memory_bytes)
        for name, spec in nodes.items()
    }
    for job in jobs:
        hold(free, job.allocated)
    return free


def hold(free: Mapping[NodeName, FreeNode], allocated: Iterable[AllocatedNode]) -> None:
    """Take what a job holds out of what is free."""
    for node in allocated:
        left = free[NodeName(node.node)]
        left.gpus -= set(node.gpu_indices)
        left.cpu_count -= node.cpu_count
        left.memory_bytes -= node.memory_bytes


def allocate(
    job: StandInJob, nodes: Mapping[NodeName, NodeSpec], free: Mapping[NodeName, FreeNode]
) -> tuple[AllocatedNode, ...] | None:
    """Choose nodes and GPUs as Slurm would; None where the job does not fit now."""
    required = set(expand(job.required_nodes))
    for node_count in _node_counts(job, len(required), len(nodes)):
        wanted = Wanted.of(job, node_count)
        if wanted is None:
            continue
        fitting = [
            node
            for name, left in free.items()
            if (node := wanted.on(nodes[name], left, job)) is not None
        ]
        names = {node.node for node in fitting}
        if len(fitting) < node_count or not names.issuperset(required):
            continue
        others = [node.node for node in fitting if node.node not in required]
        chosen = {*required, *others[: node_count - len(required)]}
        return tuple(node for node in fitting if node.node in chosen)
    return None


def _node_counts(job: StandInJob, required_count: int, all_count: int) -> range:
    least, most = job.node_range
    least = max(least, required_count, 1)
    if most is None:
        most = all_count if "TresPerJob" in job.tres else least
    return range(least, most + 1)


def queued(job: StandInJob) -> QueuedJob:
    """Return a job as squeue shows it."""
    task = job.job_id.partition("_")[2]
    return QueuedJob(
        number=job.number,
        array_number=job.array_number,
        task_ids=(int(task),) if task else (),
        user_id=job.user_id,
        partition=job.partition,
        state=job.state,
        reason=job.reason,
        priority=job.priority,
        nice=job.nice,
        submit_epoch_s=job.submit_epoch_s,
        start_epoch_s=job.start_epoch_s or job.begin_epoch_s,
        eligible_epoch_s=job.begin_epoch_s,
        node_count=job.node_count,
        task_count=job.task_count,
        cpu_count=job.task_count * job.cpus_per_task,
        cpus_per_task=job.cpus_per_task,
        tres=tuple(job.tres.items()),
        tres_total=_tres_total(job),
        account=job.account,
        qos=job.qos,
        licenses=job.licenses,
        required_nodes=job.required_nodes,
        nodes=compress(node.node for node in job.allocated),
        over_subscribe="OK",
        restart_count=job.restart_count,
        admin_comment=job.admin_comment,
    )


def _tres_total(job: StandInJob) -> str:
    """Return what squeue shows of all the job's resources: what it holds, or the least it needs."""
    if job.allocated:
        nodes = job.allocated
        cpus, gpus = sum(n.cpu_count for n in nodes), sum(len(n.gpu_indices) for n in nodes)
    else:
        counts = {name: gpu_count(parse_gres(text)) for name, text in job.tres.items()}
        gpus = counts.get("TresPerJob", 0) + counts.get("TresPerTask", 0) * job.task_count
        gpus += counts.get("TresPerNode", 0) * job.node_count
        cpus = job.task_count * job.cpus_per_task
    return f"cpu={cpus},node={job.node_count},gres/gpu={gpus}"


def detail(job: StandInJob) -> JobDetail:
    """Return a job as scontrol shows it."""
    return JobDetail(
        number=job.number,
        state=job.state,
        reason=job.reason,
        is_held=job.priority == 0,
        min_node_count=job.node_range[0],
        max_node_count=job.node_range[1],
        excluded_nodes=job.excluded_nodes,
        required_nodes=job.required_nodes,
        tres=dict(job.tres),
        memory_per_node_bytes=job.memory_per_node_bytes,
        task_limit=job.task_limit,
        name=job.name,
        comment=job.comment,
        qos=job.qos,
        admin_comment=job.admin_comment,
        allocated=job.allocated,
    )
