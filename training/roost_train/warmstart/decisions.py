"""What the incumbent decided, as pairs of waiting jobs: one was started, the other passed over.

Real starts, of sacct's text or of roostd's journal, tell less than an order: a pair counts only if
the job that was passed over needs no more GPUs, because it would have fitted wherever the other one
started. A heuristic that is simulated on a trace is asked for its whole ranking.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from math import inf
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from roost_engine.cluster.cluster import Cluster
from roost_engine.domain.model import JobId, JobSpec
from roost_engine.job_record import JobRecord, JobState
from roost_engine.policies.protocols import (
    KeyedOrder,
    NotedOrder,
    OrderPolicy,
    QueueView,
    RekeyedOrder,
    SortKey,
)
from roost_engine.prediction.predictors import Predictors
from roost_engine.queue.model_order import JOB_COLUMNS, Expectations, job_features
from roost_sim.traces.arrival import Arrival

Floats: TypeAlias = NDArray[np.float32]

_QUEUE_LIMIT = 256  # jobs of the queue that a decision looks at
_PAIRS_OF_DECISION = 8
_PAIRS_OF_RANKING = 32


@dataclass(frozen=True, slots=True)
class Preferences:
    """Pairs of jobs.

    Attributes:
        started, passed_over: float32 [pair, JOB_COLUMNS].
    """

    started: Floats
    passed_over: Floats

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self.started)


def preferences(
    jobs: Sequence[Arrival],
    starts_s: Mapping[JobId, float],
    most: int,
    seed: int = 0,
) -> Preferences:
    """Return what the starts say of the order.

    Args:
        jobs: the jobs, with their run times.
        starts_s: when each one started; those that are missing never did.
        most: pairs at most; of more, a sample.
        seed: of the sample.
    """
    follower = _Follower(np.random.default_rng(seed))
    known = [job for job in jobs if job.spec.job_id in starts_s]
    arrivals = sorted(known, key=lambda job: job.spec.submit_s)
    by_start = sorted(known, key=lambda job: (starts_s[job.spec.job_id], job.spec.submit_s))
    number = 0
    for job in by_start:
        at_s = starts_s[job.spec.job_id]
        while number < len(arrivals) and arrivals[number].spec.submit_s <= at_s:
            follower.queue(arrivals[number].spec)
            number += 1
        follower.start(job, at_s)
    return follower.sample(most)


class Lessons:
    """Pairs of rankings that a teacher has made: what it would do with any queue.

    Args:
        predictors: what is expected of jobs.
        seed: of the pairs.
        until_s: nothing that happens later is remembered.
    """

    def __init__(self, predictors: Predictors, seed: int, until_s: float = inf) -> None:
        self._expectations, self._until_s = Expectations(predictors), until_s
        self._random = np.random.default_rng(seed)
        self._pairs: list[tuple[Floats, Floats]] = []

    def queue(self, job: JobRecord, at_s: float) -> None:
        """Remember what is expected of a job that was queued."""
        self._expectations.note(job, at_s)

    def note(self, ranked: Sequence[JobRecord], at_s: float) -> None:
        """Remember some pairs of a ranking, first served first."""
        if len(ranked) < 2 or at_s >= self._until_s:
            return
        first = ranked[:_QUEUE_LIMIT]
        view = QueueView(jobs=first, cluster=Cluster(), at_s=at_s)
        found = job_features(view, self._expectations.of)
        for _ in range(_PAIRS_OF_RANKING):
            one, other = np.sort(self._random.choice(len(first), size=2, replace=False)).tolist()
            self._pairs.append((found[one], found[other]))

    def preferences(self, most: int) -> Preferences:
        """Return what was remembered; of more pairs, a sample."""
        return _sampled(self._pairs, most, self._random)


class RankingTeacher:
    """An order without keys, as it decides, whose rankings become lessons.

    Args:
        teacher: ranks.
        lessons: receive the rankings.
    """

    def __init__(self, teacher: OrderPolicy, lessons: Lessons) -> None:
        self._teacher, self._lessons = teacher, lessons

    def note(self, job: JobRecord, at_s: float) -> None:
        """See NotedOrder."""
        if isinstance(self._teacher, NotedOrder):
            self._teacher.note(job, at_s)
        self._lessons.queue(job, at_s)

    def rank(self, view: QueueView) -> Sequence[JobId]:
        """See OrderPolicy."""
        ranked = self._teacher.rank(view)
        jobs = {job.job_id: job for job in view.jobs}
        self._lessons.note([jobs[job_id] for job_id in ranked], view.at_s)
        return ranked


class KeyedTeacher:
    """An order of keys, as it decides, whose queue becomes lessons whenever a job joins it.

    The keys are asked as the engine asks for them, when a job is queued: a teacher that is asked
    for a ranking instead predicts again each time, and is another order.

    Args:
        teacher: gives the keys.
        lessons: receive the rankings.
    """

    def __init__(self, teacher: KeyedOrder, lessons: Lessons) -> None:
        self._teacher, self._lessons = teacher, lessons
        self._rekeyed = teacher if isinstance(teacher, RekeyedOrder) else None
        self._waiting: dict[JobId, tuple[SortKey, JobRecord]] = {}

    def rank(self, view: QueueView) -> Sequence[JobId]:
        """See OrderPolicy."""
        return self._teacher.rank(view)

    @property
    def generation(self) -> int:
        """See RekeyedOrder."""
        return 0 if self._rekeyed is None else self._rekeyed.generation

    def key(self, job: JobRecord, at_s: float) -> SortKey:
        """See KeyedOrder."""
        key = self._teacher.key(job, at_s)
        self._lessons.queue(job, at_s)
        known = (*self._waiting.items(), (job.job_id, (key, job)))
        self._waiting = {
            job_id: entry for job_id, entry in known if entry[1].state is JobState.WAITING
        }
        ranked = sorted(self._waiting.values(), key=lambda entry: entry[0])
        self._lessons.note([record for _, record in ranked], at_s)
        return key

    def key_again(self, job: JobRecord, at_s: float) -> SortKey:
        """See RekeyedOrder."""
        asked = self._teacher.key if self._rekeyed is None else self._rekeyed.key_again
        key = asked(job, at_s)
        self._waiting[job.job_id] = key, job
        return key


class _Follower:
    """The queue as the incumbent saw it, and what was known of the jobs when they came."""

    def __init__(self, random: np.random.Generator) -> None:
        self._random, self._predictors = random, Predictors()
        self._expectations = Expectations(self._predictors)
        self._waiting: dict[JobId, JobRecord] = {}
        self._running: list[tuple[float, JobId, JobSpec, float]] = []
        self._pairs: list[tuple[Floats, Floats]] = []

    def queue(self, spec: JobSpec) -> None:
        self._learn(spec.submit_s)
        record = JobRecord(spec=spec, state=JobState.WAITING, queued_s=spec.submit_s)
        self._waiting[spec.job_id] = record
        self._expectations.note(record, spec.submit_s)

    def start(self, job: Arrival, at_s: float) -> None:
        self._learn(at_s)
        self._predictors.backlog.start(job.spec.job_id, job.spec.gpu_count)
        self._predictors.skill.begin(job.spec.job_id)
        started = self._waiting.pop(job.spec.job_id, None)
        heappush(self._running, (at_s + job.work_s, job.spec.job_id, job.spec, job.work_s))
        if started is None:
            return
        others = [
            record
            for record in list(self._waiting.values())[:_QUEUE_LIMIT]
            if record.spec.gpu_count <= started.spec.gpu_count
        ]
        if others:
            self._note(started, others, at_s)

    def sample(self, most: int) -> Preferences:
        return _sampled(self._pairs, most, self._random)

    def _note(self, started: JobRecord, others: Sequence[JobRecord], at_s: float) -> None:
        count = min(len(others), _PAIRS_OF_DECISION)
        chosen = self._random.choice(len(others), size=count, replace=False)
        # The places in Slurm's order are those among all waiting jobs, so all of these are seen.
        seen = [started, *list(self._waiting.values())[:_QUEUE_LIMIT]]
        place_of = {record.job_id: place for place, record in enumerate(seen)}
        view = QueueView(jobs=seen, cluster=Cluster(), at_s=at_s)
        found = job_features(view, self._expectations.of)
        for number in chosen.tolist():
            self._pairs.append((found[0], found[place_of[others[number].job_id]]))

    def _learn(self, at_s: float) -> None:
        """Let the history have the jobs that have ended by now."""
        while self._running and self._running[0][0] <= at_s:
            ended_s, _, spec, work_s = heappop(self._running)
            self._predictors.backlog.end(spec.job_id)
            self._predictors.history.add(spec, work_s, ended_s)
            self._predictors.skill.end(spec.job_id, work_s)


def _sampled(
    pairs: Sequence[tuple[Floats, Floats]], most: int, random: np.random.Generator
) -> Preferences:
    if len(pairs) > most:
        chosen = random.choice(len(pairs), size=most, replace=False)
        pairs = [pairs[number] for number in np.sort(chosen)]
    if not pairs:
        nothing = np.zeros((0, len(JOB_COLUMNS)), np.float32)
        return Preferences(nothing, nothing)
    started, passed_over = zip(*pairs, strict=True)
    return Preferences(np.stack(started), np.stack(passed_over))
