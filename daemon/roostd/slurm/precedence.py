"""Which waiting jobs an operator or their owner has put first or last, by Slurm's priorities.

Slurm does not show who changed a priority. Two dumps of the queue tell a change by hand from
Slurm's own recalculation:

* another `nice` is always by hand: `nice=`, and `scontrol top`, which works by it;
* with priority/basic so is another priority;
* with priority/multifactor Slurm itself moves a job by age and fair-share. Jobs of the same user,
  account, partition and QoS have one fair-share, so among them age alone makes a difference. A
  priority is by hand if it moved further than twice the age weight beside all such jobs, or
  further than both weights together.

A job that was raised by hand, and has none of the jobs ahead of it that were in both dumps, is put
first; one that was lowered, and fell behind all of them, last. A change in between, or back, ends
that: then the site's order alone decides. A job that was moved by hand past others of the same
user goes before these: `scontrol top` chooses among a user's jobs, and passes no other user's. Jobs
of other priority tiers, held jobs and jobs without GPUs do not count.

Pure: no clock, no I/O. Page: docs/slurm.md.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import TypeAlias, TypeVar

from roost_engine.domain.model import JobId
from roost_slurm.text.scheduling import Scheduling
from roost_slurm.text.squeue import QueuedJob

_ROUNDING = 2  # Slurm cuts each part of a priority to a whole number
MOST_OVERTAKEN = 100  # jobs of its user that one job was moved past, the latest count
_MOST_MOVERS = 100  # of one user in one dump, the first in Slurm's order
_NO_RANK = (2**64, 0)
_FEW_COUNT = 3  # among more jobs than this, operators do not move most of them at once

_Moves: TypeAlias = Mapping[int, int]  # of jobs moved by hand: above 0: up; by record number
_T = TypeVar("_T")
_Pairs: TypeAlias = Mapping[int, tuple[QueuedJob, QueuedJob]]  # before and now


@dataclass(frozen=True, slots=True)
class SeenPriorities:
    """What is remembered of one dump.

    Attributes:
        jobs: the waiting jobs with GPUs that are not held, by record number.
        precedences: see JobSpec.precedence; those other than 0, by record number.
        overtakes: see JobSpec.overtakes; by record number.
    """

    jobs: Mapping[int, QueuedJob] = field(default_factory=dict)
    precedences: Mapping[int, int] = field(default_factory=dict)
    overtakes: Mapping[int, tuple[JobId, ...]] = field(default_factory=dict)


@dataclass(slots=True)
class _Findings:
    """What is known of each job, and what this dump adds."""

    precedences: dict[int, int]
    overtakes: dict[int, tuple[JobId, ...]]
    highest: int = 0
    lowest: int = 0

    def __post_init__(self) -> None:
        self.highest = max((0, *self.precedences.values()))
        self.lowest = min((0, *self.precedences.values()))

    def put_first(self, number: int, *, is_first: bool) -> None:
        """Note that a job was raised."""
        self.highest += is_first
        self.precedences[number] = self.highest if is_first else 0

    def put_last(self, number: int, *, is_last: bool) -> None:
        """Note that a job was lowered; one that was put first is then neither first nor last."""
        is_last = is_last and self.precedences.get(number, 0) <= 0
        self.lowest -= is_last
        self.precedences[number] = self.lowest if is_last else 0

    def note_pass(self, pairs: _Pairs, one: int, other: int) -> None:
        """Note which of two jobs passed the other, if any."""
        (one_before, one_now), (other_before, other_now) = pairs[one], pairs[other]
        was_ahead = _rank(one_before) < _rank(other_before)
        if was_ahead == (_rank(one_now) < _rank(other_now)):
            return
        ahead, behind = (other, one) if was_ahead else (one, other)
        ids = {number: tuple(map(JobId, pairs[number][1].job_ids[:1])) for number in (one, other)}
        self._forget(behind, ids[ahead])
        self.overtakes[ahead] = (*self.overtakes.get(ahead, ()), *ids[behind])[-MOST_OVERTAKEN:]

    def _forget(self, number: int, job_ids: Sequence[JobId]) -> None:
        left = tuple(one for one in self.overtakes.get(number, ()) if one not in job_ids)
        self.overtakes[number] = left


def observe(
    before: SeenPriorities,
    jobs: Iterable[QueuedJob],
    scheduling: Scheduling,
    priority_tier_of: Callable[[QueuedJob], int] = lambda job: 0,
) -> SeenPriorities:
    """Return what a dump of the queue shows, after the one before.

    Args:
        before: the dump before.
        jobs: of this dump.
        scheduling: how Slurm computes priorities.
        priority_tier_of: returns the priority tier of a job's partition.
    """
    now = {job.number: job for job in jobs if job.is_pending and job.priority and _has_gpus(job)}
    found = _Findings(
        _carried(before.precedences, before.jobs, now), _carried(before.overtakes, before.jobs, now)
    )
    known = before.jobs
    for number, job in now.items():  # of thousands of jobs most stay as they are
        was = known.get(number)
        if was is not None and (was.priority != job.priority or was.nice != job.nice):
            _judge_all(known, now, scheduling, priority_tier_of, found)
            break
    return SeenPriorities(
        now,
        {number: one for number, one in found.precedences.items() if one},
        {number: those for number, those in found.overtakes.items() if those},
    )


def _has_gpus(job: QueuedJob) -> bool:
    return any("gpu" in asked for _, asked in job.tres)


def _carried(
    known: Mapping[int, _T], before: Mapping[int, QueuedJob], now: Mapping[int, QueuedJob]
) -> dict[int, _T]:
    """Return what still holds; a task that has left its array's record inherits the array's."""
    carried = {number: value for number, value in known.items() if number in now}
    if known:
        for number in now.keys() - before.keys():
            array = now[number].array_number
            if number not in carried and array is not None and array in known:
                carried[number] = known[array]
    return carried


def _judge_all(
    before: Mapping[int, QueuedJob],
    now: Mapping[int, QueuedJob],
    scheduling: Scheduling,
    priority_tier_of: Callable[[QueuedJob], int],
    found: _Findings,
) -> None:
    pairs = {
        number: (known, job)
        for number, job in now.items()
        if (known := _known(before, job)) is not None
    }
    moves = _moved_by_hand(pairs, scheduling)
    if not moves:
        return
    by_tier: defaultdict[int, dict[int, tuple[QueuedJob, QueuedJob]]] = defaultdict(dict)
    for number, pair in pairs.items():
        by_tier[priority_tier_of(pair[1])][number] = pair
    for group in by_tier.values():
        _judge(group, moves, found)


def resumed(
    jobs: Iterable[QueuedJob],
    precedences: Mapping[JobId, int],
    overtakes: Mapping[JobId, tuple[JobId, ...]],
) -> SeenPriorities:
    """Return what an earlier daemon knew, for the first dump.

    Args:
        jobs: of the first dump.
        precedences: see JobSpec.precedence; by job, as Roost names it.
        overtakes: see JobSpec.overtakes; likewise.
    """
    first_ids = {job.number: JobId(job_id) for job in jobs for job_id in job.job_ids[:1]}
    return SeenPriorities(
        precedences={
            number: precedence
            for number, job_id in first_ids.items()
            if (precedence := precedences.get(job_id, 0))
        },
        overtakes={
            number: overtaken
            for number, job_id in first_ids.items()
            if (overtaken := overtakes.get(job_id, ()))
        },
    )


def _judge(pairs: _Pairs, moves: _Moves, found: "_Findings") -> None:
    """Put the jobs of one tier first or last that were moved there, in Slurm's order."""
    moved = sorted((n for n in pairs if n in moves), key=lambda number: _rank(pairs[number][1]))
    if not moved:
        return
    first_rank = min(
        (_rank(job) for n, (_, job) in pairs.items() if moves.get(n, 0) <= 0), default=_NO_RANK
    )
    for number in reversed(moved):  # the foremost is put first last, before all others
        if moves[number] > 0:
            found.put_first(number, is_first=_rank(pairs[number][1]) < first_rank)
    still = [pair for n, pair in pairs.items() if n not in moves]
    was_behind = max((_rank(known) for known, _ in still), default=(-_NO_RANK[0], 0))
    is_behind = max((_rank(job) for _, job in still), default=_NO_RANK)
    # `scontrol top` lowers all other jobs of the user: these are not put last.
    served = {pairs[number][1].user_id for number in moved if moves[number] > 0}
    for number in moved:
        known, job = pairs[number]
        if moves[number] < 0 and job.user_id not in served:
            is_last = _rank(known) < was_behind and is_behind < _rank(job)
            found.put_last(number, is_last=is_last)
    _note_passes(pairs, moves, moved, found)


