"""The slots of a pass: each holds a policy and the heuristic that answers when the policy fails.

A policy may raise anything and answer anything. No fault of one escapes `Engine.step` or stops a
pass: the fault is counted, reported once a step by a PolicyFailed action, and the heuristic's
answer is used. The preemption slot is in `preemption_slot`. The score slot is in `scoring.scorer`;
its faults are in the Decision. The run-times slot is in `prediction.run_time.run_time_model`.

| slot       | heuristic                                  |
|------------|--------------------------------------------|
| order      | Slurm's priority, then submission          |
| gate       | every offer is taken                       |
| score      | the linear heuristic                       |
| preemption | no job is stopped                          |
| run-times  | the history of run times                   |
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf
from typing import Protocol, TypeVar

from roost_engine.domain.actions import PolicyFailed
from roost_engine.domain.errors import PolicyError
from roost_engine.domain.model import JobId
from roost_engine.job_record import JobRecord
from roost_engine.policies.heuristics import OpenGate, PriorityOrder, submission_key
from roost_engine.policies.protocols import (
    Allow,
    AlwaysOpen,
    BoundedOrder,
    Defer,
    GatePolicy,
    GateVerdict,
    KeyedOrder,
    NotedOrder,
    Offer,
    OrderPolicy,
    QueueMark,
    QueueView,
    RefreshedOrder,
    RekeyedOrder,
    RunEnded,
    SortKey,
    WaitEnded,
)

RUN_TIMES = "run-times"
"""The slot of the model of run times, where a policy asks for run times."""

# Before each key of an order that may fail.
_ANSWERED, _FAILED = 0, 1

_T = TypeVar("_T")
_LONGEST_REASON = 200
_MOST_STRETCHES = 256  # of failed questions in one action: a bound on the journal's growth


def name_of(policy: object) -> str:
    """Return what people call a policy: its `name`, or that of its class."""
    return str(getattr(policy, "name", type(policy).__name__))


def reason_of(error: Exception, text_of: Callable[[Exception], str] = str) -> str:
    """Return an error's text; the name of its class where the error cannot say it."""
    try:
        return text_of(error)
    except Exception:  # noqa: BLE001  the text of a policy's error is code of the policy too
        return type(error).__name__


class FaultLog:
    """The faults of all slots of one engine.

    Attributes:
        counts: by slot, since the engine began.
        pending: by slot, what the next take() returns, without the questions.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.pending: dict[str, PolicyFailed] = {}
        self._questions: dict[str, list[tuple[int, int]]] = {}

    def note(self, slot: str, policy: str, question: int, error: Exception) -> None:
        """Count a fault; the first one of a slot in each step is reported with its reason.

        Args:
            slot: the slot.
            policy: its policy's name.
            question: number of the question that the policy failed to answer.
            error: what it raised.
        """
        self.counts[slot] += 1
        stretches = self._questions.setdefault(slot, [])
        # (first question, count): 7, 8 and 9 are (7, 3), whose sum is the next question.
        if stretches and sum(stretches[-1]) == question:
            stretches[-1] = (stretches[-1][0], stretches[-1][1] + 1)
        elif len(stretches) < _MOST_STRETCHES:
            stretches.append((question, 1))
        if slot not in self.pending:
            text_of = str if isinstance(error, PolicyError) else repr
            self.pending[slot] = PolicyFailed(
                slot=slot, policy=policy, reason=reason_of(error, text_of)[:_LONGEST_REASON]
            )

    def take(self) -> Sequence[PolicyFailed]:
        """Return what is to be reported since this was last asked."""
        if not self.pending:
            return ()
        pending, self.pending = self.pending, {}
        questions, self._questions = self._questions, {}
        return tuple(
            replace(failed, questions=tuple(questions[slot])) for slot, failed in pending.items()
        )


class PolicySlot:
    """One policy that may fail.

    Args:
        slot: its name.
        policy: the policy.
        faults: where faults are noted.
    """

    def __init__(self, slot: str, policy: object, faults: FaultLog) -> None:
        self.slot, self.name = slot, name_of(policy)
        self._faults, self._asked_count = faults, 0

    def ask(self, question: Callable[[], _T], heuristic: Callable[[], _T]) -> _T:
        """Return the answer of the policy, or that of the heuristic if the policy fails.

        Args:
            question: calls the policy exactly once: a replay numbers the calls.
            heuristic: answers in its place.
        """
        self._asked_count += 1
        try:
            return question()
        except Exception as error:  # noqa: BLE001  whatever a policy raises must not stop a pass
            self._faults.note(self.slot, self.name, self._asked_count - 1, error)
            return heuristic()


def cannot_fail(order: OrderPolicy) -> bool:
    """Return whether an order is the heuristic itself, which is asked without care."""
    return isinstance(order, PriorityOrder)


def key_if_answered(order: OrderPolicy, key: SortKey) -> SortKey:
    """Return a key that an order gave as the order's slot would sort by it."""
    return key if cannot_fail(order) else (_ANSWERED, *key)


