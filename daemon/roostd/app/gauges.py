"""The daemon's state as gauges for Prometheus and as one line for systemd."""

from roost_engine.job_record import JobState
from roostd.app.decision.recorder import Recorder
from roostd.ops.metrics import Metrics
from roostd.state import DaemonState


def set_gauges(metrics: Metrics, state: DaemonState, recorder: Recorder) -> None:
    """Set every gauge from the daemon's state."""
    counts: dict[str, int] = {one.value: 0 for one in JobState if one is not JobState.ENDED}
    for _, record in state.engine.known_jobs():
        counts[record.state] += 1
    for name, count in counts.items():
        metrics.jobs.labels(name).set(count)
    records = [record for _, record in state.engine.records()]
    metrics.standing_pins.set(sum(record.standing is not None for record in records))
    metrics.held_back.set(state.held_back_count)
    cluster = state.engine.cluster
    free = cluster.free_count()
    total = int(cluster.gpu_count[: len(cluster)][cluster.usable[: len(cluster)]].sum())
    metrics.gpus.labels("free").set(free)
    metrics.gpus.labels("held").set(total - free)
    foreign_held = sum(one.held_by is not None for one in state.foreign.values())
    metrics.foreign_memory_gpus.labels("held").set(foreign_held)
    metrics.foreign_memory_gpus.labels("free").set(len(state.foreign) - foreign_held)
    metrics.nodes.set(sum(spec is not None for spec in cluster.specs))
    metrics.policies.clear()
    for slot, name in state.engine.policy_names.items():
        metrics.policies.labels(slot, name).set(1)
    metrics.journal_fault.set(bool(state.journal_fault))
    metrics.journal_dropped.set(recorder.dropped_count)
    metrics.slurm_fault.set(bool(state.slurm_fault_now()))
    metrics.stranded_gpus.set(sum(state.stranded_gpus.values()))
    metrics.policy_fault.set(bool(state.policy_fault or state.run_times_fault))


def status_line(state: DaemonState) -> str:
    """Return how many jobs wait and were placed, and the faults."""
    faults = [state.slurm_fault, state.owner_fault, state.stranded_fault()]
    faults += [state.policy_fault, state.run_times_fault, state.journal_fault]
    waiting = len(state.engine.waiting())
    counts = f"{waiting} jobs wait, {state.engine.decision_count} placed"
    return "; ".join(filter(None, [counts, *faults]))
