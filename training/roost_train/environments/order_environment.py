"""The gymnasium environment: one decision of the order slot a step.

Observation, a dict: `jobs` [window, JOB_COLUMNS], lines behind the last job are 0; `cluster`
[CLUSTER_COLUMNS]; `mask` [window + 1], what may be chosen. Action: the position of a job, or
`window` for none. An action that the mask forbids is taken as the first one that it allows: a
random agent must not break a run, and a masked agent never asks for one.
`info` has the mask too, as "action_mask", and engine time as "at_s".
"""

from typing import Any, TypeAlias

import gymnasium
import numpy as np
from gymnasium import spaces

from roost_engine.queue.selector_features import CLUSTER_COLUMNS, JOB_COLUMNS
from roost_train.environments.episodes import Episodes
from roost_train.environments.paused_run import Choices, PausedRun

Observation: TypeAlias = dict[str, Any]  # gymnasium's type of a Dict space


class OrderEnvironment(gymnasium.Env[Observation, np.int64]):
    """See the module.

    Args:
        episodes: what is simulated.
        first_seed: of the episodes, if `reset` is given none.
    """

    metadata = {"render_modes": []}  # noqa: RUF012  gymnasium's name and type

    def __init__(self, episodes: Episodes, first_seed: int = 0) -> None:
        self.episodes, self._next_seed = episodes, first_seed
        self._run: PausedRun | None = None
        self._choices: Choices | None = None
        window = episodes.window_count
        self.observation_space = spaces.Dict(
            {
                "jobs": _unbounded(window, len(JOB_COLUMNS)),
                "cluster": _unbounded(len(CLUSTER_COLUMNS)),
                "mask": spaces.MultiBinary(window + 1),
            }
        )
        self.action_space = spaces.Discrete(window + 1)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin an episode; see gymnasium.Env."""
        super().reset(seed=seed)
        drawn = self._next_seed if seed is None else seed
        while True:  # an episode without a decision has nothing to show
            self._run = self.episodes.begin(drawn)
            self._choices = self._run.next_choices()
            drawn += 1
            if self._choices is not None:
                break
        self._next_seed = drawn
        return self._observation(), self._info()

    def step(self, action: np.int64) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Decide, and advance to the next decision; see gymnasium.Env."""
        run, choices = self._run, self._choices
        assert run is not None, "reset comes before step"
        assert choices is not None, "the episode is over: reset comes before step"
        place = choices.none if action == self.episodes.window_count else int(action)
        if place > choices.none or not choices.mask[place]:
            place = int(np.argmax(choices.mask))
        run.choose(place)
        self._choices = run.next_choices()
        if self._choices is None:
            return self._observation(), run.take_reward(), True, False, {}
        return self._observation(), self._choices.reward, False, False, self._info()

    def _observation(self) -> Observation:
        window = self.episodes.window_count
        jobs = np.zeros((window, len(JOB_COLUMNS)), dtype=np.float32)
        mask = np.zeros(window + 1, dtype=np.int8)
        cluster = np.zeros(len(CLUSTER_COLUMNS), dtype=np.float32)
        if self._choices is not None:
            seen, allowed = self._choices.seen, self._choices.mask
            jobs[: len(seen.jobs)], cluster = seen.jobs, seen.cluster
            mask[: len(seen.jobs)], mask[-1] = allowed[:-1], allowed[-1]
        return {"jobs": jobs, "cluster": cluster, "mask": mask}

    def _info(self) -> dict[str, Any]:
        assert self._choices is not None
        return {"action_mask": self._observation()["mask"], "at_s": self._choices.at_s}


def _unbounded(*shape: int) -> "spaces.Box[np.floating[Any]]":
    return spaces.Box(-np.inf, np.inf, shape, np.float32)
