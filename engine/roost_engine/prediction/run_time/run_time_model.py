"""Run times by a trained model, mixed with the site's history.

The model reads what the history knows of a job (run_time_features), and its answer is averaged with
the history's; figures: docs/results/runtimes.md. Whatever the model does wrong, the history answers
alone, and the fault is counted like that of any policy.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from roost_engine.domain.errors import PolicyError
from roost_engine.domain.model import JobId, JobSpec
from roost_engine.policies.slots import RUN_TIMES, FaultLog
from roost_engine.prediction.run_time.history import RunTimeHistory
from roost_engine.prediction.run_time.run_time_features import RunTimeFeatures
from roost_engine.prediction.run_time.run_times import BAND_COUNT, RunTimes

HISTORY_NAME = "history"  # of the source that needs no model
_FRESH_S = 600.0  # for so long an answer is used again for the same job
_MOST_ANSWERS = 20_000
_SUM_TOLERANCE = 1e-3


class RunTimeModel(Protocol):
    """A trained model of run times. Pure: same input, same output.

    Attributes:
        name: what people call it.
    """

    name: str

    def ending_fracs(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the share of such jobs that ends in each band.

        Args:
            features: [job, column]; columns are run_time_features.COLUMNS.

        Returns:
            [job, band], 0 or more; the sum of each row is 1.

        Raises:
            PolicyError: wrong shape, NaN or infinity, too slow.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTimeBlend:
    """A model to be mixed with the history.

    Attributes:
        model: the model.
        model_frac: its weight, 0 to 1; the rest is the history's.
        zero_epoch_s: the wall clock at engine time 0; None: unknown.
    """

    model: RunTimeModel
    model_frac: float = 0.5
    zero_epoch_s: float | None = None


class BlendedRunTimes:
    """Answers as a RunTimeHistory does, by model and history.

    Args:
        history: learns elsewhere; it is only read here.
        blend: the model and its weight.
        faults: where faults of the model are noted.
    """

    def __init__(
        self, history: RunTimeHistory, blend: RunTimeBlend, faults: FaultLog | None = None
    ) -> None:
        self._history, self._blend, self._faults = history, blend, faults or FaultLog()
        self._features = RunTimeFeatures(history, blend.zero_epoch_s)
        self._answers: dict[JobId, tuple[float, NDArray[np.float64]]] = {}
        self._asked_count = 0

    @property
    def model(self) -> RunTimeModel:
        """The model that is asked."""
        return self._blend.model

    def report_faults_to(self, faults: FaultLog) -> None:
        """Note the model's faults there from now on."""
        self._faults = faults

    def forget(self, job_id: JobId) -> None:
        """Drop what the model answered for a job that has ended or left."""
        self._answers.pop(job_id, None)

    def times(self, job: JobSpec, age_s: float, at_s: float) -> RunTimes:
        """See RunTimeHistory.times. In steps only: replays number the questions to a model."""
        return self._mixed(self._answer(job, at_s), job, age_s, at_s)

    def peek(self, job: JobSpec, age_s: float, at_s: float) -> RunTimes:
        """Return the same and note nothing, for readers outside the engine.

        The model's last answer counts however old it is: readers ask about whole queues at once.
        """
        found = self._answers.get(job.job_id)
        answer = None if found is None else found[1]
        if answer is None:
            try:
                answer = self._asked(self._features.of(job, at_s)[None])
            except Exception:  # noqa: BLE001  the history answers, as in a pass
                answer = None
        return self._mixed(answer, job, age_s, at_s)

    def _mixed(
        self, answer: NDArray[np.float64] | None, job: JobSpec, age_s: float, at_s: float
    ) -> RunTimes:
        known = self._history.times(job, age_s, at_s)
        if answer is None:
            return known
        share = self._blend.model_frac
        fracs = share * answer + (1.0 - share) * known.ending_fracs
        return RunTimes(fracs, age_s, known.limit_s, known.job_count, known.is_of_user)

    def _fresh(self, job_id: JobId, at_s: float) -> NDArray[np.float64] | None:
        found = self._answers.get(job_id)
        return found[1] if found is not None and 0.0 <= at_s - found[0] < _FRESH_S else None

    def _answer(self, job: JobSpec, at_s: float) -> NDArray[np.float64] | None:
        """Return the model's shares, float64 [band]; None if it failed."""
        if (found := self._fresh(job.job_id, at_s)) is not None:
            return found
        try:
            features = self._features.of(job, at_s)[None]
            self._asked_count += 1
            fracs = self._asked(features)
        except Exception as error:  # noqa: BLE001  whatever a model raises must not stop a pass
            self._faults.note(RUN_TIMES, self._blend.model.name, self._asked_count - 1, error)
            return None
        self._answers[job.job_id] = (at_s, fracs)
        if len(self._answers) > _MOST_ANSWERS:
            del self._answers[next(iter(self._answers))]
        return fracs

    def _asked(self, features: NDArray[np.float32]) -> NDArray[np.float64]:
        answer = np.asarray(self._blend.model.ending_fracs(features), dtype=np.float64)
        name = self._blend.model.name
        if answer.shape != (1, BAND_COUNT):
            raise PolicyError(f"{name} answered {list(answer.shape)}; want [1, {BAND_COUNT}]")
        if not np.isfinite(answer).all() or bool((answer < 0).any()):
            raise PolicyError(f"{name} answered a share that is negative or not finite")
        total = float(answer.sum())
        if abs(total - 1.0) > _SUM_TOLERANCE:
            raise PolicyError(f"{name} answered shares whose sum is {total:.4g}, not 1")
        shares: NDArray[np.float64] = answer[0] / total
        return shares
