"""The state of the daemon in the words of operator.proto."""

import re
from collections import Counter
from collections.abc import Iterator
from math import isfinite

from roost_engine.job_record import JobState
from roost_engine.plugins.plugins import HEURISTICS
from roost_proto.v1 import operator_pb2 as pb
from roostd.config.config import Mode
from roostd.rpc.messages.jobs import blocked_count
from roostd.state import DaemonState

_OWN_PART = re.compile("[:;]")
_REASON_COUNT = 6  # of a status; `roostctl jobs` has the reason of each job

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
    faults = [state.slurm_fault_now(), state.owner_fault, state.stranded_fault()]
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
        slots=slots(state),
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
        left_jobs=left_jobs(state),
    )


def left_jobs(state: DaemonState) -> Iterator[pb.LeftJobs]:
    """Yield how many waiting jobs with GPUs are left to plain Slurm, by reason.

    What follows a colon or semicolon is the job's own: `names its GPUs itself: g3`.
    """
    counts = Counter(
        _OWN_PART.split(reason, 1)[0]
        for job_id, reason in state.unmanaged_reasons.items()
        if job_id in state.unmanaged
    )
    frequent = counts.most_common(_REASON_COUNT)
    for reason, count in frequent:
        yield pb.LeftJobs(reason=reason, job_count=count)
    if rest := counts.total() - sum(count for _, count in frequent):
        yield pb.LeftJobs(reason="other reasons", job_count=rest)


def slots(state: DaemonState) -> Iterator[pb.SlotPolicy]:
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
