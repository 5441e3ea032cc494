"""The engine's view in the words of operator.proto. No decisions, no I/O."""

from collections.abc import Iterator, Sequence
from math import inf, isfinite

import numpy as np

from roost_engine.cluster.features import COLUMNS, HEURISTIC_WEIGHTS
from roost_engine.domain.actions import Decision, Exclusions, Place
from roost_engine.domain.errors import UnknownJob, UnknownNode
from roost_engine.domain.model import JobId, JobSpec, NodeName, NodeShare, Placement
from roost_engine.job_record import JobRecord, JobState, KnownJob, StandingPin
from roost_engine.plugins import HEURISTICS
from roost_engine.queue.outlook import Outlook
from roost_proto.v1 import operator_pb2 as pb
from roost_proto.v1 import telemetry_pb2 as telemetry_pb
from roostd.config.config import Mode
from roostd.rpc import timers
from roostd.rpc.errors import UnknownTopology
from roostd.rpc.outlook import add_outlook, add_turn, outlooks
from roostd.state import DaemonState, Owner, UnmanagedJob
from roostd.telemetry.board import NodeReport
from roostd.telemetry.probe_messages import ProbeHello, column

MODES = {
    Mode.OFF: pb.MODE_OFF,
    Mode.SHADOW: pb.MODE_SHADOW,
    Mode.ADVISE: pb.MODE_ADVISE,
    Mode.ENFORCE: pb.MODE_ENFORCE,
}
JOB_STATES = {
    JobState.WAITING: pb.JOB_STATE_WAITING,
    JobState.CLEARING: pb.JOB_STATE_CLEARING,
    JobState.PLACING: pb.JOB_STATE_PLACING,
    JobState.RUNNING: pb.JOB_STATE_RUNNING,
    JobState.STOPPING: pb.JOB_STATE_STOPPING,
    JobState.LET_GO: pb.JOB_STATE_LET_GO,
    JobState.ENDED: pb.JOB_STATE_ENDED,
}


def status(state: DaemonState) -> pb.Status:
    """How the daemon is."""
    engine, config, now_s = state.engine, state.config, state.clock.now_s()
    cluster = engine.cluster
    states = [job.state for _, job in engine.known_jobs()]
    policy = engine.policies.score.name
    usable = cluster.usable[: len(cluster)]
    beyond = state.beyond_slurm
    faults = [state.slurm_fault, state.journal_fault and f"journal: {state.journal_fault}"]
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
    """Who holds each GPU that is not free."""
    cluster = state.engine.cluster
    return {
        (share.node, gpu): job_id
        for job_id in cluster.held_jobs()
        for share in cluster.shares(job_id)
        for gpu in share.gpu_indices
    }


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
    """How a node's GPUs are linked, in gres order.

    Raises:
        UnknownNode: neither Slurm nor a probe has named it.
        UnknownTopology: no probe has told.
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


def jobs(state: DaemonState, include_ended: bool) -> Iterator[pb.Job]:
    """Every job that the engine knows, then those that Roost leaves to Slurm."""
    known, waiting = dict(state.engine.known_jobs(include_ended)), outlooks(state)
    for job_id, record in known.items():
        message = _recorded_job(state, job_id, record)
        add_turn(message, state, waiting.get(job_id))
        yield message
    for job_id, left in state.unmanaged.items():
        if job_id not in known:
            yield _left_job(state, job_id, left)


def job(state: DaemonState, job_id: JobId) -> pb.Job:
    """One job.

    Raises:
        UnknownJob: neither the engine nor Slurm's queue has it.
    """
    try:
        message = _recorded_job(state, job_id, state.engine.find(job_id))
        add_turn(message, state, outlooks(state).get(job_id))
        return message
    except UnknownJob:
        if job_id in state.unmanaged:
            return _left_job(state, job_id, state.unmanaged[job_id])
        if job_id in state.unmanaged_reasons:
            reason = state.unmanaged_reasons[job_id]
            return _left_job(state, job_id, UnmanagedJob(reason=reason, is_blocked=False))
        raise


def listed_job(state: DaemonState, job_id: JobId, outlook: Outlook | None) -> pb.Job:
    """One job of a list, whose outlooks were computed together.

    Raises:
        UnknownJob: neither the engine nor what Roost leaves to Slurm has it.
    """
    try:
        message = _recorded_job(state, job_id, state.engine.find(job_id))
    except UnknownJob:
        if job_id not in state.unmanaged:
            raise
        return _left_job(state, job_id, state.unmanaged[job_id])
    add_turn(message, state, outlook)
    return message


def _left_job(state: DaemonState, job_id: JobId, left: UnmanagedJob) -> pb.Job:
    message = pb.Job(
        job_id=job_id,
        state=pb.JOB_STATE_WAITING if left.is_blocked else pb.JOB_STATE_LET_GO,
        reason=left.reason,
    )
    _add_owner(message, state.owners.get(job_id))
    return message


def _add_owner(message: pb.Job, told: JobSpec | Owner | None) -> None:
    if told is not None:
        message.user_id, message.partition = told.user_id, told.partition


def _recorded_job(state: DaemonState, job_id: JobId, record: KnownJob) -> pb.Job:
    left, now_s = state.unmanaged.get(job_id), state.clock.now_s()
    place = state.place(job_id, record)
    message = pb.Job(
        job_id=job_id,
        state=JOB_STATES[record.state],
        reason=record.reason or _why_not_roost_s(record, left, is_planned=place is not None),
        gpu_count=_gpu_count(record),
        waited_s=_waited_s(record, now_s),
        planned=_planned(place.placement) if place else (),
        allocated=[_allocation(share) for share in record.shares],
    )
    spec = record.spec if isinstance(record, JobRecord) else None
    _add_owner(message, spec or state.owners.get(job_id))
    if place is not None:
        decision = place.decision.get()
        message.link_score = int(decision.link_scores[0])
        message.best_link_score = decision.best_link_score
        message.slurm_chooses_gpus = not place.placement.is_exact
    if isinstance(record, JobRecord) and record.state is JobState.WAITING:
        if record.until_s is not None:
            message.wait_left_s = max(record.until_s - now_s, 0.0)
        if record.standing is not None:
            message.standing.CopyFrom(_standing(record.standing, now_s))
    return message


def _standing(pin: StandingPin, now_s: float) -> pb.StandingPin:
    is_bounded = pin.start_s < inf
    return pb.StandingPin(
        shares=_planned(pin.placement),
        slurm_chooses_gpus=not pin.placement.is_exact,
        age_s=max(now_s - pin.decision.get().at_s, 0.0),
        start_left_s=max(pin.start_s - now_s, 0.0) if is_bounded else None,
        is_preempting=pin.is_preempting,
    )


def _why_not_roost_s(record: KnownJob, left: UnmanagedJob | None, *, is_planned: bool) -> str:
    """Why a job runs that Roost has not placed; empty for those it has."""
    if is_planned:
        return ""
    if isinstance(record, JobRecord):
        was_left = left is not None and not left.is_blocked and record.is_on_gpus
        return left.reason if left is not None and was_left else ""
    if left is not None:
        return left.reason
    if not any(share.gpu_indices for share in record.shares):
        return "asks for no GPUs"
    return "Slurm started it before this roostd saw it wait"


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
        believed = timers.sensitivity(state, record.spec)
        if believed is not None:
            message.sensitivity.CopyFrom(believed)
        achieved = timers.achieved(state, record)
        if achieved is not None:
            message.achieved.CopyFrom(achieved)
    place = state.place(job_id, record)
    if place is not None:
        decision = place.decision.get()
        message.decided_ago_s = state.clock.now_s() - decision.at_s
        message.policy, message.fallback_reason = decision.policy, decision.fallback_reason
        message.candidates.extend(_candidates(place))
        message.free_before.extend(
            pb.NodeAllocation(node=share.node, gpu_indices=share.gpu_indices)
            for share in decision.free_before
        )
        exclusions = decision.exclusions
    message.exclusions.extend(
        pb.Exclusion(reason=reason, node_count=count) for reason, count in exclusions
    )
    return message


def _comment(state: DaemonState, job_id: JobId) -> pb.JobComment | None:
    said = state.comments.get(job_id)
    if said is None:
        return None
    return pb.JobComment(model=said.model, checkpoint_s=said.checkpoint_s, problems=said.problems)


def node_problems(
    state: DaemonState, name: NodeName, gpu_count: int, report: NodeReport | None
) -> Iterator[str]:
    """What an operator should know of a node's probe."""
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


