"""Short ways to say nodes, jobs and link matrices, and a driver that plays Slurm for an engine."""

from collections.abc import Iterable, Sequence

from roost_engine.domain.actions import Action, LetGo, Place, Preempt, Wait, WakeAt
from roost_engine.domain.events import (
    Event,
    JobEnded,
    JobQueued,
    JobsStopped,
    JobStarted,
    NodeSeen,
    PlacementRefused,
    PreemptionRefused,
    Tick,
    TopologySeen,
)
from roost_engine.domain.model import (
    GpuUuid,
    JobId,
    JobSpec,
    NodeName,
    NodeShare,
    NodeSpec,
    Placement,
    Shape,
)
from roost_engine.domain.topology import Level, Link, LinkMatrix
from roost_engine.engine import Engine, EngineConfig
from roost_engine.job_record import JobRecord, JobState, shares_of
from roost_engine.plugins import Policies

GIB = 1 << 30


def node(
    name: str,
    gpu_count: int = 8,
    *,
    cpu_count: int = 64,
    memory_bytes: int = 512 * GIB,
    partitions: Sequence[str] = ("main",),
    rack: str = "",
    features: Sequence[str] = (),
    usable: bool = True,
) -> NodeSpec:
    """Describe a node: 8 GPUs, 64 CPUs and 512 GiB in partition "main" unless said otherwise."""
    return NodeSpec(
        name=NodeName(name),
        gpu_count=gpu_count,
        cpu_count=cpu_count,
        memory_bytes=memory_bytes,
        partitions=tuple(partitions),
        rack=rack,
        features=tuple(features),
        usable=usable,
    )


def shape(
    gpus_per_node: int, node_count: int = 1, *, cpus_per_node: int = 1, memory_bytes: int = 0
) -> Shape:
    """Describe one way to spread a job; `memory_bytes` is per node."""
    return Shape(
        node_count=node_count,
        gpus_per_node=gpus_per_node,
        cpus_per_node=cpus_per_node,
        memory_per_node_bytes=memory_bytes,
    )


def job(
    job_id: str,
    *shapes: Shape,
    gpus: int = 1,
    nodes: int = 1,
    user_id: int = 1000,
    partition: str = "main",
    priority: int = 0,
    submit_s: float = 0.0,
    eligible_s: float = 0.0,
    time_limit_s: float | None = None,
    features: Sequence[str] = (),
    required: Sequence[str] = (),
    excluded: Sequence[str] = (),
    binding: bool = True,
) -> JobSpec:
    """Describe a waiting job: the given shapes or, without any, `gpus` on each of `nodes`."""
    return JobSpec(
        job_id=JobId(job_id),
        user_id=user_id,
        partition=partition,
        shapes=shapes or (shape(gpus, nodes),),
        priority=priority,
        submit_s=submit_s,
        eligible_s=eligible_s,
        time_limit_s=time_limit_s,
        features=tuple(features),
        required_nodes=tuple(NodeName(name) for name in required),
        excluded_nodes=tuple(NodeName(name) for name in excluded),
        binding=binding,
    )


def waiting(spec: JobSpec, queued_s: float = 0.0) -> JobRecord:
    """What the engine knows of a job that waits."""
    return JobRecord(spec=spec, state=JobState.WAITING, queued_s=queued_s)


def share(name: str, *gpu_indices: int, cpu_count: int = 1, memory_bytes: int = 0) -> NodeShare:
    """What a job holds on one node."""
    return NodeShare(NodeName(name), tuple(gpu_indices), cpu_count, memory_bytes)


