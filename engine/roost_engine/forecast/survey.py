"""Surveys an engine: makes a Snapshot of its queue, and changes nothing in it."""

from collections.abc import Generator
from math import inf

from roost_engine.cluster.cluster import Cluster
from roost_engine.domain.model import JobId, JobSpec, NodeShare, Shape
from roost_engine.engine import Engine
from roost_engine.forecast.arrival_log import ArrivalLog, LoggedArrival, TimesCache, future_key
from roost_engine.forecast.run_time_table import RunTimeTable
from roost_engine.forecast.snapshot import (
    Displacing,
    Held,
    Part,
    PastArrival,
    RunningJob,
    Snapshot,
    Stoppable,
    Uses,
    WaitingJob,
    Wish,
)
from roost_engine.job_record import WAITS, JobRecord, JobState, KnownJob
from roost_engine.placement.eligibility import usable_nodes
from roost_engine.policies.preemption_protocols import Displacement, ValuedPreemption
from roost_engine.policies.protocols import ShapedCandidates
from roost_engine.prediction.run_time.run_times import RunTimes
from roost_engine.prediction.service import done_s
from roost_engine.queue.group import Demand, demand_of
from roost_engine.queue.orders import ValuedOrder

_WAITING = (JobState.WAITING, JobState.CLEARING)
_HOLDING = (JobState.PLACING, JobState.RUNNING, JobState.STOPPING)
_SLOWEST_FRAC = 0.05
_VALUE_PART = 2  # of a key of a ValuedOrder, behind the engine's mark and what operators put first
_AT_ONCE = 20  # jobs between two yields


def survey(engine: Engine, log: ArrivalLog, at_s: float) -> Generator[None, None, Snapshot]:
    """Take a snapshot of the queue.

    Args:
        engine: read only.
        log: the jobs of the recent past, up to date.
        at_s: engine time.

    Yields:
        Now and then, so that the caller may let others have a turn. What changes meanwhile is seen
        or not.

    Returns:
        The snapshot.
    """
    rule = _displacement_of(engine)
    wishes, cache = _Wishes(engine, rule), TimesCache(log.history(engine))
    waiting, waiting_times = list[WaitingJob](), list[RunTimes]()
    running, running_times = list[RunningJob](), list[RunTimes]()
    limit_ends_s = {job_id: end_s for end_s, job_id in engine.limit_ends(at_s)}
    for count, (job_id, record) in enumerate(list(engine.known_jobs())):
        if count % _AT_ONCE == _AT_ONCE - 1:
            yield
        held = _held(engine.cluster, engine.cluster.shares(job_id) or record.shares)
        if record.state in _HOLDING and held:
            end_s = limit_ends_s.get(job_id, inf)
            running.append(_running(wishes, cache, job_id, record, held, end_s, at_s))
            running_times.append(_rest(cache, record, held, at_s))
        elif record.state in _WAITING and (job := record.under_roost):
            times = cache.times(job.spec, done_s(job, at_s), at_s)
            waiting.append(_waiting(engine, wishes, cache, job, times))
            waiting_times.append(times)
    arrivals, arrival_times = list[PastArrival](), list[RunTimes]()
    for count, past in enumerate(list(log)):
        if count % _AT_ONCE == _AT_ONCE - 1:
            yield
        arrivals.append(_arrival(past, wishes, len(arrival_times)))
        if past.run_s is None:
            arrival_times.append(past.times)
    return Snapshot(
        at_s=at_s,
        free=_free(engine.cluster),
        patience_s=engine.config.patience_s,
        passing=engine.config.passing,
        wishes=tuple(wishes.found),
        waiting=tuple(waiting),
        waiting_times=RunTimeTable.of(waiting_times),
        running=tuple(running),
        running_times=RunTimeTable.of(running_times),
        arrivals=tuple(arrivals),
        arrivals_since_s=log.since_s,
        arrival_times=RunTimeTable.of(arrival_times),
        quotas=tuple(engine.quota_left(quota) for quota in wishes.quotas),
        displacing=None if rule is None else _displacing(rule),
    )


def _displacement_of(engine: Engine) -> Displacement | None:
    """Return how jobs displace others by the value of the order, if that is so."""
    rule, is_by_order = engine.policies.preemption, isinstance(engine.policies.order, ValuedOrder)
    return rule.displacement if is_by_order and isinstance(rule, ValuedPreemption) else None


def _displacing(rule: Displacement) -> Displacing:
    return Displacing(_VALUE_PART, grows=rule.grows, lease_s=rule.lease_s)


def started_s(engine: Engine, job_id: JobId) -> float | None:
    """Return when a job started; inf: it waits; None: it has left without a start."""
    record = engine.known(job_id)
    if record is None:
        return None
    return inf if record.state in WAITS else record.started_s


