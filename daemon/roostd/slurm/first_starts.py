"""The answers to shadow questions about the waiting jobs. Pure: no clock, no I/O.

A job counts as startable when Slurm would start it now, and would get to it: a job ahead of it in
Slurm's order that starts later, on one of the same nodes and before this job would end, reserves
them against it (EASY backfill). Leased jobs are not eligible in Slurm, so that Slurm's own answer
leaves these reservations out.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf

from roost_engine.domain.model import JobId
from roost_slurm.text.commands import Argv

_NOW_S = 2.0  # Slurm answers in whole seconds, and the answer takes its time
_HEAD_COUNT = 32  # different questions of the jobs that come first: they get every other turn
_OPEN_WEIGHT = 3.0  # how much more often a question is asked whose jobs are startable


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedJob:
    """A waiting job and its question.

    Attributes:
        question: alike for jobs that ask for the same.
        time_limit_s: None: it has none.
        is_deferred: a gate lets it wait for better GPUs, and its user can read so.
    """

    job_id: JobId
    question: Argv
    time_limit_s: float | None
    is_deferred: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer to a question, in engine time.

    Attributes:
        asked_s: when the question was asked.
        start_s: when Slurm could start such a job; inf: it names no time.
        nodes: where.
    """

    asked_s: float
    start_s: float = inf
    nodes: frozenset[str] = frozenset()

    @property
    def is_now(self) -> bool:
        """Whether Slurm could start such a job as soon as it was asked."""
        return self.start_s <= self.asked_s + _NOW_S


class FirstStarts:
    """Remembers answers, and since when each waiting job is startable."""

    def __init__(self) -> None:
        self._answers: dict[Argv, Answer] = {}
        self._since_s: dict[JobId, float] = {}  # startable at every judgement since then
        self._first_s: dict[JobId, float] = {}  # startable for the first time
        self._is_tail_next = False

    @property
    def startable_count(self) -> int:
        """The number of waiting jobs that plain Slurm could have started by now."""
        return len(self._since_s)

    def first_s(self, job_id: JobId) -> float | None:
        """Return from when plain Slurm could have started a job; None: not so far."""
        return self._first_s.get(job_id)

    def startable(self) -> Iterator[tuple[JobId, float]]:
        """Yield the waiting jobs that plain Slurm could have started by now, and since when."""
        yield from self._since_s.items()

    def next_question(self, jobs: Sequence[AskedJob], at_s: float) -> Argv | None:
        """Return the question that is asked next: the longest unasked, startable jobs' sooner.

        With n different questions each is asked once in 2 n turns. The first ones in Slurm's order
        and those of startable jobs share every other turn.

        Args:
            jobs: the waiting jobs in Slurm's order.
            at_s: engine time.
        """
        is_open = {job.question for job in jobs if job.job_id in self._since_s}

        def age(question: Argv) -> float:
            answer = self._answers.get(question)
            if answer is None:
                return inf
            return (at_s - answer.asked_s) * (_OPEN_WEIGHT if question in is_open else 1.0)

        questions = list(dict.fromkeys(job.question for job in jobs))
        head = questions[:_HEAD_COUNT]
        head += [question for question in questions[_HEAD_COUNT:] if question in is_open]
        tail = [question for question in questions[_HEAD_COUNT:] if question not in is_open]
        self._is_tail_next = bool(tail) and not self._is_tail_next
        return max(head if not self._is_tail_next else tail, key=age, default=None)

    def note(self, question: Argv, answer: Answer) -> None:
        """Store an answer in the place of an earlier one."""
        self._answers[question] = answer

    def judge(self, jobs: Sequence[AskedJob], at_s: float) -> None:
        """Note which jobs are startable, in Slurm's order.

        Args:
            jobs: the waiting jobs in Slurm's order.
            at_s: engine time.
        """
        ahead: dict[Argv, Answer] = {}  # answers that jobs ahead got, without those of now
        is_known = True
        for job in jobs:
            answer = self._answers.get(job.question)
            is_known = is_known and answer is not None
            if answer is None or not is_known or not _is_startable(job, answer, ahead, at_s):
                self._since_s.pop(job.job_id, None)
            else:
                self._first_s.setdefault(job.job_id, answer.asked_s)
                self._since_s.setdefault(job.job_id, answer.asked_s)
            if job.is_deferred:
                self._first_s.pop(job.job_id, None)
            if answer is not None and not answer.is_now:
                ahead[job.question] = answer

    def due(self, jobs: Sequence[AskedJob], longest_s: float) -> Iterator[tuple[JobId, float]]:
        """Yield the jobs that have been startable for too long, and since when.

        Both ends of that time are answers: the last one must be that recent.

        Args:
            jobs: the waiting jobs.
            longest_s: how long a startable job may wait.
        """
        for job in jobs:
            since_s = self._since_s.get(job.job_id)
            if since_s is not None and self._answers[job.question].asked_s - since_s >= longest_s:
                yield job.job_id, since_s

    def keep(self, waiting: frozenset[JobId], jobs: Sequence[AskedJob]) -> None:
        """Forget the jobs that do not wait any more, and answers to questions of no job."""
        for job_id in [*self._since_s.keys() - waiting, *self._first_s.keys() - waiting]:
            self._since_s.pop(job_id, None)
            self._first_s.pop(job_id, None)
        questions = {job.question for job in jobs}
        self._answers = {one: answer for one, answer in self._answers.items() if one in questions}


def _is_startable(job: AskedJob, answer: Answer, ahead: dict[Argv, Answer], at_s: float) -> bool:
    if job.is_deferred or not answer.is_now:
        return False
    end_s = inf if job.time_limit_s is None else at_s + job.time_limit_s
    return all(
        other.start_s == inf or other.start_s >= end_s or other.nodes.isdisjoint(answer.nodes)
        for other in ahead.values()
    )
