"""The gymnasium environment: one decision of one slot a step.

Observation, a dict: `options` [window, column], lines behind the last option are 0; `context`
[column]; `mask` [window + 1], what may be chosen. Options of the order slot are jobs
(roost_engine.queue.selector_features), of the placement slot candidates, of the gate slot the one
offer (slot_views). Action: the position of an option, or `window` for none of them: no job, or not
now. An action that the mask forbids is taken as the first one that it allows: a random agent must
not break a run, and a masked agent never asks for one.
`info` has the mask too, as "action_mask", and engine time as "at_s".
"""

from typing import Any, TypeAlias

import gymnasium
import numpy as np
from gymnasium import spaces

from roost_engine.gate.offer_features import CONTEXT_COLUMNS, OFFER_COLUMNS
from roost_engine.queue.selector_columns import CLUSTER_COLUMNS, JOB_COLUMNS
from roost_train.environments.decision_run import Choices, DecisionRun, Seen
from roost_train.environments.episodes import Episodes
from roost_train.environments.slot_run import Reads, Slot
from roost_train.environments.slot_views import GRAPH_PLACEMENT_COLUMNS, PLACEMENT_COLUMNS
from roost_train.errors import TrainError

Observation: TypeAlias = dict[str, Any]  # gymnasium's type of a Dict space

_MOST_EMPTY = 100  # episodes one after the other: the next ones would have no decision either
_COLUMN_COUNTS = {  # of an option, and of the context
    Slot.ORDER: (len(JOB_COLUMNS), len(CLUSTER_COLUMNS)),
    Slot.PLACEMENT: (len(PLACEMENT_COLUMNS), len(CONTEXT_COLUMNS)),
    Slot.GATE: (len(OFFER_COLUMNS), len(CONTEXT_COLUMNS)),
}


class SlotEnvironment(gymnasium.Env[Observation, np.int64]):
    """See the module.

    Args:
        episodes: what is simulated, and which slot decides.
        first_seed: of the episodes, if `reset` is given none.
    """

    metadata = {"render_modes": []}  # noqa: RUF012  gymnasium's name and type

    def __init__(self, episodes: Episodes, first_seed: int = 0) -> None:
        self.episodes, self._next_seed = episodes, first_seed
        self._run: DecisionRun | None = None
        self._choices: Choices[Seen] | None = None
        self._window = 1 if episodes.slot is Slot.GATE else episodes.window_count
        self._columns = _COLUMN_COUNTS[episodes.slot]
        if episodes.slot is Slot.PLACEMENT and episodes.reads is Reads.GRAPH:
            self._columns = len(GRAPH_PLACEMENT_COLUMNS), len(CONTEXT_COLUMNS)
        self.observation_space = spaces.Dict(
            {
                "options": _unbounded(self._window, self._columns[0]),
                "context": _unbounded(self._columns[1]),
                "mask": spaces.MultiBinary(self._window + 1),
            }
        )
        self.action_space = spaces.Discrete(self._window + 1)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin an episode, the first one that has a decision; see gymnasium.Env.

        Raises:
            TrainError: none has one.
        """
        super().reset(seed=seed)
        self.close()
        first = self._next_seed if seed is None else seed
        for drawn in range(first, first + _MOST_EMPTY):
            self._run = self.episodes.begin(drawn)
            self._choices = self._run.next_choices()
            if self._choices is not None:
                self._next_seed = drawn + 1
                return self._observation(), self._info()
        raise TrainError(f"{_MOST_EMPTY} episodes had no decision: take more jobs or a higher load")

    def step(self, action: np.int64) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Decide, and advance to the next decision; see gymnasium.Env."""
        run, choices = self._run, self._choices
        assert run is not None, "reset comes before step"
        assert choices is not None, "the episode is over: reset comes before step"
        place = choices.none if action == self._window else int(action)
        if place > choices.none or not choices.mask[place]:
            place = int(np.argmax(choices.mask))
        run.choose(place)
        self._choices = run.next_choices()
        if self._choices is None:
            return self._observation(), run.take_reward(), True, False, {}
        return self._observation(), self._choices.reward, False, False, self._info()

    def close(self) -> None:
        """Give up the episode; see gymnasium.Env."""
        if self._run is not None:
            self._run.close()
        self._run = self._choices = None

    def _observation(self) -> Observation:
        options = np.zeros((self._window, self._columns[0]), dtype=np.float32)
        mask = np.zeros(self._window + 1, dtype=np.int8)
        context = np.zeros(self._columns[1], dtype=np.float32)
        if self._choices is not None:
            seen, allowed = self._choices.seen, self._choices.mask
            options[: len(seen.jobs)], context = seen.jobs, seen.cluster
            mask[: len(seen.jobs)], mask[-1] = allowed[:-1], allowed[-1]
        return {"options": options, "context": context, "mask": mask}

    def _info(self) -> dict[str, Any]:
        assert self._choices is not None
        return {"action_mask": self._observation()["mask"], "at_s": self._choices.at_s}


def _unbounded(*shape: int) -> "spaces.Box[np.floating[Any]]":
    return spaces.Box(-np.inf, np.inf, shape, np.float32)
