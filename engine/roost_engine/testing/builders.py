"""Builders of nodes, jobs and link matrices, and a harness that plays Slurm for an engine."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from roost_engine.domain.actions import Action, Place, Preempt, ReleaseToSlurm, Wait, WakeAt
from roost_engine.domain.events import (
    Event,
    JobEnded,
    JobQueued,
    JobsStopped,
    JobStarted,
    LoadsSeen,
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
from roost_engine.gate.delay import DelayGate
from roost_engine.job_record import JobRecord, JobState, shares_of
from roost_engine.plugins.plugins import Policies

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
    asleep: bool = False,
) -> NodeSpec:
    """Describe a node: 8 GPUs, 64 CPUs and 512 GiB in partition "main" unless given otherwise."""
    return NodeSpec(
        name=NodeName(name),
        gpu_count=gpu_count,
        cpu_count=cpu_count,
        memory_bytes=memory_bytes,
        partitions=tuple(partitions),
        rack=rack,
        features=tuple(features),
        usable=usable,
        asleep=asleep,
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
    """Return the record of a waiting job."""
    return JobRecord(spec=spec, state=JobState.WAITING, queued_s=queued_s)


def share(name: str, *gpu_indices: int, cpu_count: int = 1, memory_bytes: int = 0) -> NodeShare:
    """Describe what a job holds on one node."""
    return NodeShare(NodeName(name), tuple(gpu_indices), cpu_count, memory_bytes)


def bridges(gpu_count: int = 8, lane_count: int = 4) -> LinkMatrix:
    """Build a matrix of NVLink bridges 0-1, 2-3, ...; each half of the GPUs is on one socket.

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
    """Build a matrix in which every pair has the same NVLink lanes, as behind an NVSwitch."""
    return LinkMatrix.uniform(gpu_count, Link(Level.NUMA_NODE, lane_count))


def load_seen(*, at_s: float, name: NodeName, load: NDArray[np.float32]) -> LoadsSeen:
    """Return the event by which one node's load is reported: float32 [gpu, 4]."""
    return LoadsSeen(at_s=at_s, names=(name,), load=load[None])


def topology(name: str, links: LinkMatrix, at_s: float = 0.0) -> TopologySeen:
    """Return the event with which a node's probe reports the links when it connects."""
    uuids = tuple(GpuUuid(f"GPU-{name}-{index}") for index in range(links.gpu_count))
    return TopologySeen(at_s=at_s, name=NodeName(name), links=links, gpu_uuids=uuids)


