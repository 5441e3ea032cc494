"""The policies of a run that is repeated: each fails where it failed when the run was recorded.

Whether a policy answered in time depended on the machine, not on the events. So no policy of a
replay is too slow, and every fault is taken from the record, like an event.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from roost_engine.domain.actions import Action, Place, PolicyFailed
from roost_engine.domain.errors import PolicyError
from roost_engine.plugins.plugins import Policies
from roost_engine.policies.canary import CanaryScore
from roost_engine.policies.heuristics import NoPreemption, OpenGate, PriorityOrder
from roost_engine.policies.protocols import ClusterScore, ScorePolicy, ScoreQuestion
from roost_engine.policies.slots import RUN_TIMES, name_of

_T = TypeVar("_T")
_FAILED = b'"$":"PolicyFailed"'
_REASON, _NO_REASON = b'"fallback_reason":', b'"fallback_reason":""'


def may_hold_fault(actions: bytes) -> bool:
    """Return whether the recorded actions of a step may tell of a fault; True may be wrong."""
    return _FAILED in actions or actions.count(_REASON) != actions.count(_NO_REASON)


class RecordedScore:
    """A run's model, which fails to score where it failed then.

    Args:
        model: the model.
        beside: the other model of a canary: the placements of a step are scored by both in turn,
            so they share the record of what failed.
    """

    def __init__(self, model: ScorePolicy, beside: "RecordedScore | None" = None) -> None:
        self._model, self.name = model, model.name
        self._failures: list[str] = [] if beside is None else beside._failures

    def expect(self, recorded: Sequence[Action]) -> None:
        """Fail in the next step where these actions, recorded of it, say that the model failed."""
        self._failures[:] = [
            action.decision.get().fallback_reason
            for action in recorded
            if isinstance(action, Place)
        ]

    @staticmethod
    def of(model: ScorePolicy, beside: "RecordedScore | None" = None) -> "RecordedScore":
        """Wrap a model, so that the engine asks the same questions as it asked the model."""
        if isinstance(model, ClusterScore):
            return RecordedClusterScore(model, beside)
        return RecordedScore(model, beside)

    def score(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """See policies.ScorePolicy."""
        self._fail_as_recorded()
        return self._model.score(features)

    def _fail_as_recorded(self) -> None:
        reason = self._failures.pop(0) if self._failures else ""
        if reason:
            raise PolicyError(reason)


class RecordedClusterScore(RecordedScore):
    """The same for a model that reads the cluster too."""

    def __init__(self, model: ClusterScore, beside: RecordedScore | None = None) -> None:
        super().__init__(model, beside)
        self._reader = model

    def score_within(self, question: ScoreQuestion) -> NDArray[np.float32]:
        """See policies.ClusterScore."""
        self._fail_as_recorded()
        return self._reader.score_within(question)


# The methods by which the engine asks the policy of each slot.
_QUESTIONS: Mapping[str, Sequence[str]] = {
    "order": ("rank", "key", "key_again", "note", "is_outdated"),
    "gate": ("decide", "note"),
    "preemption": (
        "lease_s",
        "first_to_go",
        "displaces",
        "review_s",
        "approve",
        "movers",
        "approve_move",
    ),
    "prediction": ("wait_ended", "run_ended", "run_times"),
    RUN_TIMES: ("ending_fracs",),
}
_HEURISTICS = (PriorityOrder, OpenGate, NoPreemption)


class RecordedFaults:
    """A run's policy of one slot, which fails at the questions that it failed to answer then.

    The policy is asked nevertheless: it learns what a policy learns that answers too late, and a
    fault that does not depend on time occurs by itself.
    """

    def __init__(self, policy: object) -> None:
        self._policy, self.name = policy, name_of(policy)
        self._asked_count = 0
        self._failed: PolicyFailed | None = None

    def __getattr__(self, name: str) -> Any:
        """Return what the engine reads of the policy without asking it."""
        return getattr(self._policy, name)

    @classmethod
    def of(cls, slot: str, policy: _T) -> _T:
        """Wrap the policy of a slot. A heuristic stays as it is: it cannot fail."""
        if policy is None or isinstance(policy, _HEURISTICS):
            return policy
        # The engine looks for optional methods in the policy's class, so the wrapper's class has
        # exactly those of them that the policy's class has.
        methods: dict[str, object] = {
            name: _asking(name) for name in _QUESTIONS[slot] if hasattr(type(policy), name)
        }
        if slot == "preemption":
            methods["renews_leases"] = property(
                lambda self: self.ask(lambda: self._policy.renews_leases)
            )
        return cast(_T, type(cls.__name__, (cls,), methods)(policy))

    def expect(self, failed: PolicyFailed) -> None:
        """Fail in the next step as was recorded."""
        self._failed = failed

    def ask(self, question: Callable[[], _T]) -> _T:
        """Return the policy's answer, or raise what was recorded in its place."""
        number, failed = self._asked_count, self._failed
        self._asked_count += 1
        answer = question()
        if failed and any(0 <= number - first < count for first, count in failed.questions):
            raise PolicyError(failed.reason)
        return answer


def _asking(name: str) -> Callable[..., object]:
    def method(self: RecordedFaults, *arguments: object) -> object:
        return self.ask(lambda: getattr(self._policy, name)(*arguments))

    return method


class FaultReplay:
    """The policies of a run with their recorded faults.

    Args:
        policies: those that roostd made for the run; a model that scores is a RecordedScore, and
            one of run times a RecordedFaults.

    Attributes:
        policies: the same, each able to fail as recorded.
    """

    def __init__(self, policies: Policies) -> None:
        self.policies = replace(
            policies,
            order=RecordedFaults.of("order", policies.order),
            gate=RecordedFaults.of("gate", policies.gate),
            preemption=RecordedFaults.of("preemption", policies.preemption),
            predictors=RecordedFaults.of("prediction", policies.predictors),
        )
        self._slots: Mapping[str, object] = {
            "order": self.policies.order,
            "gate": self.policies.gate,
            "preemption": self.policies.preemption,
            "prediction": self.policies.predictors,
            RUN_TIMES: policies.predictors and policies.predictors.run_time_model,
        }

    def expect(self, recorded: Sequence[Action]) -> None:
        """Let the policies fail in the next step as these actions, recorded of it, say.

        The questions of a step have numbers of their own, so nothing is left for a later step.
        """
        score = self.policies.score
        if isinstance(score, CanaryScore):
            score = score.active if isinstance(score.active, RecordedScore) else score.candidate
        if isinstance(score, RecordedScore):
            score.expect(recorded)
        for action in recorded:
            if isinstance(action, PolicyFailed):
                policy = self._slots.get(action.slot)
                if isinstance(policy, RecordedFaults):
                    policy.expect(action)
