"""Jobs in the words of operator.proto. No decisions, no I/O."""

from collections.abc import Iterator, Mapping
from math import inf

from roost_engine.domain.errors import UnknownJob
from roost_engine.domain.model import JobId, JobSpec, NodeShare, Placement
from roost_engine.job_record import JobRecord, JobState, KnownJob, StandingPin
from roost_engine.queue.outlook import Outlook
from roost_engine.sharing.seating import partners_in_words
from roost_proto.v1 import operator_pb2 as pb
from roostd.rpc.messages.outlook import add_turn
from roostd.state import DaemonState, LeftQueue, Owner, UnmanagedJob

JOB_STATES = {
    JobState.WAITING: pb.JOB_STATE_WAITING,
    JobState.CLEARING: pb.JOB_STATE_CLEARING,
    JobState.PLACING: pb.JOB_STATE_PLACING,
    JobState.RUNNING: pb.JOB_STATE_RUNNING,
    JobState.STOPPING: pb.JOB_STATE_STOPPING,
    JobState.RELEASED: pb.JOB_STATE_LET_GO,
    JobState.ENDED: pb.JOB_STATE_ENDED,
}


def jobs(
    state: DaemonState,
    include_ended: bool,
    turns: Mapping[JobId, Outlook],
    only_owner: int | None = None,
) -> Iterator[pb.Job]:
    """Yield every job that the engine knows, then those that Roost leaves to Slurm.

    The state may change between two of them: each is as it is when it is yielded.

    Args:
        state: the daemon's.
        include_ended: whether jobs that have ended are listed.
        turns: the outlook of each job that waits.
        only_owner: the user whose jobs alone are listed; None: those of all users.
    """

    def is_listed(job_id: JobId) -> bool:
        return only_owner is None or state.user_of(job_id) == only_owner

    known = dict(state.engine.known_jobs(include_ended))
    for job_id, record in known.items():
        if is_listed(job_id):
            message = _recorded_job(state, job_id, record)
            if record.state is JobState.WAITING:
                add_turn(message, state, turns.get(job_id))
            yield message
    for job_id, left in list(state.unmanaged.items()):
        if job_id not in known and is_listed(job_id) and not _has_ended(state, job_id):
            yield _left_job(state, job_id, left)
    if include_ended:
        for job_id, gone in list(state.left_queue.items()):
            if is_listed(job_id):
                yield _gone_job(state, job_id, gone)


def _has_ended(state: DaemonState, job_id: JobId) -> bool:
    """Return whether the engine remembers a job as ended."""
    found = state.engine.known(job_id)
    return found is not None and found.state is JobState.ENDED


def job(state: DaemonState, job_id: JobId) -> pb.Job:
    """Return one job.

    Raises:
        UnknownJob: neither the engine nor Slurm's queue has it.
    """
    try:
        record = state.engine.find(job_id)
        outlook = None
        if isinstance(record, JobRecord) and record.state is JobState.WAITING:
            outlook = state.engine.outlook(job_id, state.clock.now_s())
        return listed_job(state, job_id, outlook)
    except UnknownJob:
        if job_id in state.unmanaged:
            return _left_job(state, job_id, state.unmanaged[job_id])
        if job_id in state.unmanaged_reasons:
            reason = state.unmanaged_reasons[job_id]
            return _left_job(state, job_id, UnmanagedJob(reason=reason, is_blocked=False))
        if job_id in state.left_queue:
            return _gone_job(state, job_id, state.left_queue[job_id])
        raise


def listed_job(state: DaemonState, job_id: JobId, outlook: Outlook | None) -> pb.Job:
    """Return one job of a list, for which all outlooks were computed together.

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


def blocked_count(state: DaemonState) -> int:
    """Return how many waiting jobs something other than Roost's decision keeps from starting."""
    return sum(
        left.is_blocked and not _has_ended(state, job_id)
        for job_id, left in state.unmanaged.items()
    )


def _left_job(state: DaemonState, job_id: JobId, left: UnmanagedJob) -> pb.Job:
    owner = state.owners.get(job_id)
    message = pb.Job(
        job_id=job_id,
        state=pb.JOB_STATE_WAITING if left.is_blocked else pb.JOB_STATE_LET_GO,
        reason=left.reason,
        gpu_count=0 if owner is None else owner.gpu_count,
    )
    _add_owner(message, None, owner)
    return message


def _gone_job(state: DaemonState, job_id: JobId, gone: LeftQueue) -> pb.Job:
    message = pb.Job(
        job_id=job_id,
        state=pb.JOB_STATE_ENDED,
        reason=never_seen_to_run(job_id, gone.reason),
        gpu_count=0 if gone.owner is None else gone.owner.gpu_count,
        waited_s=max(gone.left_s - gone.submit_s, 0.0),
        ended_ago_s=max(state.clock.now_s() - gone.left_s, 0.0),
    )
    _add_owner(message, None, gone.owner)
    return message