class EngineHarness:
    """Feeds events to an engine, records its actions, and plays Slurm's part as a test says.

    Attributes:
        engine: the engine.
        now_s: engine time of the next event.
        events: every event fed, in order.
        actions: every action returned, in order.
        wake_at_s: the time of the pending WakeAt; None: the engine has asked for none.
    """

    def __init__(
        self,
        nodes: Iterable[NodeSpec] = (),
        links: LinkMatrix | None = None,
        *,
        config: EngineConfig | None = None,
        policies: Policies | None = None,
    ) -> None:
        """Make an engine with these nodes, which all have the same links.

        Args:
            nodes: the nodes that Slurm reports at time 0.
            links: reported for every node with as many GPUs; None: no probe has reported any.
            config: the engine's configuration.
            policies: the engine's policies.
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
        """Feed one event and set the time to that of the event. Returns the actions."""
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
        """Submit jobs now. Returns the actions of all the submissions."""
        return sum((self.feed(JobQueued(at_s=self.now_s, job=spec)) for spec in specs), ())

    def start(self, *job_ids: str) -> None:
        """Have Slurm start placed jobs as planned: those named, or all if none is named."""
        for job_id, record in list(self.engine.records()):
            if record.state is JobState.PLACING and (not job_ids or job_id in job_ids):
                assert record.placement is not None
                shares = shares_of(record.placement)
                self.feed(JobStarted(at_s=self.now_s, job_id=job_id, shares=shares))

    def run(self, *specs: JobSpec) -> tuple[Action, ...]:
        """Submit jobs and have Slurm start every placed job. Returns the submissions' actions."""
        actions = self.queue(*specs)
        self.start()
        return actions

    def start_elsewhere(self, job_id: str, *shares: NodeShare) -> tuple[Action, ...]:
        """Have Slurm start a job on other shares than planned."""
        return self.feed(JobStarted(at_s=self.now_s, job_id=JobId(job_id), shares=shares))

    def refuse(self, job_id: str, reason: str = "node busy") -> tuple[Action, ...]:
        """Have Slurm refuse to start a placed job."""
        return self.feed(PlacementRefused(at_s=self.now_s, job_id=JobId(job_id), reason=reason))

    def stop(self, *job_ids: str) -> tuple[Action, ...]:
        """Report that Slurm has stopped running jobs, which wait again."""
        stopped = tuple(JobId(job_id) for job_id in job_ids)
        return self.feed(JobsStopped(at_s=self.now_s, job_ids=stopped))

    def refuse_stop(self, job_id: str, reason: str = "not permitted") -> tuple[Action, ...]:
        """Have Slurm refuse to stop a running job."""
        return self.feed(PreemptionRefused(at_s=self.now_s, job_id=JobId(job_id), reason=reason))

    def end(self, job_id: str) -> tuple[Action, ...]:
        """Report that a job ends now."""
        return self.feed(JobEnded(at_s=self.now_s, job_id=JobId(job_id)))

    def advance(self, to_s: float) -> tuple[Action, ...]:
        """Let time pass up to and including `to_s`, with the Ticks that the engine asks for."""
        actions: tuple[Action, ...] = ()
        while self.wake_at_s is not None and self.wake_at_s <= to_s:
            actions += self.feed(Tick(at_s=max(self.wake_at_s, self.now_s)))
        self.now_s = max(self.now_s, to_s)
        return actions

    def state(self, job_id: str) -> JobState:
        """Return the state of a job."""
        return self.engine.find(JobId(job_id)).state

    def placement(self, job_id: str) -> Placement:
        """Return the placement that was last chosen for a job."""
        placement = self.engine.record(JobId(job_id)).placement
        assert placement is not None, f"{job_id} was not placed"
        return placement

    def gpus(self, job_id: str) -> tuple[str, ...]:
        """Return every GPU that was chosen for a job, as "node:index"."""
        pairs = self.placement(job_id).by_node()
        return tuple(f"{name}:{gpu}" for name, indices in pairs for gpu in indices)

    def reason(self, job_id: str) -> str:
        """Return the reason for a job's state."""
        return self.engine.find(JobId(job_id)).reason


def placed(actions: Iterable[Action]) -> dict[str, Placement]:
    """Return the jobs that these actions place, each with its placement."""
    return {action.job_id: action.placement for action in actions if isinstance(action, Place)}


def waits(actions: Iterable[Action]) -> dict[str, Wait]:
    """Return the last Wait among these actions, for each job that has one."""
    return {action.job_id: action for action in actions if isinstance(action, Wait)}


def preempted(actions: Iterable[Action]) -> dict[str, str | None]:
    """Return the jobs that these actions stop, each with the job for which it is stopped."""
    return {action.job_id: action.for_job for action in actions if isinstance(action, Preempt)}


def released(actions: Iterable[Action]) -> dict[str, str]:
    """Return the jobs that these actions release to plain Slurm, each with the reason."""
    return {
        action.job_id: action.reason for action in actions if isinstance(action, ReleaseToSlurm)
    }


def delay_policies(gate: DelayGate) -> Policies:
    """Return policies with a delay gate and what belongs to it, and the defaults for the rest."""
    policies = Policies(predictors=gate.predictors, gate=gate, timers=gate.timers)
    return replace(policies, learned=replace(policies.learned, gate=gate))