class _Wishes:
    """Numbers what jobs ask for, and the quotas of Slurm's limits that they count against."""

    def __init__(self, engine: Engine, rule: Displacement | None) -> None:
        self._engine, self._rule = engine, rule
        candidates = engine.policies.candidates
        self._shaped = candidates if isinstance(candidates, ShapedCandidates) else None
        self._numbers: dict[Demand, int] = {}
        self.found: list[Wish] = []
        self.quotas: dict[str, int] = {}

    def uses(self, job: JobSpec) -> Uses:
        quotas = self.quotas
        return tuple((quotas.setdefault(use.quota, len(quotas)), use.amount) for use in job.quotas)

    def index(self, job: JobSpec) -> int:
        demand = demand_of(job)
        number = self._numbers.get(demand)
        if number is None:
            number = self._numbers[demand] = len(self.found)
            self.found.append(self._wish(job))
        return number

    def _wish(self, job: JobSpec) -> Wish:
        cluster = self._engine.cluster
        shaped = self._shaped
        shapes = job.shapes if shaped is None else shaped.proposed_shapes(cluster, job)
        parts = (_part(cluster, job, shape) for shape in shapes)
        held = tuple(part for part in parts if part is not None)
        return Wish(-job.priority_tier, held, self.uses(job), self._may_displace(job))

    def _may_displace(self, job: JobSpec) -> bool:
        rule = self._rule
        if rule is None:
            return False
        return rule.permission is None or job.partition in rule.permission.partitions

    def is_stoppable(self, job: JobSpec) -> bool:
        """Return whether a job may be stopped for others once it runs."""
        if self._rule is None:
            return False
        is_allowed = self._rule.permission is None or job.checkpoint_s is not None
        return is_allowed and self._may_displace(job)

    def stoppable(self, record: JobRecord, at_s: float) -> Stoppable | None:
        """Return what is known of a running job if it may be stopped."""
        if self._rule is None or not record.sort_key or not self.is_stoppable(record.spec):
            return None
        key, part = record.sort_key, _VALUE_PART
        value = self._rule.value(record, at_s)
        key = (*key[:part], *value, *key[part + len(value) :])
        return Stoppable(record.safe_until_s, key, self.index(record.spec), _limit(record.spec))


def _part(cluster: Cluster, job: JobSpec, shape: Shape) -> Part | None:
    nodes, required = usable_nodes(cluster, job, shape)
    if required:  # only these, so far as they are enough: the others of a node list count as free
        nodes = required if required.bit_count() >= shape.node_count else nodes
    if nodes.bit_count() < shape.node_count:
        return None
    return Part(shape.node_count, shape.gpus_per_node, nodes)


def _waiting(
    engine: Engine, wishes: _Wishes, cache: TimesCache, record: JobRecord, times: RunTimes
) -> WaitingJob:
    kind, user = cache.alike(record.spec)
    key = engine.sort_key(record.job_id)
    if key is None:  # in shadow mode a job that was placed waits for Slurm
        key = future_key(engine, record, times)[0]
    return WaitingJob(
        job_id=record.job_id,
        wish=wishes.index(record.spec),
        key=key,
        since_s=record.queued_s,
        not_before_s=max(record.spec.eligible_s, record.not_before_s),
        limit_s=_limit(record.spec),
        kind=kind,
        user=user,
        is_stoppable=wishes.is_stoppable(record.spec),
    )


def _running(
    wishes: _Wishes,
    cache: TimesCache,
    job_id: JobId,
    known: KnownJob,
    held: Held,
    end_s: float,
    at_s: float,
) -> RunningJob:
    kind, user, speed_frac = -1, -1, 1.0
    uses: Uses = ()
    stoppable: Stoppable | None = None
    if record := known.under_roost:
        kind, user = cache.alike(record.spec)
        uses = wishes.uses(record.spec)
        stoppable = wishes.stoppable(record, at_s) if record.state is JobState.RUNNING else None
        reported = record.efficiency(at_s)
        speed_frac = min(max(reported, _SLOWEST_FRAC), 1.0) if reported > 0 else 1.0
    return RunningJob(
        job_id=job_id,
        held=held,
        limit_end_s=end_s,
        speed_frac=speed_frac,
        kind=kind,
        user=user,
        uses=uses,
        stoppable=stoppable,
    )


def _rest(cache: TimesCache, known: KnownJob, held: Held, at_s: float) -> RunTimes:
    if record := known.under_roost:
        return cache.times(record.spec, done_s(record, at_s), at_s)
    shape = Shape(node_count=len(held), gpus_per_node=held[0][1])
    unknown = JobSpec(job_id=known.job_id, user_id=-1, partition="", shapes=(shape,))
    return cache.times(unknown, known.run_s(at_s), at_s)


def _arrival(past: LoggedArrival, wishes: _Wishes, row: int) -> PastArrival:
    return PastArrival(
        at_s=past.at_s,
        wish=wishes.index(past.job),
        key=past.key,
        time_parts=past.time_parts,
        limit_s=_limit(past.job),
        run_s=past.run_s,
        row=row,
        is_stoppable=wishes.is_stoppable(past.job),
    )


def _held(cluster: Cluster, shares: tuple[NodeShare, ...]) -> Held:
    return tuple(
        (cluster.index_of[share.node], len(share.gpu_indices))
        for share in shares
        if share.gpu_indices and share.node in cluster.index_of
    )


def _free(cluster: Cluster) -> tuple[int, ...]:
    return tuple(cluster.gpu_free[node] for node in range(len(cluster)))


def _limit(job: JobSpec) -> float:
    return inf if job.time_limit_s is None else job.time_limit_s
