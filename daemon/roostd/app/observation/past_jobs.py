"""Notes every job that ends in the journal: what it asked for, what was chosen and what it got."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from roost_engine.cluster.tiers import tier_of
from roost_engine.domain.actions import Action, Decision, Place, Wait
from roost_engine.domain.events import Event, JobEnded, JobQueued, JobStarted, JobWithdrawn
from roost_engine.domain.model import JobId, NodeShare
from roost_engine.job_record import JobRecord, KnownJob, shares_of
from roost_engine.placement.stock_gpus import choose_22_05, choose_since_24_05
from roost_formats.journal.past_jobs import PastJob
from roostd.state import DaemonState, LeftQueue, Owner

_LIMITS = ("waits for Slurm's limit ", "Slurm would not start it: ")
_UNKNOWN = Owner(user_id=-1, partition="")


@dataclass(slots=True)
class _Wait:
    """What is noted of a job while it waits.

    Attributes:
        decided_s: engine time at which GPUs were first chosen.
        limit: the last limit that kept it waiting.
        limited_s: for how long limits have, up to `since_s`.
        since_s: engine time from which one does; None: none does.
    """

    decided_s: float | None = None
    limit: str = ""
    limited_s: float = 0.0
    since_s: float | None = None

    def apply_reason(self, reason: str, at_s: float) -> None:
        """Apply why the job waits from now on; "": it does not wait any more."""
        if self.since_s is not None:
            self.limited_s += at_s - self.since_s
        found = (reason.removeprefix(begin) for begin in _LIMITS if reason.startswith(begin))
        limit = next(found, "")
        self.limit, self.since_s = limit or self.limit, at_s if limit else None


class PastJobs:
    """Observes the engine's steps, and records each job as it ends.

    Args:
        state: the daemon's state.
        record: takes the jobs that have ended.
    """

    def __init__(self, state: DaemonState, record: Callable[[PastJob], None]) -> None:
        self._state, self._record = state, record
        self._waits: dict[JobId, _Wait] = {}

    def observe(self, event: Event, actions: Sequence[Action]) -> None:
        """Apply a step that the engine has made."""
        match event:
            case JobQueued():
                self._waits[event.job.job_id] = _Wait()
            case JobWithdrawn():
                self._wait(event.job_id).apply_reason(event.reason, event.at_s)
            case JobStarted() if event.job_id in self._waits:
                self._waits[event.job_id].apply_reason("", event.at_s)
            case JobEnded():
                self._end(event)
        for action in actions:
            if isinstance(action, Wait):
                self._wait(action.job_id).apply_reason(action.reason, event.at_s)
            elif isinstance(action, Place):
                noted = self._wait(action.job_id)
                noted.apply_reason("", event.at_s)
                noted.decided_s = event.at_s if noted.decided_s is None else noted.decided_s

    def _wait(self, job_id: JobId) -> _Wait:
        return self._waits.setdefault(job_id, _Wait())

    def _end(self, event: JobEnded) -> None:
        noted = self._waits.pop(event.job_id, _Wait())
        noted.apply_reason("", event.at_s)
        found = self._state.engine.known(event.job_id)
        if found is None:
            left = self._state.left_queue.get(event.job_id)
            if left is not None:
                self._record(_never_seen_to_run(self._state, event.job_id, left))
            return
        self._record(past_job(self._state, event.job_id, found, noted, event.at_s))


def past_job(
    state: DaemonState, job_id: JobId, found: KnownJob, noted: _Wait, ended_s: float
) -> PastJob:
    """Return what the journal keeps of a job that has just ended."""
    epoch_s = state.clock.to_epoch_s
    spec = found.spec if isinstance(found, JobRecord) else None
    owner = state.owners.get(job_id, _UNKNOWN)
    allocated = state.first_shares.get(job_id, found.shares) if found.shares else ()
    queued_s = found.queued_s if isinstance(found, JobRecord) else found.started_s
    left = state.unmanaged.get(job_id)
    real = state.link_scores(allocated) if allocated else None
    job = PastJob(
        job_id=job_id,
        user_id=owner.user_id if spec is None else spec.user_id,
        partition=owner.partition if spec is None else spec.partition,
        name=owner.name or ("" if spec is None else spec.name),
        account=owner.account,
        qos=owner.qos,
        gpu_count=_gpu_count(allocated) or owner.gpu_count if spec is None else spec.gpu_count,
        is_binding=None if spec is None else spec.binding,
        reason="" if left is None else left.reason,
        queued_s=epoch_s(queued_s),
        decided_s=None if noted.decided_s is None else epoch_s(noted.decided_s),
        started_s=None if found.started_s is None else epoch_s(found.started_s),
        ended_s=epoch_s(ended_s),
        allocated=_bare(allocated),
        link_score=None if real is None else real[0],
        real_best_link_score=None if real is None else real[1],
        tier=_tier(state, allocated),
        limit=noted.limit,
        limited_s=noted.limited_s,
    )
    return _with_choice(job, state, found)


def _never_seen_to_run(state: DaemonState, job_id: JobId, left: LeftQueue) -> PastJob:
    owner, epoch_s = left.owner or _UNKNOWN, state.clock.to_epoch_s
    return PastJob(
        job_id=job_id,
        user_id=owner.user_id,
        partition=owner.partition,
        name=owner.name,
        account=owner.account,
        qos=owner.qos,
        gpu_count=owner.gpu_count,
        reason=left.reason,
        queued_s=epoch_s(left.submit_s),
        ended_s=epoch_s(left.left_s),
    )


def _with_choice(job: PastJob, state: DaemonState, found: KnownJob) -> PastJob:
    """Add what Roost chose, where it chose anything."""
    place = state.place(job.job_id, found)
    if place is None:
        return job
    decision, shares = place.decision.get(), shares_of(place.placement)
    speeds = None
    predictors = state.engine.policies.predictors
    if predictors is not None and isinstance(found, JobRecord):
        known = predictors.speed.estimate(found.spec).speeds
        speeds = 1.0, known.at(1) / known.at(0), known.at(2) / known.at(0)
    return replace(
        job,
        planned=_bare(shares),
        planned_link_score=int(decision.link_scores[0]),
        best_link_score=decision.best_link_score,
        stock_link_score=_stock_link_score(state, shares, decision),
        planned_tier=place.placement.tier.value,
        speeds_frac=speeds,
    )


def _stock_link_score(
    state: DaemonState, shares: tuple[NodeShare, ...], decision: Decision
) -> int | None:
    """Return the link score of what plain Slurm takes on the same nodes; None: not known."""
    free = {share.node: share.gpu_indices for share in decision.free_before}
    release = tuple(map(int, state.slurm_version.split(".")[:2])) if state.slurm_version else ()
    choose = choose_22_05 if release and release < (24, 5) else choose_since_24_05
    taken = []
    for share in shares:
        row = state.engine.cluster.index_of.get(share.node)
        if row is None or len(free.get(share.node, ())) < len(share.gpu_indices):
            return None
        links = state.engine.cluster.table(row).links
        gpus = choose(links, free[share.node], len(share.gpu_indices))
        taken.append(NodeShare(share.node, gpus))
    scores = state.link_scores(taken)
    return None if scores is None else scores[0]


def _tier(state: DaemonState, shares: tuple[NodeShare, ...]) -> int | None:
    tier = tier_of(state.engine.cluster, shares) if shares else None
    return None if tier is None else tier.value


def _gpu_count(shares: tuple[NodeShare, ...]) -> int:
    return sum(len(share.gpu_indices) for share in shares)


def _bare(shares: tuple[NodeShare, ...]) -> tuple[NodeShare, ...]:
    """Return shares without CPUs and memory."""
    return tuple(NodeShare(share.node, share.gpu_indices) for share in shares)
