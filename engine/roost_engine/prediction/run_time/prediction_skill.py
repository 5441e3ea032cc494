"""The skill of predicted run times: what an order by them has lately been worth.

    skill = sum over pairs (t_b - t_a) · sign(e_b - e_a)  /  sum over pairs |t_b - t_a|

of the runs that ended last: t is the square root of a run time, and e what was expected of it. That
is the Gini correlation of the two (Schechtman and Yitzhaki, Communications in Statistics A 16,
1987): 1 where the expected order is the true one, 0 where it is no better than chance. Long runs
count most, as they do in the wait of the jobs behind them; the root keeps a single run of weeks
from deciding alone. A constant error changes nothing, because it changes no order.

Predictions with a skill of a twentieth are trusted wholly: they order jobs well where they err by a
factor of seven (docs/results/order.md). An order by chance has a skill with a standard error of
about 1 / sqrt(runs); a part of that is taken off, so that few runs are no proof. Trust changes in
steps, since the queue is sorted again.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from roost_engine.domain.model import JobId
from roost_engine.prediction.noted_dict import NotedDict

EXPECTED_TABLE = "skill-expected"

_RUN_COUNT = 1_024  # runs that count
_COUNTED_EVERY = 16  # runs
_WHOLE_TRUST_SKILL = 0.05
_LEAST_STEP = 0.25
_MOST_EXPECTED = 100_000  # those of jobs that ended while roostd was away stay until then


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustConfig:
    """How skill becomes trust; docs/order.md has the formula.

    Attributes:
        fewest_runs: with fewer runs, trust stays as it is.
        doubt: what is taken off the skill, in standard errors of an order by chance.
        least_skill: what a skill has to exceed besides.
    """

    fewest_runs: int = 100
    doubt: float = 0.58
    least_skill: float = 0.0


# An order that stops jobs has attained service to fall back to, which is worth more than the order
# of arrival, so it asks for more skill. Where nothing tells run times the skill is up to 0.13,
# where users are known 0.2 to 0.5 (docs/results/order.md).
LEFT_TRUST = TrustConfig(least_skill=0.1)


@dataclass(frozen=True, slots=True, eq=False)
class SkillState:
    """What is known of the skill of predictions, as plain data.

    Attributes:
        runs: float32 [run, 2], in seconds: what was expected of each run, and how long it was.
        trust_frac: see PredictionSkill.
        expected: of each job that runs, how long it was expected to run, in seconds.
    """

    runs: NDArray[np.float32] = field(default_factory=lambda: np.zeros((0, 2), dtype=np.float32))
    trust_frac: float = 1.0
    expected: tuple[tuple[JobId, float], ...] = ()

    def __eq__(self, other: object) -> bool:
        """Compare the array by value."""
        return (
            isinstance(other, SkillState)
            and self.trust_frac == other.trust_frac
            and self.expected == other.expected
            and np.array_equal(self.runs, other.runs)
        )

    def __hash__(self) -> int:
        """Hash what is cheap."""
        return hash(self.trust_frac)


class PredictionSkill:
    """How far predicted run times are trusted, by how well they have ordered the last runs.

    A job counts if it was expected before it ran. What was expected of running jobs is part of the
    state: long runs outlive an engine, and they count most.

    Args:
        state: what is known from the start; None: nothing.
        config: how skill becomes trust.

    Attributes:
        trust_frac: 0 to 1; 1 while too few runs are known.
        generation: another number when trust has changed.
    """

    def __init__(self, state: SkillState | None = None, config: TrustConfig | None = None) -> None:
        known, self._config = state or SkillState(), config or TrustConfig()
        self.trust_frac, self.generation = known.trust_frac, 0
        self._waiting_s: dict[JobId, float] = {}  # expected of jobs that wait, the latest last
        self._running_s = NotedDict[JobId, float](known.expected)  # of those that run
        self._runs = deque[tuple[float, float]](map(tuple, known.runs.tolist()), _RUN_COUNT)
        self._uncounted = 0

    def expect(self, job_id: JobId, expected_s: float) -> None:
        """Note how long a job that has not started yet is expected to run, in seconds.

        A time that is negative or not finite is dropped.
        """
        self._waiting_s.pop(job_id, None)
        if job_id not in self._running_s and 0.0 <= expected_s < np.inf:
            _put(self._waiting_s, job_id, expected_s)

    def begin(self, job_id: JobId) -> None:
        """Note that a job runs: what was expected of it no longer changes, and is in the state."""
        expected_s = self._waiting_s.pop(job_id, None)
        if expected_s is not None:
            _put(self._running_s, job_id, expected_s)

    def forget(self, job_id: JobId) -> None:
        """Forget a job that left without running."""
        self._take_expected_s(job_id)

    def _take_expected_s(self, job_id: JobId) -> float | None:
        """Return what was expected of a job, None if nothing was, and forget it."""
        running_s, waiting_s = self._running_s.discard(job_id), self._waiting_s.pop(job_id, None)
        return waiting_s if running_s is None else running_s

    def end(self, job_id: JobId, run_s: float) -> None:
        """Note how long a job ran at full speed; a negative or infinite time is dropped."""
        expected_s = self._take_expected_s(job_id)
        if expected_s is None or not 0.0 <= run_s < np.inf:
            return
        # Rounded as in the state, so that trust is the same after a restart.
        self._runs.append((float(np.float32(expected_s)), float(np.float32(run_s))))
        self._uncounted += 1
        if self._uncounted >= _COUNTED_EVERY and len(self._runs) >= self._config.fewest_runs:
            self._uncounted = 0
            least = self._config.least_skill + self._config.doubt / sqrt(len(self._runs))
            proved = skill_of(self._runs) - least
            self._trust(min(max(proved / _WHOLE_TRUST_SKILL, 0.0), 1.0))

    def _trust(self, frac: float) -> None:
        is_end = frac in (0.0, 1.0) and frac != self.trust_frac
        if is_end or abs(frac - self.trust_frac) >= _LEAST_STEP:
            self.trust_frac = frac
            self.generation += 1

    def state(self) -> SkillState:
        """Return what is known, as plain data."""
        return replace(self.state_without_table(), expected=tuple(self._running_s.items()))

    def state_without_table(self) -> SkillState:
        """Return what is known and is in none of the `tables`."""
        runs = np.array(self._runs, dtype=np.float32).reshape(len(self._runs), 2)
        return SkillState(runs, self.trust_frac)

    def tables(self) -> Mapping[str, NotedDict[JobId, float]]:
        """Return what was expected of the jobs that run, by name of the table."""
        return {EXPECTED_TABLE: self._running_s}


def _put(table: dict[JobId, float], job_id: JobId, expected_s: float) -> None:
    table[job_id] = expected_s
    if len(table) > _MOST_EXPECTED:
        del table[next(iter(table))]


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
