"""The cap on waits: a job that plain Slurm could have started for a while is left to plain Slurm.

It covers what Roost does not know of Slurm's rules, and Roost's own faults. Slurm is asked about
waiting jobs one at a time, seldom, and more seldom where it takes long to answer.
"""

import asyncio
import time
from collections.abc import Iterator
from operator import attrgetter

import structlog

from roost_engine.domain.errors import SlurmError
from roost_engine.domain.model import JobId
from roost_engine.job_record import JobRecord, JobState
from roost_slurm.text.commands import Argv
from roost_slurm.text.scontrol import JobDetail
from roost_slurm.text.shadow_question import question
from roost_slurm.text.squeue import QueuedJob
from roostd.app.polls.slurm_watch import SlurmWatch
from roostd.ops.metrics import Metrics
from roostd.slurm.first_starts import Answer, AskedJob, FirstStarts
from roostd.slurm.port import SlurmPort
from roostd.slurm.queue_view import PendingJob
from roostd.state import BeyondSlurm, DaemonState

_log = structlog.get_logger(__name__)

TURN_S = 1.0
_QUESTIONS_PER_POLL = 3
_MOST_TIME_FRAC = 0.02  # of the time, for which a question or a turn may last
_RETRY_S = 60.0  # after a question that Slurm did not judge
_PLACING_S = 3.0  # Roost starts a job that fits sooner than this
_MOST_JOBS = 500  # the first in Slurm's order; of the others, the first with each request
_MOST_REQUESTS = 1_000  # of those others
# What a question depends on; two jobs with different ones may still share a question.
_request_of = attrgetter(
    *("user_id", "account", "qos", "partition", "tres", "tres_total", "node_count", "task_count"),
    *("cpus_per_task", "tasks_per_node", "time_limit_s", "features", "licenses"),
    *("memory_bytes", "required_nodes", "over_subscribe"),
)


