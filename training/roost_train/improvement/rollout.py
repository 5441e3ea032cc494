"""Whole episodes played side by side: one call of a network for the decisions of all of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from roost_sim.runs.simulation import few_collections
from roost_train.environments.decision_run import Choices, DecisionRun, Seen
from roost_train.environments.decisions import Decision
from roost_train.environments.episodes import Episodes


@dataclass(slots=True)
class Trajectory:
    """One episode from its first decision to its end.

    Attributes:
        seed: of the episode.
        decisions: in order of time.
        rewards: what followed each decision until the next, or the end.
        at_s: engine time of each decision, and of the end.
        jct_s: completion time of each job that arrived after the warm-up.
        earlier_reward: reward before the first decision, which no decision caused.
    """

    seed: int
    decisions: list[Decision] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    at_s: list[float] = field(default_factory=list)
    jct_s: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    earlier_reward: float = 0.0

    @property
    def mean_jct_s(self) -> float:
        """Mean completion time."""
        return float(self.jct_s.mean())


# Due decisions with their simulations to actions.
Decider: TypeAlias = Callable[[Sequence[DecisionRun], Sequence[Choices[Seen]]], Sequence[int]]


def teacher(runs: Sequence[DecisionRun], choices: Sequence[Choices[Seen]]) -> Sequence[int]:
    """Decide as the order of each run's policy does; see Decider."""
    return [run.teachers_choice(one) for run, one in zip(runs, choices, strict=True)]


@few_collections()
def play(
    episodes: Episodes,
    seeds: Sequence[int],
    decide: Decider,
    after: Callable[[int], None] = lambda done_count: None,
) -> list[Trajectory]:
    """Play the episodes of these seeds to their ends.

    Args:
        episodes: what is simulated.
        seeds: one for each episode.
        decide: makes the decisions of all runs that wait for one.
        after: called with the number of episodes that are over.
    """
    found = [Trajectory(seed) for seed in seeds]
    open_runs = [(one, episodes.begin(one.seed)) for one in found]
    due = []
    for one, run in open_runs:
        if (choices := run.next_choices()) is not None:
            one.earlier_reward = choices.reward
            due.append((one, run, choices))
        else:  # nothing had to be decided; its jobs count all the same
            _end(one, run, episodes)
    while due:
        actions = decide([run for _, run, _ in due], [choices for _, _, choices in due])
        still = []
        for (one, run, choices), action in zip(due, actions, strict=True):
            seen = choices.seen
            one.decisions.append(Decision(seen.jobs, seen.cluster, choices.mask, action))
            one.at_s.append(choices.at_s)
            run.choose(action)
            following = run.next_choices()
            one.rewards.append(run.take_reward() if following is None else following.reward)
            if following is None:
                _end(one, run, episodes)
            else:
                still.append((one, run, following))
        if len(still) < len(due):
            after(len(seeds) - len(still))
        due = still
    return found


def _end(trajectory: Trajectory, run: DecisionRun, episodes: Episodes) -> None:
    trajectory.at_s.append(run.driver.now_s)
    counted = run.finish().jobs[episodes.warm_count :]
    trajectory.jct_s = np.array(
        [job.ended_s - job.submit_s for job in counted if job.ended_s is not None]
    )
