"""What a simulation that stops at decisions looks like to an agent, whichever slot decides."""

from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from roost_engine.domain.value import value
from roost_sim.figures.outcome import Outcome
from roost_sim.runs.driver import Driver


class Seen(Protocol):
    """What an agent reads: one line for each option, and one for everything else."""

    @property
    def jobs(self) -> NDArray[np.float32]:
        """[option, column]; of the order slot the options are jobs."""

    @property
    def cluster(self) -> NDArray[np.float32]:
        """[column]."""


SeenT_co = TypeVar("SeenT_co", bound=Seen, covariant=True)


@value(kw_only=True, eq=False)
class Choices(Generic[SeenT_co]):
    """A decision that is due.

    Attributes:
        at_s: engine time.
        seen: what an agent reads.
        mask: bool [option + 1], what may be chosen; the last is "none".
        reward: since the decision before.
    """

    at_s: float
    seen: SeenT_co
    mask: NDArray[np.bool_]
    reward: float

    @property
    def none(self) -> int:
        """The action that takes no option: no job, or not now."""
        return len(self.seen.jobs)


class DecisionRun(Protocol):
    """One simulation that stops at each decision of one slot."""

    @property
    def seed(self) -> int:
        """Of the episode."""

    @property
    def forced_count(self) -> int:
        """How many decisions with one allowed action were carried out without being asked."""

    @property
    def driver(self) -> Driver:
        """The simulation."""

    def next_choices(self) -> Choices[Seen] | None:
        """Advance to the next decision; None: the run is over."""

    def choose(self, action: int) -> None:
        """Carry a decision out.

        Raises:
            ValueError: the mask forbids it, or no decision is due.
        """

    def teachers_choice(self, choices: Choices[Any]) -> int:
        """Return the action of the run's own policy."""

    def take_reward(self) -> float:
        """Return what was added up since the last call of this, or the last choices."""

    def finish(self) -> Outcome:
        """Return the results of a run that is over."""

    def close(self) -> None:
        """Give up a run that is not over."""
