"""The skill of predicted run times: what an order by them has lately been worth.

    skill = sum over pairs (t_b - t_a) · sign(e_b - e_a)  /  sum over pairs |t_b - t_a|

of the runs that ended last: t is the square root of a run time, and e what was expected of it. That
is the Gini correlation of the two (Schechtman and Yitzhaki, Communications in Statistics A 16,
1987): 1 where the expected order is the true one, 0 where it is no better than chance. Long runs
count most, as they do in the wait of the jobs behind them; the root keeps a single run of weeks
from deciding alone. A constant error changes nothing, because it changes no order.

Predictions with a skill of a twentieth are trusted wholly: they order jobs well where they err by a
factor of seven (docs/results/order.md). Trust changes in steps, since the queue is sorted again.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from roost_engine.domain.model import JobId

_RUN_COUNT = 1_024  # runs that count
_FEWEST_RUNS = 300  # with fewer, nothing is known of the skill
_COUNTED_EVERY = 16  # runs
_WHOLE_TRUST_SKILL = 0.05
_LEAST_STEP = 0.25
_MOST_EXPECTED = 100_000


@dataclass(frozen=True, slots=True, eq=False)
class SkillState:
    """What is known of the skill of predictions, as plain data.

    Attributes:
        runs: float32 [run, 2], in seconds: what was expected of each run, and how long it was.
        trust_frac: see PredictionSkill.
    """

    runs: NDArray[np.float32] = field(default_factory=lambda: np.zeros((0, 2), dtype=np.float32))
    trust_frac: float = 1.0

    def __eq__(self, other: object) -> bool:
        """Compare the array by value."""
        return (
            isinstance(other, SkillState)
            and self.trust_frac == other.trust_frac
            and np.array_equal(self.runs, other.runs)
        )

    def __hash__(self) -> int:
        """Hash what is cheap."""
        return hash(self.trust_frac)


class PredictionSkill:
    """How far predicted run times are trusted, by how well they have ordered the last runs.

    A job counts if it came and ended within one life of the engine: the state has no expectations.

    Attributes:
        trust_frac: 0 to 1; 1 while too few runs are known.
        generation: another number when trust has changed.
    """

    def __init__(self, state: SkillState | None = None) -> None:
        known = state or SkillState()
        self.trust_frac, self.generation = known.trust_frac, 0
        self._expected_s: dict[JobId, float] = {}  # of jobs that wait or run, the latest last
        self._runs = deque[tuple[float, float]](map(tuple, known.runs.tolist()), _RUN_COUNT)
        self._uncounted = 0

    def expect(self, job_id: JobId, expected_s: float) -> None:
        """Note how long a job that has not started yet is expected to run, in seconds."""
        self._expected_s.pop(job_id, None)
        self._expected_s[job_id] = expected_s
        if len(self._expected_s) > _MOST_EXPECTED:
            del self._expected_s[next(iter(self._expected_s))]

    def forget(self, job_id: JobId) -> None:
        """Forget a job that left without running."""
        self._expected_s.pop(job_id, None)

    def end(self, job_id: JobId, run_s: float) -> None:
        """Note how long a job ran at full speed; what is no run time is dropped."""
        expected_s = self._expected_s.pop(job_id, None)
        if expected_s is None or not (0.0 <= expected_s < np.inf and 0.0 <= run_s < np.inf):
            return
        # As the state has them: a restart changes no trust.
        self._runs.append((float(np.float32(expected_s)), float(np.float32(run_s))))
        self._uncounted += 1
        if self._uncounted >= _COUNTED_EVERY and len(self._runs) >= _FEWEST_RUNS:
            self._uncounted = 0
            self._trust(min(max(skill_of(self._runs) / _WHOLE_TRUST_SKILL, 0.0), 1.0))

    def _trust(self, frac: float) -> None:
        is_end = frac in (0.0, 1.0) and frac != self.trust_frac
        if is_end or abs(frac - self.trust_frac) >= _LEAST_STEP:
            self.trust_frac = frac
            self.generation += 1

    def state(self) -> SkillState:
        """Return what is known, as plain data."""
        runs = np.array(self._runs, dtype=np.float32).reshape(len(self._runs), 2)
        return SkillState(runs, self.trust_frac)


def skill_of(runs: Iterable[tuple[float, float]]) -> float:
    """Return the skill of predictions; see the module.

    Args:
        runs: of each run what was expected and how long it was, in seconds, 0 or more.

    Returns:
        -1 to 1; 0 where all runs are equally long.
    """
    expected_s, run_s = np.array([*runs], dtype=np.float64).reshape(-1, 2).T
    weights = np.sqrt(run_s)
    gained = float(np.add.reduce(weights * _middle_ranks(expected_s)))
    most = float(np.add.reduce(weights * _middle_ranks(run_s)))
    return gained / most if most > 0.0 else 0.0


def _middle_ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the rank of each value less the mean rank; equal values share a rank.

    Example: [5, 7, 5] has [-0.5, 1, -0.5].
    """
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks = counts.cumsum() - (counts + 1) / 2.0
    middle: NDArray[np.float64] = ranks[place] - (len(values) - 1) / 2.0
    return middle