def _gpu_count(record: KnownJob) -> int:
    if isinstance(record, JobRecord):
        return record.spec.gpu_count
    return sum(len(share.gpu_indices) for share in record.shares)


def _waited_s(record: KnownJob, now_s: float) -> float:
    if not isinstance(record, JobRecord):
        return 0.0
    until_s = next((at for at in (record.started_s, record.ended_s) if at is not None), now_s)
    return max(until_s - record.queued_s, 0.0)


def _planned(placement: Placement) -> Iterator[pb.NodeAllocation]:
    for name, gpu_indices in placement.by_node():
        yield pb.NodeAllocation(node=name, gpu_indices=gpu_indices)


def _allocation(share: NodeShare) -> pb.NodeAllocation:
    return pb.NodeAllocation(node=share.node, gpu_indices=share.gpu_indices)


def _candidates(place: Place) -> Iterator[pb.Candidate]:
    decision = place.decision.get()
    for rank, candidate in enumerate(decision.candidates):
        yield pb.Candidate(
            nodes=candidate.nodes,
            gpu_indices=candidate.gpu_indices,
            score=float(decision.scores[rank]),
            link_score=int(decision.link_scores[rank]),
            features=dict(zip(COLUMNS, decision.features[rank].tolist(), strict=True)),
            why_not=_why_not(decision, rank) if rank else "",
        )


def _why_not(decision: Decision, rank: int) -> str:
    """What sets a candidate back the most, by the heuristic's weights; a model may see more."""
    gap = float(decision.scores[0] - decision.scores[rank])
    if gap <= 0:
        return "as good; the chosen one comes first in order"
    loss = (decision.features[0] - decision.features[rank]) * HEURISTIC_WEIGHTS
    worst = int(np.argmax(loss))
    if loss[worst] <= 0:
        return f"score {gap:.3g} lower, by the model"
    mine, chosen = decision.features[rank][worst], decision.features[0][worst]
    return f"score {gap:.3g} lower, mostly {COLUMNS[worst]}: {mine:.3g}, chosen {chosen:.3g}"


def uuids(state: DaemonState, name: NodeName, gpu_indices: Sequence[int]) -> list[str]:
    """UUIDs of GPUs of a node; empty when its probe has not told all of them."""
    cluster = state.engine.cluster
    row = cluster.index_of.get(name)
    known = () if row is None else cluster.uuids[row]
    return [known[gpu] for gpu in gpu_indices] if len(known) > max(gpu_indices, default=-1) else []