class OrderSlot(PolicySlot):
    """Which job is offered GPUs next.

    Attributes:
        is_keyed: whether a job's place depends on that job alone.
        longest_wait_s: see policies.BoundedOrder.
    """

    def __init__(self, policy: OrderPolicy, faults: FaultLog) -> None:
        super().__init__("order", policy, faults)
        self._policy = policy
        self._keyed = policy if isinstance(policy, KeyedOrder) else None
        self.is_keyed = self._keyed is not None
        self._noted = policy if isinstance(policy, NotedOrder) else None
        self._refreshed = policy if isinstance(policy, RefreshedOrder) else None
        self._rekeyed = policy if isinstance(policy, RekeyedOrder) else None
        self.longest_wait_s = policy.longest_wait_s if isinstance(policy, BoundedOrder) else inf
        self._trusted = cannot_fail(policy)
        self._kinds: tuple[bool, ...] | None = None  # which parts of a key are texts

    def key(self, job: JobRecord, at_s: float) -> SortKey:
        """Return what to sort a job by; jobs whose key failed come last, in Slurm's order."""
        keyed, noted = self._keyed, self._noted
        if noted is not None:
            self.ask(lambda: noted.note(job, at_s), lambda: None)
        if keyed is None:
            return ()
        if self._trusted:
            return keyed.key(job, at_s)
        return self.ask(
            lambda: (_ANSWERED, *self._checked(keyed.key(job, at_s))),
            lambda: (_FAILED, *submission_key(job.spec)),
        )

    @property
    def generation(self) -> int:
        """Another number when keys that were returned before have changed."""
        return 0 if self._rekeyed is None else self._rekeyed.generation

    def key_again(self, job: JobRecord, at_s: float) -> SortKey:
        """Return what to sort a job by after the generation has changed."""
        rekeyed = self._rekeyed
        if rekeyed is None:
            return self.key(job, at_s)
        return self.ask(
            lambda: (_ANSWERED, *self._checked(rekeyed.key_again(job, at_s))),
            lambda: (_FAILED, *submission_key(job.spec)),
        )

    def _checked(self, key: SortKey) -> SortKey:
        """Refuse keys that cannot be compared with each other: NaN, or a text beside a number."""
        kinds = tuple([isinstance(part, str) for part in key])
        if self._kinds is None:
            self._kinds = kinds
        if kinds != self._kinds or not all(
            isinstance(part, str | int | float) and part == part for part in key
        ):
            raise PolicyError(f"{self.name} gave the key {key!r}, which cannot be compared")
        return key

    def rank(self, view: QueueView) -> Sequence[JobId]:
        """Return every job of the view once, first served first."""
        return self.ask(lambda: self._permutation(view), lambda: PriorityOrder().rank(view))

    def _permutation(self, view: QueueView) -> Sequence[JobId]:
        ranked = list(self._policy.rank(view))
        wanted = {job.spec.job_id for job in view.jobs}
        if len(ranked) != len(wanted) or set(ranked) != wanted:
            raise PolicyError(
                f"{self.name} ranked {len(ranked)} jobs, not each of the {len(wanted)} queued once"
            )
        return ranked

    def is_outdated(self, ranked: QueueMark, now: QueueMark) -> bool:
        """Return whether the queue must be ranked again."""
        refreshed = self._refreshed
        has_arrivals = ranked.arrival_count != now.arrival_count
        if refreshed is None or has_arrivals:
            return has_arrivals
        return self.ask(lambda: bool(refreshed.is_outdated(ranked, now)), lambda: False)


