"""Nodes, their GPUs and their links in the words of operator.proto."""

from collections.abc import Iterator, Sequence

from roost_engine.domain.errors import UnknownNode
from roost_engine.domain.model import JobId, NodeName
from roost_proto.v1 import operator_pb2 as pb
from roost_proto.v1 import telemetry_pb2 as telemetry_pb
from roostd.rpc.errors import UnknownTopology
from roostd.state import DaemonState
from roostd.telemetry.board import NodeReport
from roostd.telemetry.probe_messages import ProbeHello, column


def node_names(state: DaemonState) -> list[NodeName]:
    """Return every node that Slurm names, sorted."""
    cluster = state.engine.cluster
    return sorted(
        name for name, spec in zip(cluster.names, cluster.specs, strict=True) if spec is not None
    )


def holders(state: DaemonState) -> dict[tuple[NodeName, int], JobId]:
    """Return the jobs on each GPU that is not free: "12", or "12+13" where two jobs share it."""
    cluster, found = state.engine.cluster, dict[tuple[NodeName, int], JobId]()
    for job_id in cluster.held_jobs():
        for share in cluster.shares(job_id):
            for gpu in share.gpu_indices:
                before = found.get((share.node, gpu))
                found[share.node, gpu] = JobId(f"{before}+{job_id}") if before else job_id
    return found


def node(state: DaemonState, name: NodeName, held: dict[tuple[NodeName, int], JobId]) -> pb.Node:
    """Return one node.

    Raises:
        UnknownNode: Slurm does not name it.
    """
    cluster = state.engine.cluster
    row = cluster.index_of.get(name)
    spec = None if row is None else cluster.specs[row]
    if row is None or spec is None:
        raise UnknownNode(name)
    report = state.board.report(name)
    message = pb.Node(
        name=name,
        rack=spec.rack,
        usable=bool(cluster.usable[row]),
        slurm_state=state.node_states.get(name, ""),
        partitions=spec.partitions,
        cpu_count=spec.cpu_count,
        cpu_free_count=max(int(cluster.cpu_free[row]), 0),
        memory_bytes=spec.memory_bytes,
        memory_free_bytes=max(int(cluster.memory_free[row]), 0),
        problems=node_problems(state, name, spec.gpu_count, report),
        gpus=[
            pb.NodeGpu(
                index=gpu,
                job_id=held.get((name, gpu), ""),
                fault=cluster.faults.get((row, gpu), ""),
                free=bool(int(cluster.free_mask[row]) >> gpu & 1),
            )
            for gpu in range(spec.gpu_count)
        ],
    )
    if report is not None:
        message.sample_age_s = state.board.silent_s(report)
        _add_report(message, report)
    return message


def topology(state: DaemonState, name: NodeName) -> pb.Topology:
    """Return how a node's GPUs are linked, in gres order.

    Raises:
        UnknownNode: neither Slurm nor a probe has named it.
        UnknownTopology: no probe has reported it.
    """
    hello = _hello_with_gpus(state, name)
    gpus = []
    for index, gpu in enumerate(hello.gpus):
        numbered = telemetry_pb.Gpu()
        numbered.CopyFrom(gpu)
        numbered.index = index
        gpus.append(numbered)
    nics = []
    for nic in hello.nics:
        renumbered = telemetry_pb.Nic()
        renumbered.CopyFrom(nic)
        if len(nic.gpu_levels) == len(hello.order):
            renumbered.gpu_levels[:] = [nic.gpu_levels[nvml] for nvml in hello.order]
        nics.append(renumbered)
    links = [
        telemetry_pb.Link(
            a=a,
            b=b,
            level=telemetry_pb.AncestorLevel.ValueType(int(link.level)),
            nvlink_count=link.nvlink_count,
            nvswitch=(a, b) in hello.nvswitch_pairs,
        )
        for a, row in enumerate(hello.links.links)
        for b, link in enumerate(row)
        if a < b and link is not None
    ]
    return pb.Topology(node=name, gpus=gpus, links=links, nics=nics)


def _hello_with_gpus(state: DaemonState, name: NodeName) -> ProbeHello:
    report = state.board.report(name)
    if report is None:
        if name not in state.engine.cluster.index_of:
            raise UnknownNode(name)
        raise UnknownTopology(f"node {name} has no probe: start roost-probe there")
    if not report.hello.gpus:
        why = "; ".join(report.hello.problems) or "look at its log"
        raise UnknownTopology(f"the probe of node {name} sees no GPUs: {why}")
    return report.hello


def node_problems(
    state: DaemonState, name: NodeName, gpu_count: int, report: NodeReport | None
) -> Iterator[str]:
    """Yield what an operator should know of a node: of its GPUs in Slurm, and of its probe."""
    if not state.untyped_partitions().isdisjoint(state.untyped_nodes.get(name, ())):
        yield "its GPUs have no types g0, g1, ...: Roost gives none out; roost-slurm migrate --plan"
    if stranded := state.stranded_gpus.get(name):
        yield f"slurmctld counts {stranded} GPUs as used that no job has: scontrol reconfigure"
    if report is None:
        yield "no probe: links and load are unknown"
        return
    silent_s = state.board.silent_s(report)
    if silent_s > state.config.telemetry.stale_after_s:
        yield f"the probe has been silent for {silent_s:.0f} s"
    if not report.hello.gpus:
        yield f"the probe sees no GPUs, Slurm {gpu_count}: links and load are not known"
    elif len(report.hello.gpus) != gpu_count:
        yield (
            f"the probe sees {len(report.hello.gpus)} GPUs, Slurm {gpu_count}:"
            " links and load are not used; check gres.conf"
        )
    yield from report.hello.problems
    for gpu in range(gpu_count):
        if (name, gpu) in state.foreign:
            used_gib = state.foreign[name, gpu].memory.used_bytes / (1 << 30)
            yield f"GPU {gpu}: processes of no job there use {used_gib:.1f} GiB; see roostctl waste"


def _add_report(message: pb.Node, report: NodeReport) -> None:
    """Add what the probe says of each GPU that both it and Slurm know."""
    sample, order = report.sample, report.hello.order
    for gpu, static in zip(message.gpus, report.hello.gpus, strict=False):
        gpu.uuid, gpu.model = static.uuid, static.model
        if static.HasField("memory_bytes"):
            gpu.memory_bytes = static.memory_bytes
    if sample is None:
        return
    for name in (
        "sm_frac",
        "memory_activity_frac",
        "memory_used_bytes",
        "power_w",
        "temperature_c",
    ):
        values = column(getattr(sample, name), order)
        for gpu, value in zip(message.gpus, values, strict=False):
            if value is not None:
                setattr(gpu, name, value)


def uuids(state: DaemonState, name: NodeName, gpu_indices: Sequence[int]) -> list[str]:
    """Return UUIDs of GPUs of a node; empty until its probe has reported all of them."""
    cluster = state.engine.cluster
    row = cluster.index_of.get(name)
    known = () if row is None else cluster.uuids[row]
    return [known[gpu] for gpu in gpu_indices] if len(known) > max(gpu_indices, default=-1) else []
