"""The JSON that roostctl prints, one TypedDict a shape. docs/roostctl.md describes every key.

Keys keep the order in which they stand here. Base units; null for what is not known or does not
apply; a schema's number rises when a key changes meaning or goes, not when one is added.
"""

import math
from typing import TypedDict

from google.protobuf.descriptor import EnumDescriptor
from google.protobuf.message import Message

from roost_proto.v1 import operator_pb2 as pb
from roost_proto.v1 import telemetry_pb2

FLOAT32_DIGITS = 7  # more would show 0.3 as 0.30000001192092896


class PartitionDocument(TypedDict):
    """The mode of one partition."""

    partition: str
    mode: str | None


class StatusDocument(TypedDict):
    """`roostctl status --json`."""

    schema: str
    version: str
    cluster: str | None
    uptime_s: float | None
    default_mode: str | None
    partitions: list[PartitionDocument]
    policy_model: str | None
    policy_sha256: str | None
    policy_fault: str | None
    node_count: int
    probe_count: int
    gpu_count: int
    gpu_free_count: int
    waiting_job_count: int
    running_job_count: int
    decision_count: int
    fallback_count: int
    refused_count: int
    slurm_version: str | None
    slurm_fault: str | None


class GpuDocument(TypedDict):
    """One GPU of a node, by gres index."""

    index: int
    uuid: str | None
    model: str | None
    free: bool
    job_id: str | None
    fault: str | None
    sm_frac: float | None
    memory_activity_frac: float | None
    memory_used_bytes: int | None
    memory_bytes: int | None
    power_w: float | None
    temperature_c: float | None


class NodeDocument(TypedDict):
    """One node."""

    name: str
    rack: str | None
    usable: bool
    slurm_state: str | None
    partitions: list[str]
    cpu_count: int
    cpu_free_count: int
    memory_bytes: int
    memory_free_bytes: int
    gpus: list[GpuDocument]
    sample_age_s: float | None
    problems: list[str]


class NodesDocument(TypedDict):
    """`roostctl nodes --json`."""

    schema: str
    nodes: list[NodeDocument]


class OneNodeDocument(TypedDict):
    """`roostctl node NAME --json`."""

    schema: str
    node: NodeDocument


class TopologyGpuDocument(TypedDict):
    """One GPU as its probe described it."""

    index: int
    uuid: str | None
    pci_bus_id: str | None
    model: str | None
    memory_bytes: int | None
    minor_number: int | None
    numa_node: int | None
    cpu_affinity: str | None
    mig_enabled: bool | None
    free: bool | None
    job_id: str | None
    fault: str | None


class LinkDocument(TypedDict):
    """What connects GPUs a and b."""

    a: int
    b: int
    level: str | None
    nvlink_count: int
    nvswitch: bool


class NicDocument(TypedDict):
    """One network card; gpu_levels[i] is its distance to GPU i."""

    name: str
    pci_bus_id: str | None
    numa_node: int | None
    gpu_levels: list[str | None]


class TopologyDocument(TypedDict):
    """`roostctl topology NAME --json`."""

    schema: str
    node: str
    gpus: list[TopologyGpuDocument]
    links: list[LinkDocument]
    nics: list[NicDocument]


class AllocationDocument(TypedDict):
    """GPUs of one node."""

    node: str
    gpu_indices: list[int]


class JobDocument(TypedDict):
    """One job."""

    job_id: str
    user_id: int | None
    partition: str | None
    state: str | None
    reason: str | None
    gpu_count: int
    waited_s: float | None
    wait_left_s: float | None
    planned: list[AllocationDocument]
    allocated: list[AllocationDocument]
    link_score: int | None
    best_link_score: int | None


class JobsDocument(TypedDict):
    """`roostctl jobs --json`."""

    schema: str
    jobs: list[JobDocument]


class OneJobDocument(TypedDict):
    """`roostctl job ID --json`."""

    schema: str
    job: JobDocument


class CandidateDocument(TypedDict):
    """One scored place; features by name."""

    nodes: list[str]
    gpu_indices: list[int]
    score: float | None
    link_score: int
    features: dict[str, float | None]
    why_not: str | None


class ExclusionDocument(TypedDict):
    """How many nodes were ruled out for one reason."""

    reason: str
    node_count: int


class CommentDocument(TypedDict):
    """What a user tells of a job by its comment."""

    model: str | None
    checkpoint_s: float | None
    problems: list[str]


class SensitivityDocument(TypedDict):
    """What the delay gate believes of a job."""

    timer: str
    rack_frac: float | None
    across_frac: float | None
    source: str
    confidence_frac: float | None
    run_count: int


class TimerDocument(TypedDict):
    """How long jobs of one class wait."""

    name: str
    node_timer_s: float | None
    rack_timer_s: float | None
    sample_count: int
    waited_count: int
    censored_frac: float | None
    tuned_ago_s: float | None
    pinned_s: float | None
    dally_node_timer_s: float | None
    dally_rack_timer_s: float | None


class TimersDocument(TypedDict):
    """`roostctl timers --json`."""

    schema: str
    gate: str
    timers: list[TimerDocument]