class GateSlot(PolicySlot):
    """Now, or wait for a better placement.

    Args:
        policy: decides.
        faults: where faults are noted.
        longest_s: of a job's wait since it was queued; after it the job takes what it is offered.
            A gate that has let the job wait and would let it wait on has failed, whatever numbers
            of its own it has. A gate that is asked so late for the first time has not: gates may
            count from a job's first offer.
    """

    def __init__(self, policy: GatePolicy, faults: FaultLog, longest_s: float) -> None:
        super().__init__("gate", policy, faults)
        self._policy, self._longest_s = policy, longest_s
        self.is_open = isinstance(policy, AlwaysOpen)

    def decide(self, offer: Offer) -> GateVerdict:
        """Judge an offer; a failing policy takes it."""
        return self.ask(lambda: self._checked(offer), lambda: OpenGate().decide(offer))

    def _checked(self, offer: Offer) -> GateVerdict:
        verdict = self._policy.decide(offer)
        if isinstance(verdict, Allow):
            return verdict
        if (
            not isinstance(verdict, Defer)
            or not isinstance(verdict.reason, str)
            or not verdict.until_s > offer.at_s
        ):
            raise PolicyError(f"{self.name} answered {verdict!r} at {offer.at_s:g} s")
        latest_s = offer.job.queued_s + self._longest_s
        # It may be a number of numpy, or more than a float can hold.
        until_s = min(float(verdict.until_s), latest_s)
        if offer.at_s >= latest_s:
            if not offer.job.was_deferred:
                return Allow()
            raise PolicyError(
                f"{self.name} lets job {offer.job.job_id} wait on for {verdict.reason!r}, after the"
                f" {self._longest_s:g} s that engine.gate_longest_s allows"
            )
        return verdict if until_s is verdict.until_s else Defer(until_s, verdict.reason)

    def note(self, outcome: WaitEnded) -> None:
        """Tell the policy how a wait came out."""
        self.ask(lambda: self._policy.note(outcome), lambda: None)


class JobPredictor(Protocol):
    """Predicts how long jobs run, and learns from the waits and runs that it is told of."""

    def wait_began(self, job: JobRecord, at_s: float) -> None:
        """Note that a job waits, maybe one that ran and was stopped: it does not run now."""

    def wait_ended(self, outcome: WaitEnded) -> None:
        """Learn how a wait came out."""

    def holds(self, job_id: JobId, user_id: int, gpu_count: int, at_s: float) -> None:
        """Note how many GPUs a job holds now, under Roost or not; 0: it holds none.

        Its user is domain.model.UNKNOWN_USER where the job is not under Roost.
        """

    def run_ended(self, run: RunEnded) -> None:
        """Learn how a job ran. Called once for every run under Roost, at its end."""

    def run_times(self, job: JobRecord, at_s: float) -> "TimesLeft":
        """Return how long a job may still run."""


class TimesLeft(Protocol):
    """How long a job may still run: see prediction.run_time.run_times.RunTimes."""

    def quantile_s(self, frac: float) -> float:
        """Return the seconds that this share of such jobs stays below."""


class PredictorSlot(PolicySlot):
    """What is expected of jobs."""

    def __init__(self, predictors: JobPredictor, faults: FaultLog) -> None:
        super().__init__("prediction", predictors, faults)
        self._predictors = predictors
        # Predictors may ask a model, whose faults count like those of any policy.
        if (report_faults_to := getattr(predictors, "report_faults_to", None)) is not None:
            report_faults_to(faults)

    @property
    def run_times_name(self) -> str | None:
        """The name of what predicts run times; None: nothing does."""
        return getattr(self._predictors, "run_times_name", None)

    def wait_began(self, job: JobRecord, at_s: float) -> None:
        """Report that a job waits. Not by `ask`, for the reason of `holds`."""
        self._predictors.wait_began(job, at_s)

    def wait_ended(self, outcome: WaitEnded) -> None:
        """Report how a wait came out."""
        self.ask(lambda: self._predictors.wait_ended(outcome), lambda: None)

    def holds(self, job_id: JobId, user_id: int, gpu_count: int, at_s: float) -> None:
        """Report how many GPUs a job holds.

        Not by `ask`: it only counts, and calls keep the numbers that earlier journals gave them.
        """
        self._predictors.holds(job_id, user_id, gpu_count, at_s)

    def run_ended(self, run: RunEnded) -> None:
        """Report how a job ran."""
        self.ask(lambda: self._predictors.run_ended(run), lambda: None)

    def run_times(self, job: JobRecord, at_s: float) -> TimesLeft | None:
        """Return how long a job may still run; None if the predictors fail."""
        return self.ask(lambda: self._predictors.run_times(job, at_s), lambda: None)
