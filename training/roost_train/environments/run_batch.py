"""Many simulations side by side, whose decisions one call of a network makes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from roost_engine.domain.value import value
from roost_train.environments.decision_run import Choices, DecisionRun, Seen
from roost_train.environments.episodes import Episodes


@dataclass(frozen=True, slots=True, eq=False)
class ChoiceBatch:
    """Decisions as arrays; lines behind the last job of a decision are 0 and masked.

    Attributes:
        jobs: float32 [decision, job, column].
        cluster: float32 [decision, column].
        mask: bool [decision, job + 1]; the last is "none".
        present: bool [decision, job], where there is a job.
    """

    jobs: NDArray[np.float32]
    cluster: NDArray[np.float32]
    mask: NDArray[np.bool_]
    present: NDArray[np.bool_]

    @classmethod
    def of(cls, choices: Sequence[Choices[Seen]]) -> "ChoiceBatch":
        """Put decisions together."""
        counts = [len(one.seen.jobs) for one in choices]
        count, most = len(choices), max(counts)
        first = choices[0].seen
        jobs = np.zeros((count, most, first.jobs.shape[1]), dtype=np.float32)
        cluster = np.empty((count, len(first.cluster)), dtype=np.float32)
        mask = np.zeros((count, most + 1), dtype=np.bool_)
        for place, (one, jobs_here) in enumerate(zip(choices, counts, strict=True)):
            jobs[place, :jobs_here] = one.seen.jobs
            cluster[place] = one.seen.cluster
            mask[place, :jobs_here], mask[place, -1] = one.mask[:-1], one.mask[-1]
        present = np.arange(most) < np.array(counts)[:, None]
        return cls(jobs, cluster, mask, present)

    def action(self, place: int, position: int) -> int:
        """Return the action of one decision for a position in its line of the mask."""
        if position == self.mask.shape[1] - 1:
            return int(self.present[place].sum())
        return position


@value()
class Step:
    """What followed one decision.

    Attributes:
        reward: until the next decision of the same run, or its end.
        is_last: whether the episode ended.
    """

    reward: float
    is_last: bool


class RunBatch:
    """See the module. An episode that ends is followed by one with the next seed.

    Args:
        episodes: what is simulated.
        seeds: of the first episode of each simulation; the next seed of one is its last plus their
            number.
    """

    def __init__(self, episodes: Episodes, seeds: Sequence[int]) -> None:
        self._episodes, self._stride = episodes, len(seeds)
        self.seeds, self._forced_before = list(seeds), 0
        self._runs: list[DecisionRun] = []
        self.choices: list[Choices[Seen]] = []
        for place in range(len(seeds)):
            run, choices = self._begin(place)
            self._runs.append(run)
            self.choices.append(choices)

    def step(self, actions: Sequence[int]) -> list[Step]:
        """Carry one decision of each simulation out, and advance each to its next one."""
        steps = []
        for place, action in enumerate(actions):
            run = self._runs[place]
            run.choose(action)
            found = run.next_choices()
            if found is None:
                steps.append(Step(run.take_reward(), True))
                self.seeds[place] += self._stride
                self._forced_before += run.forced_count
                self._runs[place], found = self._begin(place)
            else:
                steps.append(Step(found.reward, False))
            self.choices[place] = found
        return steps

    @property
    def forced_count(self) -> int:
        """Decisions with one allowed action, which were carried out without being asked."""
        return self._forced_before + sum(run.forced_count for run in self._runs)

    def _begin(self, place: int) -> tuple[DecisionRun, Choices[Seen]]:
        while True:
            run = self._episodes.begin(self.seeds[place])
            choices = run.next_choices()
            if choices is not None:
                return run, choices
            self.seeds[place] += self._stride
