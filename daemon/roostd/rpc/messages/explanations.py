"""Why a job is where it is, in the words of operator.proto."""

from collections.abc import Iterator
from math import exp

from roost_engine.domain.actions import Decision, Exclusions
from roost_engine.domain.model import JobId, JobSpec
from roost_engine.job_record import JobRecord
from roost_engine.scoring.heuristic import HeuristicScore
from roost_proto.v1 import operator_pb2 as pb
from roostd.rpc.messages import timers
from roostd.rpc.messages.daemon_status import slots
from roostd.rpc.messages.decision import add_decision, exclusions_of
from roostd.rpc.messages.jobs import job
from roostd.rpc.messages.outlook import add_outlook
from roostd.state import DaemonState
from roostd.telemetry.gpu_memory import LEAST_RUNS


def explanation(state: DaemonState, job_id: JobId) -> pb.Explanation:
    """Return why a job is where it is.

    Raises:
        UnknownJob: neither the engine nor Slurm's queue has it.
    """
    message = pb.Explanation(
        job=job(state, job_id),
        comment=_comment(state, job_id),
        slots=slots(state),
        stack=state.config.choice.in_words,
    )
    record = state.engine.known(job_id)
    if record is None:
        return message
    exclusions: Exclusions = ()
    if isinstance(record, JobRecord):
        exclusions = record.exclusions
        counts = {shape.node_count for shape in record.spec.shapes}
        if len(counts) > 1:
            message.least_node_count, message.most_node_count = min(counts), max(counts)
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
    if isinstance(record, JobRecord):
        more = _estimated_loss(state, record), _why_shares_nothing(state, record.spec)
        message.neighbour = "; ".join(filter(None, (message.neighbour, *more)))
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
    needed_bytes = seating.needs.expected_bytes(job)
    if 0 < said.gpu_memory_bytes < needed_bytes:
        yield (
            f"memory: it states {_gib(said.gpu_memory_bytes)} of each GPU, and runs of this user"
            f" and name have used more: {_gib(needed_bytes)} count"
        )


def _estimated_loss(state: DaemonState, record: JobRecord) -> str:
    """Return what a running job loses beside its neighbours by its GPUs' activity; "": unknown."""
    estimate = state.activity.estimate(record)
    if estimate is None or not state.config.telemetry.activity_speed or not record.is_on_gpus:
        return ""
    return f"{max(1 - exp(-estimate), 0.0):.0%} of its speed lost, estimated from activity (weak)"


def _why_shares_nothing(state: DaemonState, job: JobSpec) -> str:
    """Return why a job that opted in is beside no other on a GPU, and the cure; "": it may be."""
    seating = state.engine.seating
    if seating is None or not job.shares_gpus:
        return ""
    if not job.gpu_memory_bytes:
        seen = state.gpu_memory.run_count(job.user_id, job.name)
        return (
            "shares no GPU: what it needs of a GPU's memory is not known; cure: state it, as in"
            f" roost:memory=20G, or {LEAST_RUNS} runs of this user and name, of which {seen}"
            f" {'was' if seen == 1 else 'were'} seen"
        )
    if not job.model:
        return "shares no GPU: it names no model; cure: roost:model=NAME, of the table of pairs"
    if not seating.knows_pairs_of(job):
        return (
            f"shares no GPU: the table of pairs has no model {job.model}; cure: a name of the"
            " table, or measure the model (roost-train pairs)"
        )
    if all(shape.node_count > 1 for shape in job.shapes):
        return "shares no GPU: it asks for several nodes"
    return ""


def _gib(size_bytes: int) -> str:
    return f"{size_bytes / (1 << 30):.4g} GiB"