class ExplainDocument(TypedDict):
    """`roostctl explain ID --json`."""

    schema: str
    job: JobDocument
    decided_ago_s: float | None
    policy: str | None
    fallback_reason: str | None
    candidates: list[CandidateDocument]
    exclusions: list[ExclusionDocument]
    comment: CommentDocument | None
    sensitivity: SensitivityDocument | None


def status_document(status: pb.Status) -> StatusDocument:
    """Schema roost.status/1."""
    return {
        "schema": "roost.status/1",
        "version": status.version,
        "cluster": status.cluster or None,
        "uptime_s": finite(status.uptime_s),
        "default_mode": mode_word(status.default_mode),
        "partitions": [
            {"partition": entry.partition, "mode": mode_word(entry.mode)}
            for entry in sorted(status.partitions, key=lambda entry: entry.partition)
        ],
        "policy_model": status.policy_model or None,
        "policy_sha256": status.policy_sha256 or None,
        "policy_fault": status.policy_fault or None,
        "node_count": status.node_count,
        "probe_count": status.probe_count,
        "gpu_count": status.gpu_count,
        "gpu_free_count": status.gpu_free_count,
        "waiting_job_count": status.waiting_job_count,
        "running_job_count": status.running_job_count,
        "decision_count": status.decision_count,
        "fallback_count": status.fallback_count,
        "refused_count": status.refused_count,
        "slurm_version": status.slurm_version or None,
        "slurm_fault": status.slurm_fault or None,
    }


def node_document(node: pb.Node) -> NodeDocument:
    """One node, as both `nodes` and `node` show it."""
    return {
        "name": node.name,
        "rack": node.rack or None,
        "usable": node.usable,
        "slurm_state": node.slurm_state or None,
        "partitions": list(node.partitions),
        "cpu_count": node.cpu_count,
        "cpu_free_count": node.cpu_free_count,
        "memory_bytes": node.memory_bytes,
        "memory_free_bytes": node.memory_free_bytes,
        "gpus": [_gpu_document(gpu) for gpu in sorted(node.gpus, key=lambda gpu: gpu.index)],
        "sample_age_s": _real(node, "sample_age_s"),
        "problems": list(node.problems),
    }


def _gpu_document(gpu: pb.NodeGpu) -> GpuDocument:
    return {
        "index": gpu.index,
        "uuid": gpu.uuid or None,
        "model": gpu.model or None,
        "free": gpu.free,
        "job_id": gpu.job_id or None,
        "fault": gpu.fault or None,
        "sm_frac": _real(gpu, "sm_frac"),
        "memory_activity_frac": _real(gpu, "memory_activity_frac"),
        "memory_used_bytes": _whole(gpu, "memory_used_bytes"),
        "memory_bytes": _whole(gpu, "memory_bytes"),
        "power_w": _real(gpu, "power_w"),
        "temperature_c": _real(gpu, "temperature_c"),
    }


def topology_document(topology: pb.Topology, node: pb.Node) -> TopologyDocument:
    """Schema roost.topology/1.

    Args:
        topology: what the probe told.
        node: the same node; tells which GPUs are free.
    """
    return {
        "schema": "roost.topology/1",
        "node": topology.node,
        "gpus": [
            _topology_gpu_document(gpu, gpu_of(node, gpu))
            for gpu in sorted(topology.gpus, key=lambda gpu: gpu.index)
        ],
        "links": [
            {
                "a": link.a,
                "b": link.b,
                "level": level_word(link.level),
                "nvlink_count": link.nvlink_count,
                "nvswitch": link.nvswitch,
            }
            for link in sorted(topology.links, key=lambda link: (link.a, link.b))
        ],
        "nics": [
            {
                "name": nic.name,
                "pci_bus_id": nic.pci_bus_id or None,
                "numa_node": _whole(nic, "numa_node"),
                "gpu_levels": [level_word(level) for level in nic.gpu_levels],
            }
            for nic in topology.nics
        ],
    }


def gpu_of(node: pb.Node, gpu: telemetry_pb2.Gpu) -> pb.NodeGpu | None:
    """Find the node's entry of a GPU: by UUID, because numberings differ; by index without one."""
    by_uuid = {entry.uuid: entry for entry in node.gpus if entry.uuid}
    if gpu.uuid and by_uuid:
        return by_uuid.get(gpu.uuid)
    return next((entry for entry in node.gpus if entry.index == gpu.index), None)


def _topology_gpu_document(gpu: telemetry_pb2.Gpu, entry: pb.NodeGpu | None) -> TopologyGpuDocument:
    return {
        "index": gpu.index,
        "uuid": gpu.uuid or None,
        "pci_bus_id": gpu.pci_bus_id or None,
        "model": gpu.model or None,
        "memory_bytes": _whole(gpu, "memory_bytes"),
        "minor_number": _whole(gpu, "minor_number"),
        "numa_node": _whole(gpu, "numa_node"),
        "cpu_affinity": gpu.cpu_affinity or None,
        "mig_enabled": gpu.mig_enabled if gpu.HasField("mig_enabled") else None,
        "free": entry.free if entry else None,
        "job_id": (entry.job_id or None) if entry else None,
        "fault": (entry.fault or None) if entry else None,
    }