def _note_passes(pairs: _Pairs, moves: _Moves, moved: Sequence[int], found: "_Findings") -> None:
    """Note which jobs of one user passed each other because one of them was moved by hand."""
    by_user: defaultdict[int, list[int]] = defaultdict(list)
    for number, (_, job) in pairs.items():
        by_user[job.user_id].append(number)
    movers: defaultdict[int, list[int]] = defaultdict(list)
    for number in moved:
        movers[pairs[number][1].user_id].append(number)
    for user_id, own in movers.items():
        up = [number for number in own if moves[number] > 0]
        for mover in (up or own)[:_MOST_MOVERS]:  # in Slurm's order
            for other in by_user[user_id]:
                if other != mover:
                    found.note_pass(pairs, mover, other)


def _moved_by_hand(pairs: _Pairs, scheduling: Scheduling) -> _Moves:
    """Return the jobs that Slurm itself did not move, and in which direction."""
    gains = {number: job.priority - known.priority for number, (known, job) in pairs.items()}
    niced = {
        number: known.nice - job.nice
        for number, (known, job) in pairs.items()
        if known.nice != job.nice
    }
    if scheduling.priority_type == "priority/basic":
        repriced = {number: gain for number, gain in gains.items() if gain}
    else:
        age = _weight(scheduling.age_weight)
        most = age + _weight(scheduling.fair_share_weight)
        peers = _gains_of_peers(pairs, gains, niced)
        repriced = {
            number: gain
            for number, gain in gains.items()
            if abs(gain) > most
            # Age may rise for one job and be reset for another, whose begin time was moved.
            or _stands_out(gain, peers[_peer_key(pairs[number][1])], 2 * age)
        }
    repriced = {number: gain for number, gain in repriced.items() if number not in niced}
    if len(pairs) > _FEW_COUNT and 2 * len(repriced) > len(pairs):
        repriced = {}  # Slurm's settings have changed
    return repriced | niced