class ShadowQuestions:
    """Asks Slurm when it could start the waiting jobs, and hands over those that wait too long.

    Args:
        slurm: the cluster.
        state: the daemon's; the engine knows which jobs wait for what.
        metrics: counts.
        watch: has the queue, and leaves a job to plain Slurm.
    """

    def __init__(
        self, slurm: SlurmPort, state: DaemonState, metrics: Metrics, watch: SlurmWatch
    ) -> None:
        self._slurm, self._state, self._metrics, self._watch = slurm, state, metrics, watch
        self._starts = FirstStarts()
        self._waited = frozenset[JobId]()
        self._ask_at_s = 0.0
        self._fault = ""
        self._longest: tuple[float, JobId] = (0.0, JobId(""))  # since the daemon began
        self._questions: dict[int, tuple[QueuedJob, JobDetail, Argv | None]] = {}

    async def run(self) -> None:
        """Ask and hand over until cancelled."""
        while True:
            began_s = time.monotonic()
            await self.turn()
            took_s = time.monotonic() - began_s
            await asyncio.sleep(max(TURN_S, took_s / _MOST_TIME_FRAC))

    async def turn(self) -> None:
        """Ask one question if it is time, and hand over the jobs that are due."""
        now_s = self._state.clock.now_s()
        waiting, first = await self._read_queue(now_s)
        jobs = list(self._asked_jobs(first, now_s)) if self._is_on else []
        self._observe_starts(waiting, jobs, now_s)
        if now_s >= self._ask_at_s:
            asked = self._starts.next_question(jobs, now_s)
            if asked is not None:
                await self._ask(asked, now_s)
        self._starts.judge(jobs, now_s)
        for job_id, since_s in list(self._starts.due(jobs, self._state.config.slurm.hand_over_s)):
            self._hand_over(job_id, since_s)
        self._metrics.jobs_beyond_slurm.set(self._starts.startable_count)
        self._note_waits(now_s)

    @property
    def _is_on(self) -> bool:
        return self._state.config.slurm.shadow_questions and not self._state.slurm_fault

    def _note_waits(self, now_s: float) -> None:
        """Tell operators of the waits that plain Slurm would not have.

        A wait counts as beyond the cap only after a further poll interval: the question that ends
        it may take that long.
        """
        if not self._is_on or self._fault:
            self._state.beyond_slurm = None
            return
        slurm = self._state.config.slurm
        waits = [(now_s - since_s, job_id) for job_id, since_s in self._starts.startable()]
        self._longest = max([self._longest, *waits])
        limit_s = slurm.hand_over_s + slurm.poll_interval_s
        self._state.beyond_slurm = BeyondSlurm(
            longest_s=self._longest[0],
            job_id=self._longest[1] or None,
            beyond_cap_count=sum(waited_s > limit_s for waited_s, _ in waits),
        )

    async def _read_queue(self, now_s: float) -> tuple[list[PendingJob], list[PendingJob]]:
        """Return the waiting jobs, and those of them to look at; a long queue's in a thread."""

        def read() -> tuple[list[PendingJob], list[PendingJob]]:
            waiting = list(self._watch.waiting_jobs())
            bound = [one for one in waiting if one.spec.binding and one.spec.eligible_s <= now_s]
            return waiting, list(_first_of_each(sorted(bound, key=_slurm_rank)))

        return await asyncio.to_thread(read) if self._watch.is_queue_long else read()

    def _asked_jobs(self, first: list[PendingJob], now_s: float) -> Iterator[AskedJob]:
        """Yield the jobs that wait for capacity, or for whatever Roost says, in Slurm's order."""
        for one in first:
            record = self._state.engine.managed(one.spec.job_id)
            if record is None or now_s < record.queued_s + _PLACING_S:
                continue
            argv = self._question(one)
            if argv is not None:
                yield AskedJob(
                    job_id=record.job_id,
                    question=argv,
                    time_limit_s=one.spec.time_limit_s,
                    is_deferred=is_deferred(record, now_s),
                )

    def _question(self, one: PendingJob) -> Argv | None:
        """Return a job's question, built once for each state of its record."""
        known = self._questions.get(one.job.number)
        if known is None or known[:2] != (one.job, one.detail):
            argv = question(one.job, one.detail, can_untype=self._state.can_pin_again)
            known = self._questions[one.job.number] = one.job, one.detail, argv
        return known[2]

    def _observe_starts(
        self, waiting: list[PendingJob], jobs: list[AskedJob], now_s: float
    ) -> None:
        """Observe how long the jobs that started since the last turn were startable before."""
        present = frozenset(one.spec.job_id for one in waiting)
        for job_id in self._waited - present:
            if self._watch.is_running(job_id):
                first_s = self._starts.first_s(job_id)
                waited_s = 0.0 if first_s is None else now_s - first_s
                self._metrics.beyond_slurm_s.observe(waited_s)
                if waited_s > self._longest[0]:
                    self._longest = waited_s, job_id
        if self._waited - present:
            numbers = {one.job.number for one in waiting}
            for number in self._questions.keys() - numbers:
                del self._questions[number]
        self._waited = present
        self._starts.keep(present, jobs)

    async def _ask(self, argv: Argv, now_s: float) -> None:
        began_s = time.monotonic()
        try:
            answer = await self._slurm.first_start(argv)
        except SlurmError as error:
            self._metrics.slurm_failures.labels("question").inc()
            if not self._fault:
                _log.warning("slurm_not_asked", error=str(error))
            self._fault, self._ask_at_s = str(error), now_s + _RETRY_S
            return
        self._fault = ""
        took_s = time.monotonic() - began_s
        interval_s = self._state.config.slurm.poll_interval_s / _QUESTIONS_PER_POLL
        self._ask_at_s = now_s + max(interval_s, took_s / _MOST_TIME_FRAC)
        if answer is None:
            self._starts.note(argv, Answer(now_s))
            return
        start_s = self._state.clock.to_engine_s(answer.at_epoch_s)
        self._starts.note(argv, Answer(now_s, start_s, answer.nodes))

    def _hand_over(self, job_id: JobId, since_s: float) -> None:
        waited_s = self._state.clock.now_s() - since_s
        record = self._state.engine.managed(job_id)
        if record is None or record.state is not JobState.WAITING:
            return  # Slurm is being asked to start it; it waits again where that fails
        reason = f"left to Slurm, which could have started it {waited_s:.0f} s ago"
        self._watch.hand_over(job_id, reason)
        self._metrics.hand_overs.labels("shadow").inc()
        self._metrics.beyond_slurm_s.observe(waited_s)
        _log.warning("job_handed_over", job_id=job_id, startable_s=round(waited_s))


def is_deferred(record: JobRecord, now_s: float) -> bool:
    """Return whether a gate lets a job wait for better GPUs: its user knows until when.

    A pause after a refusal, and the end of a wait for the only GPUs of a job, are no such promise.
    """
    until_s = record.until_s
    if (
        until_s is None
        or until_s <= now_s
        or until_s
        in (
            record.not_before_s,
            record.hand_over_at_s,
        )
    ):
        return False
    return any(since_s is not None for since_s in record.declined_s)


def _first_of_each(waiting: list[PendingJob]) -> Iterator[PendingJob]:
    """Yield the jobs to look at, in Slurm's order: the first ones, then one for each request."""
    seen = {_request_of(one.job) for one in waiting[:_MOST_JOBS]}
    yield from waiting[:_MOST_JOBS]
    last_count = len(seen) + _MOST_REQUESTS
    for one in waiting[_MOST_JOBS:]:
        request = _request_of(one.job)
        if request not in seen and len(seen) < last_count:
            seen.add(request)
            yield one


def _slurm_rank(one: PendingJob) -> tuple[int, int, int]:
    return -one.spec.priority_tier, -one.job.priority, one.job.number
