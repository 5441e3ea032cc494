"""Where episodes are played: in this process, or on a Ray cluster (`ray_rollouts`).

Episodes are played in groups of fixed size, one call of the network for the decisions of a group,
and the groups are put together in the order of their seeds. How a network's sums are rounded
depends on how many decisions are in a call, so groups are the same wherever they are played, and so
is what is learned from them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from roost_train.environments.decision_run import Choices, DecisionRun, Seen
from roost_train.environments.decisions import Trial
from roost_train.environments.episodes import Episodes
from roost_train.improvement.rollout import Trajectory, play, teacher

GROUP_COUNT = 8  # episodes; fewer decisions in a call make the network dearer

Meter = Callable[[int], None]


class Player(Protocol):
    """A rollout.Decider that can be sent to another process."""

    @property
    def trials(self) -> Sequence[Trial]:
        """The decisions that it has tried so far; none where it tries nothing."""

    def __call__(
        self, runs: Sequence[DecisionRun], choices: Sequence[Choices[Seen]]
    ) -> Sequence[int]:
        """See rollout.Decider."""


class Teacher:
    """A Player: decides as the order of each run's policy does."""

    trials: Sequence[Trial] = ()

    def __call__(
        self, runs: Sequence[DecisionRun], choices: Sequence[Choices[Seen]]
    ) -> Sequence[int]:
        """See rollout.Decider."""
        return teacher(runs, choices)


@dataclass(slots=True)
class Rollout:
    """Episodes that were played.

    Attributes:
        trajectories: in the order of the seeds.
        trials: what the player tried, by group and then in order of time.
    """

    trajectories: list[Trajectory] = field(default_factory=list)
    trials: list[Trial] = field(default_factory=list)


class RolloutEngine(Protocol):
    """Plays episodes somewhere."""

    def collect(
        self, episodes: Episodes, seeds: Sequence[int], player: Player, after: Meter
    ) -> Rollout:
        """Play the episodes of these seeds to their ends.

        Args:
            episodes: what is simulated.
            seeds: one for each episode.
            player: fresh; it decides.
            after: called with the number of episodes that are over.
        """


class InProcess:
    """A RolloutEngine: one group after the other, in this process."""

    def collect(
        self,
        episodes: Episodes,
        seeds: Sequence[int],
        player: Player,
        after: Meter = lambda done_count: None,
    ) -> Rollout:
        """See RolloutEngine."""
        found = Rollout()
        for group in groups(seeds):
            found.trajectories += play(
                episodes, group, player, partial(_add, after, len(found.trajectories))
            )
        found.trials += player.trials
        return found


def _add(after: Meter, before: int, count: int) -> None:
    after(before + count)


def groups(seeds: Sequence[int]) -> list[Sequence[int]]:
    """Return the seeds of the episodes that are played side by side."""
    return [seeds[begin : begin + GROUP_COUNT] for begin in range(0, len(seeds), GROUP_COUNT)]
