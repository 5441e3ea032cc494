"""A fake roostd for tests: a real gRPC server on a UNIX socket, and builders for its answers."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn, TypeVar

import grpc

from roost_proto.v1 import operator_pb2 as pb
from roost_proto.v1 import telemetry_pb2
from roost_proto.v1.operator_pb2_grpc import OperatorServicer, add_OperatorServicer_to_server

_Item = TypeVar("_Item")

GIB = 1 << 30
BRIDGED_PAIRS = ((0, 1), (2, 3), (4, 5), (6, 7))


@dataclass
class FakeOperator(OperatorServicer):
    """Answers from dictionaries, and records the method names it was asked.

    Attributes:
        failure: when set, every call fails with this code and message.
        may_answer: while cleared, calls hang; `serve` sets it at the end.
    """

    status: pb.Status = field(default_factory=lambda: build_status())
    nodes: dict[str, pb.Node] = field(default_factory=dict)
    topologies: dict[str, pb.Topology] = field(default_factory=dict)
    jobs: dict[str, pb.Job] = field(default_factory=dict)
    explanations: dict[str, pb.Explanation] = field(default_factory=dict)
    timers: pb.ListTimersResponse = field(
        default_factory=lambda: pb.ListTimersResponse(gate="open")
    )
    etas: pb.GetEtaResponse = field(
        default_factory=lambda: pb.GetEtaResponse(interval_frac=0.8, play_count=20)
    )
    failure: tuple[grpc.StatusCode, str] | None = None
    may_answer: threading.Event = field(default_factory=threading.Event)
    asked: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.may_answer.set()

    def add_node(self, node: pb.Node, topology: pb.Topology | None = None) -> None:
        """Add a node, and how its GPUs are linked."""
        self.nodes[node.name] = node
        if topology is not None:
            self.topologies[node.name] = topology

    def add_job(self, job: pb.Job, explanation: pb.Explanation | None = None) -> None:
        """Add a job, and how it was decided."""
        self.jobs[job.job_id] = job
        if explanation is not None:
            explanation.job.CopyFrom(job)
            self.explanations[job.job_id] = explanation

    def GetStatus(self, request: pb.GetStatusRequest, context: grpc.ServicerContext) -> pb.Status:
        """See operator.proto."""
        self._enter("GetStatus", context)
        return self.status

    def ListNodes(
        self, request: pb.ListNodesRequest, context: grpc.ServicerContext
    ) -> pb.ListNodesResponse:
        """See operator.proto."""
        self._enter("ListNodes", context)
        return pb.ListNodesResponse(nodes=self.nodes.values())

    def GetNode(self, request: pb.GetNodeRequest, context: grpc.ServicerContext) -> pb.Node:
        """See operator.proto."""
        self._enter("GetNode", context)
        return _found(self.nodes, request.name, "node named", context)

    def GetTopology(
        self, request: pb.GetTopologyRequest, context: grpc.ServicerContext
    ) -> pb.Topology:
        """See operator.proto."""
        self._enter("GetTopology", context)
        if request.node in self.nodes and request.node not in self.topologies:
            context.abort(
                grpc.StatusCode.FAILED_PRECONDITION,
                f"node {request.node} has no probe: start roost-probe there",
            )
        return _found(self.topologies, request.node, "node named", context)

    def ListJobs(
        self, request: pb.ListJobsRequest, context: grpc.ServicerContext
    ) -> pb.ListJobsResponse:
        """See operator.proto."""
        self._enter("ListJobs", context)
        return pb.ListJobsResponse(
            jobs=[
                job
                for job in self.jobs.values()
                if request.include_ended or job.state != pb.JOB_STATE_ENDED
            ]
        )

    def GetJob(self, request: pb.GetJobRequest, context: grpc.ServicerContext) -> pb.Job:
        """See operator.proto."""
        self._enter("GetJob", context)
        return _found(self.jobs, request.job_id, "job", context)

    def ExplainJob(
        self, request: pb.ExplainJobRequest, context: grpc.ServicerContext
    ) -> pb.Explanation:
        """See operator.proto."""
        self._enter("ExplainJob", context)
        return _found(self.explanations, request.job_id, "job", context)

    def ListTimers(
        self, request: pb.ListTimersRequest, context: grpc.ServicerContext
    ) -> pb.ListTimersResponse:
        """See operator.proto."""
        self._enter("ListTimers", context)
        return self.timers

    def GetEta(self, request: pb.GetEtaRequest, context: grpc.ServicerContext) -> pb.GetEtaResponse:
        """See operator.proto."""
        self._enter("GetEta", context)
        known = {one.job_id: one for one in self.etas.etas}
        answer = pb.GetEtaResponse()
        answer.CopyFrom(self.etas)
        if request.job_id:
            del answer.etas[:]
            answer.etas.append(_found(known, request.job_id, "job", context))
        return answer

    def _enter(self, method: str, context: grpc.ServicerContext) -> None:
        self.asked.append(method)
        self.may_answer.wait()
        if self.failure is not None:
            context.abort(*self.failure)


def _found(items: Mapping[str, _Item], key: str, noun: str, context: grpc.ServicerContext) -> _Item:
    item = items.get(key)
    return _refuse(context, f"no {noun} {key!r}") if item is None else item


def _refuse(context: grpc.ServicerContext, message: str) -> NoReturn:
    context.abort(grpc.StatusCode.NOT_FOUND, message)


@contextmanager
def serve(operator: FakeOperator, socket_path: Path, reflection: bool = False) -> Iterator[str]:
    """Run the fake on a UNIX socket; yields the address to give to `--daemon`.

    Args:
        operator: what answers.
        socket_path: at most 107 bytes, as the kernel wants it.
        reflection: also describe the service to clients that have no stubs.
    """
    server = grpc.server(ThreadPoolExecutor(max_workers=4))
    add_OperatorServicer_to_server(operator, server)
    if reflection:
        from grpc_reflection.v1alpha.reflection import enable_server_reflection  # the daemon extra

        names = (pb.DESCRIPTOR.services_by_name["Operator"].full_name,)
        enable_server_reflection(names, server)
    address = f"unix:{socket_path}"
    server.add_insecure_port(address)
    server.start()
    try:
        yield address
    finally:
        operator.may_answer.set()
        server.stop(grace=None).wait()


def build_status(slurm_fault: str = "", policy_fault: str = "") -> pb.Status:
    """Make the status of a small cluster in which only `main` is enforced."""
    return pb.Status(
        version="0.1.0",
        cluster="alpha",
        uptime_s=93784.0,
        default_mode=pb.MODE_SHADOW,
        partitions=[pb.PartitionMode(partition="main", mode=pb.MODE_ENFORCE)],
        policy_model="builtin",
        policy_sha256="a1b2c3d4e5f6a7b8" * 4,
        policy_fault=policy_fault,
        node_count=4,
        probe_count=3,
        gpu_count=32,
        gpu_free_count=17,
        waiting_job_count=2,
        running_job_count=6,
        decision_count=1234,
        fallback_count=5,
        refused_count=1,
        slurm_version="22.05.8",
        slurm_fault=slurm_fault,
        slots=build_slots(),
        stack="default",
        placement="common-shapes",
        left_jobs=[
            pb.LeftJobs(reason="asks for whole nodes", job_count=12),
            pb.LeftJobs(reason="partition debug is off", job_count=1),
        ],
    )


def build_slots(gate_faults: int = 0, reason: str = "") -> list[pb.SlotPolicy]:
    """Make the policies of a daemon with a delay gate and a model.

    Args:
        gate_faults: how often the gate has failed.
        reason: why it failed the last time.
    """
    return [
        pb.SlotPolicy(slot="order", policy="priority", heuristic="priority"),
        pb.SlotPolicy(
            slot="gate",
            policy="uplink-delay",
            heuristic="open",
            fault_count=gate_faults,
            last_fault=reason,
        ),
        pb.SlotPolicy(slot="score", policy="onnx:a1b2c3d4e5f6", heuristic="heuristic"),
        pb.SlotPolicy(slot="preemption", policy="none", heuristic="none"),
    ]


def build_gpu(
    index: int, job_id: str = "", fault: str = "", is_measured: bool = True
) -> pb.NodeGpu:
    """Make a GPU: held by `job_id` or free; with the load of a busy or idle one, or none known."""
    gpu = pb.NodeGpu(
        index=index,
        uuid=f"GPU-{index:08x}",
        model="NVIDIA A100-SXM4-80GB",
        free=not job_id,
        job_id=job_id,
        fault=fault,
    )
    if is_measured:
        gpu.sm_frac = 0.87 if job_id else 0.0
        gpu.memory_activity_frac = 0.3 if job_id else 0.0
        gpu.memory_used_bytes = (60 if job_id else 0) * GIB
        gpu.memory_bytes = 80 * GIB
        gpu.power_w = 312.5 if job_id else 58.25
        gpu.temperature_c = 64 if job_id else 31
    return gpu


def build_node(
    name: str,
    holders: Mapping[int, str] | None = None,
    faults: Mapping[int, str] | None = None,
    gpu_count: int = 8,
    has_probe: bool = True,
    problems: Sequence[str] = (),
) -> pb.Node:
    """Make a node.

    Args:
        name: its name.
        holders: GPU index to the job that holds it.
        faults: GPU index to what is wrong with it.
        gpu_count: how many GPUs.
        has_probe: without one nothing is known about load.
        problems: what the probe complains about.
    """
    holders, faults = holders or {}, faults or {}
    node = pb.Node(
        name=name,
        rack="r1",
        usable=True,
        slurm_state="mixed" if holders else "idle",
        partitions=["main", "debug"],
        cpu_count=64,
        cpu_free_count=64 - 8 * len(holders),
        memory_bytes=512 * GIB,
        memory_free_bytes=(512 - 60 * len(holders)) * GIB,
        gpus=[
            build_gpu(index, holders.get(index, ""), faults.get(index, ""), has_probe)
            for index in range(gpu_count)
        ],
        problems=problems,
    )
    if has_probe:
        node.sample_age_s = 0.4
    return node


def build_topology(
    name: str,
    gpu_count: int = 8,
    pairs: Sequence[tuple[int, int]] = BRIDGED_PAIRS,
    nic_count: int = 2,
) -> pb.Topology:
    """Make a two-socket node with NVLink bridges between the given pairs, and NICs."""
    half = gpu_count // 2
    topology = pb.Topology(node=name)
    for index in range(gpu_count):
        topology.gpus.add(
            index=index,
            uuid=f"GPU-{index:08x}",
            pci_bus_id=f"00000000:{index + 1:02X}:00.0",
            model="NVIDIA A100-SXM4-80GB",
            memory_bytes=80 * GIB,
            minor_number=index,
            numa_node=index // half,
            cpu_affinity="0-31" if index < half else "32-63",
        )
    for a in range(gpu_count):
        for b in range(a + 1, gpu_count):
            is_near = a // half == b // half
            near, far = telemetry_pb2.ANCESTOR_LEVEL_NUMA_NODE, telemetry_pb2.ANCESTOR_LEVEL_SYSTEM
            lanes = 4 if (a, b) in pairs else 0
            topology.links.add(a=a, b=b, level=near if is_near else far, nvlink_count=lanes)
    for position in range(nic_count):
        topology.nics.add(
            name=f"mlx5_{position}",
            pci_bus_id=f"00000000:{position + 64:02X}:00.0",
            numa_node=position % 2,
            gpu_levels=[
                telemetry_pb2.ANCESTOR_LEVEL_SINGLE_SWITCH
                if index // half == position % 2
                else telemetry_pb2.ANCESTOR_LEVEL_SYSTEM
                for index in range(gpu_count)
            ],
        )
    return topology


def build_job(
    job_id: str,
    state: pb.JobState.ValueType = pb.JOB_STATE_RUNNING,
    gpu_count: int = 2,
    shares: Mapping[str, Sequence[int]] | None = None,
    reason: str = "",
    wait_left_s: float | None = None,
    link_scores: tuple[int, int] | None = None,
    user_id: int | None = 60001,
    standing: pb.StandingPin | None = None,
    turn: pb.Turn | None = None,
    expected_run: pb.ExpectedTime | None = None,
) -> pb.Job:
    """Make a job.

    Args:
        job_id: its id.
        state: where it stands.
        gpu_count: what it asks for.
        shares: node to GPU indices; planned, and allocated too once it runs.
        reason: why it is in this state.
        wait_left_s: until when it waits at most.
        link_scores: its own and the best possible.
        user_id: by default one without a login name, so that goldens show the number; None: the
            daemon does not know the user.
        standing: where it waits in Slurm.
        turn: where it is in the queue.
        expected_run: how long it may run.
    """
    planned = [pb.NodeAllocation(node=n, gpu_indices=i) for n, i in (shares or {}).items()]
    has_run = state in (pb.JOB_STATE_RUNNING, pb.JOB_STATE_ENDED)
    job = pb.Job(
        job_id=job_id,
        user_id=user_id,
        partition="main",
        state=state,
        reason=reason,
        gpu_count=gpu_count,
        waited_s=0.42 if has_run else 75.0,
        planned=planned,
        allocated=planned if has_run else [],
        standing=standing,
        turn=turn,
        expected_run=expected_run,
    )
    if wait_left_s is not None:
        job.wait_left_s = wait_left_s
    if link_scores is not None:
        job.link_score, job.best_link_score = link_scores
    return job


def build_candidate(
    nodes: Sequence[str],
    gpu_indices: Sequence[int],
    score: float,
    link_score: int,
    why_not: str = "",
) -> pb.Candidate:
    """Make a candidate with two policy inputs; the chosen one has no `why_not`."""
    return pb.Candidate(
        nodes=nodes,
        gpu_indices=gpu_indices,
        score=score,
        link_score=link_score,
        features={"link_frac": link_score / 400, "tier_frac": 0.0},
        why_not=why_not,
    )