def bridges(gpu_count: int = 8, lane_count: int = 4) -> LinkMatrix:
    """NVLink bridges 0-1, 2-3, ...; the first half of the GPUs on one socket, the rest on another.

    Args:
        gpu_count: an even number.
        lane_count: NVLink lanes of each bridge.
    """

    def link(a: int, b: int) -> Link | None:
        if a == b:
            return None
        near = (a < gpu_count // 2) == (b < gpu_count // 2)
        return Link(Level.NUMA_NODE if near else Level.SYSTEM, lane_count * (a // 2 == b // 2))

    every = range(gpu_count)
    return LinkMatrix(tuple(tuple(link(a, b) for b in every) for a in every))


def nvswitch(gpu_count: int = 8, lane_count: int = 18) -> LinkMatrix:
    """Every pair linked alike."""
    return LinkMatrix.uniform(gpu_count, Link(Level.NUMA_NODE, lane_count))


def topology(name: str, links: LinkMatrix, at_s: float = 0.0) -> TopologySeen:
    """What the probe of a node tells when it connects."""
    uuids = tuple(GpuUuid(f"GPU-{name}-{index}") for index in range(links.gpu_count))
    return TopologySeen(at_s=at_s, name=NodeName(name), links=links, gpu_uuids=uuids)


class EngineHarness:
    """Feeds an engine, records what it answers, and does what Slurm would do about it.

    Attributes:
        engine: the engine.
        now_s: engine time of the next event.
        events: what was fed, in order.
        actions: what came back, in order.
        wake_at_s: when the engine asked to be woken; None: it did not.
    """

    def __init__(
        self,
        nodes: Iterable[NodeSpec] = (),
        links: LinkMatrix | None = None,
        *,
        config: EngineConfig | None = None,
        policies: Policies | None = None,
    ) -> None:
        """Make a cluster of some nodes, all linked alike.

        Args:
            nodes: seen at time 0.
            links: of every node that has as many GPUs; None: no probe has told.
            config: the engine's numbers.
            policies: the engine's plug-ins.
        """
        self.engine = Engine(config or EngineConfig(), policies or Policies())
        self.now_s = 0.0
        self.events: list[Event] = []
        self.actions: list[Action] = []
        self.wake_at_s: float | None = None
        for spec in nodes:
            self.feed(NodeSeen(at_s=self.now_s, node=spec))
            if links is not None and links.gpu_count == spec.gpu_count:
                self.feed(topology(spec.name, links, self.now_s))

    def feed(self, event: Event) -> tuple[Action, ...]:
        """Step the engine by one event and move the time to it."""
        self.now_s = event.at_s
        self.events.append(event)
        if self.wake_at_s is not None and self.wake_at_s <= event.at_s:
            self.wake_at_s = None
        actions = self.engine.step(event)
        self.actions += actions
        for action in actions:
            if isinstance(action, WakeAt):
                self.wake_at_s = action.at_s
        return actions

    def queue(self, *specs: JobSpec) -> tuple[Action, ...]:
        """Submit some jobs now. Returns the answers to all of them."""
        return sum((self.feed(JobQueued(at_s=self.now_s, job=spec)) for spec in specs), ())

    def start(self, *job_ids: str) -> None:
        """Let Slurm start placed jobs as planned: these, or every one."""
        for job_id, record in list(self.engine.records()):
            if record.state is JobState.PLACING and (not job_ids or job_id in job_ids):
                assert record.placement is not None
                shares = shares_of(record.placement)
                self.feed(JobStarted(at_s=self.now_s, job_id=job_id, shares=shares))

    def run(self, *specs: JobSpec) -> tuple[Action, ...]:
        """Submit some jobs and let Slurm start what was placed. Returns the engine's answers."""
        actions = self.queue(*specs)
        self.start()
        return actions

    def start_elsewhere(self, job_id: str, *shares: NodeShare) -> tuple[Action, ...]:
        """Let Slurm start a job on shares of its own choice."""
        return self.feed(JobStarted(at_s=self.now_s, job_id=JobId(job_id), shares=shares))

    def refuse(self, job_id: str, reason: str = "node busy") -> tuple[Action, ...]:
        """Let Slurm refuse a placed job."""
        return self.feed(PlacementRefused(at_s=self.now_s, job_id=JobId(job_id), reason=reason))

    def stop(self, *job_ids: str) -> tuple[Action, ...]:
        """Let Slurm have stopped running jobs: they wait again."""
        stopped = tuple(JobId(job_id) for job_id in job_ids)
        return self.feed(JobsStopped(at_s=self.now_s, job_ids=stopped))

    def refuse_stop(self, job_id: str, reason: str = "not permitted") -> tuple[Action, ...]:
        """Let Slurm refuse to stop a running job."""
        return self.feed(PreemptionRefused(at_s=self.now_s, job_id=JobId(job_id), reason=reason))

    def end(self, job_id: str) -> tuple[Action, ...]:
        """Let a job end now."""
        return self.feed(JobEnded(at_s=self.now_s, job_id=JobId(job_id)))

    def advance(self, to_s: float) -> tuple[Action, ...]:
        """Let time pass: a Tick whenever the engine asked for one, up to and with `to_s`."""
        actions: tuple[Action, ...] = ()
        while self.wake_at_s is not None and self.wake_at_s <= to_s:
            actions += self.feed(Tick(at_s=max(self.wake_at_s, self.now_s)))
        self.now_s = max(self.now_s, to_s)
        return actions

    def state(self, job_id: str) -> JobState:
        """Where a job stands."""
        return self.engine.find(JobId(job_id)).state

    def placement(self, job_id: str) -> Placement:
        """What was last chosen for a job."""
        placement = self.engine.record(JobId(job_id)).placement
        assert placement is not None, f"{job_id} was not placed"
        return placement

    def gpus(self, job_id: str) -> tuple[str, ...]:
        """Every GPU that was chosen for a job, as "node:index"."""
        pairs = self.placement(job_id).by_node()
        return tuple(f"{name}:{gpu}" for name, indices in pairs for gpu in indices)

    def reason(self, job_id: str) -> str:
        """Why a job is in its state."""
        return self.engine.find(JobId(job_id)).reason


def placed(actions: Iterable[Action]) -> dict[str, Placement]:
    """Which jobs some actions place, and where."""
    return {action.job_id: action.placement for action in actions if isinstance(action, Place)}


def waits(actions: Iterable[Action]) -> dict[str, Wait]:
    """The last word to each job that some actions keep waiting."""
    return {action.job_id: action for action in actions if isinstance(action, Wait)}


def preempted(actions: Iterable[Action]) -> dict[str, str | None]:
    """Which jobs some actions stop, and for whom."""
    return {action.job_id: action.for_job for action in actions if isinstance(action, Preempt)}


def let_go(actions: Iterable[Action]) -> dict[str, str]:
    """Which jobs some actions hand back to plain Slurm, and why."""
    return {action.job_id: action.reason for action in actions if isinstance(action, LetGo)}
