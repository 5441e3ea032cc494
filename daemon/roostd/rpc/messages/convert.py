"""The engine's view in the words of operator.proto. No decisions, no I/O."""

from collections.abc import Iterator, Sequence
from math import isfinite

from roost_engine.domain.actions import Decision, Exclusions
from roost_engine.domain.errors import UnknownJob, UnknownNode
from roost_engine.domain.model import JobId, JobSpec, NodeName
from roost_engine.job_record import JobRecord, JobState
from roost_engine.plugins.plugins import HEURISTICS
from roost_engine.scoring.heuristic import HeuristicScore
from roost_proto.v1 import operator_pb2 as pb
from roost_proto.v1 import telemetry_pb2 as telemetry_pb
from roostd.config.config import Mode
from roostd.rpc.errors import UnknownTopology
from roostd.rpc.messages import timers
from roostd.rpc.messages.decision import add_decision, exclusions_of
from roostd.rpc.messages.jobs import blocked_count, job
from roostd.rpc.messages.outlook import add_outlook
from roostd.state import DaemonState
from roostd.telemetry.board import NodeReport
from roostd.telemetry.probe_messages import ProbeHello, column

MODES = {
    Mode.OFF: pb.MODE_OFF,
    Mode.SHADOW: pb.MODE_SHADOW,
    Mode.ADVISE: pb.MODE_ADVISE,
    Mode.ENFORCE: pb.MODE_ENFORCE,
}


def status(state: DaemonState) -> pb.Status:
    """Return the state of the daemon."""
    engine, config, now_s = state.engine, state.config, state.clock.now_s()
    cluster = engine.cluster
    states = [job.state for _, job in engine.known_jobs()]
    policy = engine.policies.score.name
    usable = cluster.usable[: len(cluster)]
    beyond = state.beyond_slurm
    answered_s = state.slurm_answered_s
    faults = [state.slurm_fault_now(), state.owner_fault]
    faults.append(state.journal_fault and f"journal: {state.journal_fault}")
    return pb.Status(
        version=state.version,
        cluster=config.cluster or state.cluster,
        uptime_s=now_s - state.started_s,
        default_mode=MODES[config.mode],
        partitions=[
            pb.PartitionMode(partition=name, mode=MODES[listed.mode])
            for name, listed in sorted(config.partitions.items())
        ],
        policy_model=state.policy_model,
        policy_sha256=policy.removeprefix("onnx:") if policy.startswith("onnx:") else "",
        policy_fault="; ".join(filter(None, (state.policy_fault, state.run_times_fault))),
        node_count=sum(spec is not None for spec in cluster.specs),
        probe_count=state.board.count_since(now_s - config.telemetry.stale_after_s),
        gpu_count=int(cluster.gpu_count[: len(cluster)][usable].sum()),
        gpu_free_count=cluster.free_count(),
        waiting_job_count=states.count(JobState.WAITING) + states.count(JobState.CLEARING),
        running_job_count=states.count(JobState.RUNNING) + states.count(JobState.STOPPING),
        decision_count=engine.decision_count,
        fallback_count=engine.fallback_count,
        refused_count=engine.refused_count,
        slurm_version=state.slurm_version,
        slurm_fault="; ".join(filter(None, faults)),
        slots=_slots(state),
        stack=config.choice.in_words,
        placement=config.choice.in_effect.placement,
        longest_beyond_slurm_s=None if beyond is None else beyond.longest_s,
        longest_beyond_slurm_job_id=(beyond.job_id or "") if beyond is not None else "",
        beyond_cap_count=0 if beyond is None else beyond.beyond_cap_count,
        share_user_count=state.share_count if isfinite(config.order.share_slack) else None,
        slurm_answered_ago_s=None if answered_s is None else max(now_s - answered_s, 0.0),
        watched_start_count=state.watched_start_count,
        watched_elsewhere_count=state.watched_elsewhere_count,
        blocked_job_count=blocked_count(state),
    )


def _slots(state: DaemonState) -> Iterator[pb.SlotPolicy]:
    """Yield the policy of each slot that decides now, and how it has failed."""
    engine = state.engine
    for slot, name in engine.policy_names.items():
        yield pb.SlotPolicy(
            slot=slot,
            policy=name,
            heuristic=HEURISTICS[slot],
            fault_count=engine.fault_counts[slot],
            last_fault=state.policy_failures.get(slot, ""),
        )


def node_names(state: DaemonState) -> list[NodeName]:
    """Every node that Slurm names, sorted."""
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
    """One node.

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


def explanation(state: DaemonState, job_id: JobId) -> pb.Explanation:
    """Why a job is where it is.

    Raises:
        UnknownJob: neither the engine nor Slurm's queue has it.
    """
    message = pb.Explanation(
        job=job(state, job_id),
        comment=_comment(state, job_id),
        slots=_slots(state),
        stack=state.config.choice.in_words,
    )
    try:
        record = state.engine.find(job_id)
    except UnknownJob:
        return message
    exclusions: Exclusions = ()
    if isinstance(record, JobRecord):
        exclusions = record.exclusions
        add_outlook(message, state, record)
        for problem in _memory_problem(state, record.spec):
            message.comment.problems.append(problem)
        believed = timers.sensitivity(state, record.spec)
        if believed is not None:
            message.sensitivity.CopyFrom(believed)
        achieved = timers.achieved(state, record)
        if achieved is not None:
            message.achieved.CopyFrom(achieved)
    place = state.place(job_id, record)
    if place is not None:
        add_decision(message, place, state.clock.now_s())
        message.fallback_reason = _fallback_reason(state, place.decision.get())
        message.neighbour = place.decision.get().neighbour
    else:
        message.exclusions.extend(exclusions_of(exclusions))
    return message


def _fallback_reason(state: DaemonState, decision: Decision) -> str:
    """Return why the heuristic has answered: the model failed for the job, or did not load."""
    if decision.fallback_reason or decision.policy != HeuristicScore.name:
        return decision.fallback_reason
    return state.policy_fault


def _comment(state: DaemonState, job_id: JobId) -> pb.JobComment | None:
    said = state.comments.get(job_id)
    if said is None:
        return None
    return pb.JobComment(model=said.model, checkpoint_s=said.checkpoint_s, problems=said.problems)


def _memory_problem(state: DaemonState, job: JobSpec) -> Iterator[str]:
    """Yield that a job counts with more GPU memory than its comment states, if it does."""
    said, seating = state.comments.get(job.job_id), state.engine.seating
    if said is None or seating is None or not job.shares_gpus:
        return
    needed_bytes = seating.hosts.needed_bytes(job)
    if 0 < said.gpu_memory_bytes < needed_bytes:
        yield (
            f"memory: it states {_gib(said.gpu_memory_bytes)} of each GPU, and runs of this user"
            f" and name have used more: {_gib(needed_bytes)} count"
        )


def _gib(size_bytes: int) -> str:
    return f"{size_bytes / (1 << 30):.4g} GiB"


def node_problems(
    state: DaemonState, name: NodeName, gpu_count: int, report: NodeReport | None
) -> Iterator[str]:
    """Yield what an operator should know of a node: of its GPUs in Slurm, and of its probe."""
    if not state.untyped_partitions().isdisjoint(state.untyped_nodes.get(name, ())):
        yield "its GPUs have no types g0, g1, ...: Roost gives none out; roost-slurm migrate --plan"
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
