"""Runs a paused simulation ahead: what would each of some candidates have come to?

The engine is far too much state to copy piece by piece, and a copy that shares any piece with the
original would be wrong without a sign. So the process is forked: the operating system copies all
of it, a child carries one candidate out, continues until the horizon, writes one number into a pipe
and ends. The original has not moved. All candidates of a decision meet the same later arrivals and
run times, so their outcomes may be compared.
"""

import os
import signal
import struct
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from roost_train.environments.paused_run import OrderChoices, PausedRun
from roost_train.errors import TrainError
from roost_train.improvement.rollout import Decider

_OUTCOME = struct.Struct("<d")
_MOST_TEXT = 2_000  # characters of a child's error


@dataclass(frozen=True, slots=True)
class Ahead:
    """How far to run ahead, and the policy that decides there.

    Attributes:
        ahead_s: from the decision; inf: to the end of the episode.
        follow: decides after the candidate; None: the engine by the run's teacher, which is much
            faster, since the queue need not be described.
    """

    ahead_s: float
    follow: Decider | None = None

    def outcomes(
        self, run: PausedRun, choices: OrderChoices, actions: Sequence[int]
    ) -> NDArray[np.float64]:
        """Return the reward from now to the horizon after each action, [action].

        Args:
            run: waits for a decision; it stays as it is.
            choices: the decision.
            actions: allowed ones.

        Raises:
            TrainError: a simulation failed.
        """
        children = list[_Child]()
        try:
            for action in actions:
                children.append(self._begin(run, choices, action))
            return np.array([child.outcome() for child in children])
        finally:
            for child in children:
                child.end()

    def _begin(self, run: PausedRun, choices: OrderChoices, action: int) -> "_Child":
        ours, theirs = os.pipe()
        with warnings.catch_warnings():
            # Python 3.12 warns of the idle threads of numpy's linear algebra; the child needs none.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid:
            os.close(theirs)
            return _Child(pid, ours)
        exit_code = 1
        try:  # the child: it must end here, whatever happens, and must not run its parent's cleanup
            os.close(ours)
            os.write(theirs, _OUTCOME.pack(self._reward_after(run, choices, action)))
            exit_code = 0
        except BaseException as error:  # noqa: BLE001  reported to the parent, which raises it
            os.write(theirs, f"{type(error).__name__}: {error}".encode()[:_MOST_TEXT])
        finally:
            os._exit(exit_code)

    def _reward_after(self, run: PausedRun, choices: OrderChoices, action: int) -> float:
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


@dataclass(slots=True)
class _Child:
    pid: int
    pipe: int
    is_over: bool = False

    def outcome(self) -> float:
        """Wait for the child and return what it found."""
        with os.fdopen(self.pipe, "rb", closefd=False) as file:
            content = file.read()
        _, status = os.waitpid(self.pid, 0)
        self.is_over = True
        if status or len(content) != _OUTCOME.size:
            reason = content.decode(errors="replace") or f"its process ended with status {status}"
            raise TrainError(f"a simulation that was run ahead failed: {reason}")
        return float(_OUTCOME.unpack(content)[0])

    def end(self) -> None:
        """Close the pipe, and stop the child if it still runs."""
        os.close(self.pipe)
        if not self.is_over:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