def never_seen_to_run(job_id: str, reason: str) -> str:
    """Return what is known of a job that left the queue and was not seen to run."""
    return f"Roost had not placed it: {reason}. What became of it: sacct -j {job_id}"


def _add_owner(message: pb.Job, spec: JobSpec | None, owner: Owner | None) -> None:
    facts = owner or spec
    if facts is None:
        return
    message.user_id = facts.user_id
    message.partition = spec.partition if spec is not None else facts.partition
    message.name, message.account, message.qos = facts.name, facts.account, facts.qos
    message.priority = max(facts.priority, 0)


def _recorded_job(state: DaemonState, job_id: JobId, record: KnownJob) -> pb.Job:
    left, owner = state.unmanaged.get(job_id), state.owners.get(job_id)
    now_s, place = state.clock.now_s(), state.place(job_id, record)
    is_blocked = left is not None and left.is_blocked and record.state is JobState.RELEASED
    shares = _allocated(state, job_id, record)
    message = pb.Job(
        job_id=job_id,
        state=pb.JOB_STATE_WAITING if is_blocked else JOB_STATES[record.state],
        reason=record.reason
        or _partners(state, job_id)
        or _why_not_roost_s(record, left, is_planned=place is not None),
        gpu_count=_gpu_count(record, owner, shares),
        waited_s=_waited_s(record, now_s),
        planned=planned(place.placement) if place else (),
        allocated=[_allocation(share) for share in shares],
    )
    _add_owner(message, record.spec if isinstance(record, JobRecord) else None, owner)
    if record.ended_s is not None:
        message.ended_ago_s = max(now_s - record.ended_s, 0.0)
    if place is not None:
        decision = place.decision.get()
        message.link_score = int(decision.link_scores[0])
        message.best_link_score = decision.best_link_score
        message.slurm_chooses_gpus = not place.placement.is_exact
    _add_real_links(message, state, shares, None if place is None else place.placement)
    if isinstance(record, JobRecord) and record.state is JobState.WAITING:
        if record.until_s is not None:
            message.wait_left_s = max(record.until_s - now_s, 0.0)
        if record.standing is not None:
            message.standing.CopyFrom(_standing(record.standing, now_s))
    return message


def _partners(state: DaemonState, job_id: JobId) -> str:
    seats, seating = state.engine.cluster.seats, state.engine.seating
    needs = None if seating is None else seating.needs
    return "" if seats is None else partners_in_words(seats, job_id, needs)


def _add_real_links(
    message: pb.Job, state: DaemonState, shares: tuple[NodeShare, ...], chosen: Placement | None
) -> None:
    """Have the link score be that of the GPUs that the job got, where others were planned."""
    if not shares or chosen is None:
        return
    at = {name: frozenset(gpus) for name, gpus in chosen.by_node()}
    if at == {share.node: frozenset(share.gpu_indices) for share in shares}:
        return
    real = state.link_scores(shares)
    message.planned_link_score = message.link_score
    if real is None:
        message.ClearField("link_score")
        message.ClearField("best_link_score")
    else:
        message.link_score, message.best_link_score = real


def _allocated(state: DaemonState, job_id: JobId, record: KnownJob) -> tuple[NodeShare, ...]:
    """Return what a job got, also once Slurm has taken back some of its nodes."""
    if not record.shares:
        return ()
    return state.first_shares.get(job_id, record.shares)


def _standing(pin: StandingPin, now_s: float) -> pb.StandingPin:
    is_bounded = pin.start_s < inf
    return pb.StandingPin(
        shares=planned(pin.placement),
        slurm_chooses_gpus=not pin.placement.is_exact,
        age_s=max(now_s - pin.decision.get().at_s, 0.0),
        start_left_s=max(pin.start_s - now_s, 0.0) if is_bounded else None,
        is_preempting=pin.is_preempting,
    )


def _why_not_roost_s(record: KnownJob, left: UnmanagedJob | None, *, is_planned: bool) -> str:
    """Return why a job runs that Roost has not placed; "" for a job that it has placed."""
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


def _gpu_count(record: KnownJob, owner: Owner | None, shares: tuple[NodeShare, ...]) -> int:
    if isinstance(record, JobRecord):
        return record.spec.gpu_count
    held = sum(len(share.gpu_indices) for share in shares)
    return held or (0 if owner is None else owner.gpu_count)


def _waited_s(record: KnownJob, now_s: float) -> float:
    if not isinstance(record, JobRecord):
        return 0.0
    until_s = next((at for at in (record.started_s, record.ended_s) if at is not None), now_s)
    return max(until_s - record.queued_s, 0.0)


def planned(placement: Placement) -> Iterator[pb.NodeAllocation]:
    """Yield the GPUs of a placement, by node."""
    for name, gpu_indices in placement.by_node():
        yield pb.NodeAllocation(node=name, gpu_indices=gpu_indices)


def _allocation(share: NodeShare) -> pb.NodeAllocation:
    return pb.NodeAllocation(node=share.node, gpu_indices=share.gpu_indices)
