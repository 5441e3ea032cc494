"""Runs a paused simulation ahead: what would each of some candidates have come to?

Each candidate is carried out in a copy of the simulation (`environments.copies`), which continues
until the horizon. All candidates of a decision meet the same later arrivals and run times, so their
outcomes may be compared.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from roost_train.environments.copies import Report, run_copies
from roost_train.environments.decision_run import Choices, DecisionRun
from roost_train.environments.paused_run import PausedRun
from roost_train.environments.slot_run import SlotRun
from roost_train.improvement.rollout import Decider


@dataclass(frozen=True, slots=True)
class Ahead:
    """How far to run ahead, and the policy that decides there.

    Attributes:
        ahead_s: from the decision; inf: to the end of the episode.
        follow: decides after the candidate; None: the engine by the run's teacher, which is much
            faster, since nothing need be described.
    """

    ahead_s: float
    follow: Decider | None = None

    def outcomes(
        self, run: DecisionRun, choices: Choices[Any], actions: Sequence[int]
    ) -> NDArray[np.float64]:
        """Return the reward from now to the horizon after each action, [action].

        Args:
            run: waits for a decision; it stays as it is.
            choices: the decision.
            actions: allowed ones.

        Raises:
            TrainError: a simulation failed.
        """
        if isinstance(run, SlotRun):
            return run.outcomes(actions, self.ahead_s, self._follower(run))
        assert isinstance(run, PausedRun)
        found = run_copies(len(actions))
        if isinstance(found, tuple):
            number, report = found
            self._carry_out(run, choices, actions[number], report)
        return found

    def _carry_out(
        self, run: PausedRun, choices: Choices[Any], action: int, report: Report
    ) -> NoReturn:
        """Continue in the copy, and end it."""
        try:
            outcome = self._reward_after(run, choices, action)
        except BaseException as error:  # noqa: BLE001  reported to the original, which raises it
            report.failure(error)
        report.outcome(outcome)

    def _reward_after(self, run: PausedRun, choices: Choices[Any], action: int) -> float:
        run.end_at(choices.at_s + self.ahead_s)
        run.choose(action)
        if self.follow is None:
            run.hand_over()
        total = 0.0
        while (found := run.next_choices()) is not None:
            assert self.follow is not None, "a run that was handed over has no decisions"
            total += found.reward
            run.choose(self.follow([run], [found])[0])
        return total + run.take_reward()

    def _follower(self, run: SlotRun) -> "_Follower | None":
        return None if self.follow is None else _Follower(run, self.follow)


@dataclass(frozen=True, slots=True)
class _Follower:
    """Decides in a copy of a slot run."""

    run: SlotRun
    decide: Decider

    def __call__(self, choices: Choices[Any]) -> int:
        return self.decide([self.run], [choices])[0]