def _gains_of_peers(
    pairs: _Pairs, gains: _Moves, niced: _Moves
) -> Mapping[tuple[object, ...], Sequence[int]]:
    """Return the gains of the jobs that share a fair-share, sorted; without those by `nice`."""
    found: defaultdict[tuple[object, ...], list[int]] = defaultdict(list)
    for number, (_, job) in pairs.items():
        found[_peer_key(job)] += [gains[number]] if number not in niced else []
    for group in found.values():
        group.sort()
    return found


def _stands_out(gain: int, group: Sequence[int], bound: float) -> bool:
    """Whether a gain differs from all others of its sorted group by more than a bound."""
    if len(group) < 2 or gain not in (group[0], group[-1]):
        return False
    nearest = group[1] if gain == group[0] else group[-2]
    return abs(gain - nearest) > bound


def _peer_key(job: QueuedJob) -> tuple[object, ...]:
    return job.user_id, job.account, job.partition, job.qos


def _known(before: Mapping[int, QueuedJob], job: QueuedJob) -> QueuedJob | None:
    """Return a job as it was, if it asks for the same; its size counts in its priority."""
    known = before.get(job.number)
    return known if known is not None and _identity(known) == _identity(job) else None


def _identity(job: QueuedJob) -> tuple[object, ...]:
    return *_peer_key(job), job.submit_epoch_s, job.restart_count, job.node_count, job.cpu_count


def _rank(job: QueuedJob) -> tuple[int, int]:
    return -job.priority, job.number


def _weight(weight: int | None) -> float:
    """Return how far a part can move a priority; an unknown weight leaves `nice` alone to tell."""
    return inf if weight is None else weight + _ROUNDING