def job_document(job: pb.Job) -> JobDocument:
    """One job, as `jobs`, `job` and `explain` show it."""
    return {
        "job_id": job.job_id,
        "user_id": _whole(job, "user_id"),
        "partition": job.partition or None,
        "state": job_state_word(job.state),
        "reason": job.reason or None,
        "gpu_count": job.gpu_count,
        "waited_s": finite(job.waited_s),
        "wait_left_s": _real(job, "wait_left_s"),
        "planned": [_allocation_document(share) for share in job.planned],
        "allocated": [_allocation_document(share) for share in job.allocated],
        "link_score": _whole(job, "link_score"),
        "best_link_score": _whole(job, "best_link_score"),
    }


def _allocation_document(share: pb.NodeAllocation) -> AllocationDocument:
    return {"node": share.node, "gpu_indices": list(share.gpu_indices)}


def explain_document(explanation: pb.Explanation) -> ExplainDocument:
    """Schema roost.explain/1."""
    return {
        "schema": "roost.explain/1",
        "job": job_document(explanation.job),
        "decided_ago_s": finite(explanation.decided_ago_s) if explanation.policy else None,
        "policy": explanation.policy or None,
        "fallback_reason": explanation.fallback_reason or None,
        "candidates": [
            {
                "nodes": list(candidate.nodes),
                "gpu_indices": list(candidate.gpu_indices),
                "score": finite(candidate.score, FLOAT32_DIGITS),
                "link_score": candidate.link_score,
                "features": {
                    name: finite(value, FLOAT32_DIGITS)
                    for name, value in sorted(candidate.features.items())
                },
                "why_not": candidate.why_not or None,
            }
            for candidate in explanation.candidates
        ],
        "exclusions": [
            {"reason": entry.reason, "node_count": entry.node_count}
            for entry in explanation.exclusions
        ],
        "comment": _comment(explanation) if explanation.HasField("comment") else None,
        "sensitivity": _sensitivity(explanation) if explanation.HasField("sensitivity") else None,
    }


def _comment(explanation: pb.Explanation) -> CommentDocument:
    said = explanation.comment
    return {
        "model": said.model or None,
        "checkpoint_s": _real(said, "checkpoint_s"),
        "problems": list(said.problems),
    }


def _sensitivity(explanation: pb.Explanation) -> SensitivityDocument:
    believed = explanation.sensitivity
    return {
        "timer": believed.timer,
        "rack_frac": finite(believed.rack_frac, FLOAT32_DIGITS),
        "across_frac": finite(believed.across_frac, FLOAT32_DIGITS),
        "source": believed.source,
        "confidence_frac": finite(believed.confidence_frac, FLOAT32_DIGITS),
        "run_count": believed.run_count,
    }


def timer_document(timer: pb.Timer) -> TimerDocument:
    """One class, as `timers` shows it."""
    return {
        "name": timer.name,
        "node_timer_s": finite(timer.node_timer_s),
        "rack_timer_s": finite(timer.rack_timer_s),
        "sample_count": timer.sample_count,
        "waited_count": timer.waited_count,
        "censored_frac": _real(timer, "censored_frac"),
        "tuned_ago_s": _real(timer, "tuned_ago_s"),
        "pinned_s": _real(timer, "pinned_s"),
        "dally_node_timer_s": finite(timer.dally_node_timer_s),
        "dally_rack_timer_s": finite(timer.dally_rack_timer_s),
    }


def mode_word(mode: int) -> str | None:
    """`enforce` for MODE_ENFORCE; None for unspecified."""
    return _enum_word(pb.Mode.DESCRIPTOR, mode)


def job_state_word(state: int) -> str | None:
    """`let_go` for JOB_STATE_LET_GO; None for unspecified."""
    return _enum_word(pb.JobState.DESCRIPTOR, state)


def level_word(level: int) -> str | None:
    """`numa_node` for ANCESTOR_LEVEL_NUMA_NODE; None for unspecified."""
    return _enum_word(telemetry_pb2.AncestorLevel.DESCRIPTOR, level)


def _enum_word(enum: EnumDescriptor, number: int) -> str | None:
    if number == 0:
        return None
    prefix = enum.values_by_number[0].name.removesuffix("UNSPECIFIED")
    value = enum.values_by_number.get(number)
    # A daemon newer than this program may know more values.
    return value.name.removeprefix(prefix).lower() if value else f"unknown_{number}"


def finite(value: float, digits: int | None = None) -> float | None:
    """JSON has neither NaN nor infinity: null."""
    if not math.isfinite(value):
        return None
    return float(f"{value:.{digits}g}") if digits else value


def _real(message: Message, field: str) -> float | None:
    if not message.HasField(field):
        return None
    kind = message.DESCRIPTOR.fields_by_name[field].type
    is_single = kind == message.DESCRIPTOR.fields_by_name[field].TYPE_FLOAT
    return finite(float(getattr(message, field)), FLOAT32_DIGITS if is_single else None)


def _whole(message: Message, field: str) -> int | None:
    return int(getattr(message, field)) if message.HasField(field) else None
