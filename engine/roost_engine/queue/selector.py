"""The order that a job selector makes: a model ranks the waiting jobs, the highest first.

What an operator has put first or last stays so. A job that has waited longer than a bound is served
before all jobs that the model ranks, in the order of submission, whatever the model says: no job
waits for ever. Of a very long queue the model ranks the jobs that came first; the others come
behind them. Page: docs/learned.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from roost_engine.domain.errors import PolicyError
from roost_engine.domain.model import JobId
from roost_engine.job_record import JobRecord
from roost_engine.policies.heuristics import submission_key
from roost_engine.policies.protocols import QueueMark, QueueView
from roost_engine.prediction.predictors import Predictors
from roost_engine.queue.selector_features import SelectorFeatures


@runtime_checkable
class RankModel(Protocol):
    """A trained job selector."""

    @property
    def name(self) -> str:
        """What operators call it: "onnx:" and twelve digits of the sha256."""

    def ranks(self, jobs: NDArray[np.float32], cluster: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the rank of each job; the highest is served first, above 0 is better than none.

        Args:
            jobs: float32 [job, selector_columns.JOB_COLUMNS].
            cluster: float32 [selector_columns.CLUSTER_COLUMNS].

        Returns:
            float32 [job], all finite.

        Raises:
            PolicyError: it cannot answer.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectorConfig:
    """The numbers of the order `model`.

    Attributes:
        bound_s: a job that has waited so long comes before all that the model ranks.
        bound_backlogs: so many times the time that the queue took when the job came is added to
            that, as in the learned order: in a crowd a closer bound makes every large job due.
        ranked_count: the most jobs that the model ranks.
        refresh_s: the queue is ranked again after this time, if a pass could change anything.
    """

    bound_s: float = 6 * 86_400.0
    bound_backlogs: float = 64.0
    ranked_count: int = 512
    refresh_s: float = 60.0


class SelectorOrder:
    """See the module.

    Args:
        model: the job selector.
        predictors: what is expected of jobs.
        config: the numbers.
    """

    def __init__(
        self, model: RankModel, predictors: Predictors, config: SelectorConfig | None = None
    ) -> None:
        self.config, self._model = config or SelectorConfig(), model
        self._features = SelectorFeatures(predictors)

    @property
    def name(self) -> str:
        """The model's name."""
        return self._model.name

    def rank(self, view: QueueView) -> Sequence[JobId]:
        """See policies.OrderPolicy."""
        ranked = sorted(view.jobs, key=lambda job: submission_key(job.spec))
        ranked = ranked[: self.config.ranked_count]
        seen = self._features.observe(view, ranked)
        answer = self._model.ranks(seen.jobs, seen.cluster)
        if answer.shape != (len(ranked),) or not np.isfinite(answer).all():
            raise PolicyError(f"{self.name} gave no finite rank for each of {len(ranked)} jobs")
        rank_of = dict(zip(seen.job_ids, answer.tolist(), strict=True))

        def key(job: JobRecord) -> tuple[object, ...]:
            spec, rank = job.spec, rank_of.get(job.spec.job_id)
            is_overdue = self._is_overdue(job, view.at_s)
            place = (0, 0.0) if is_overdue else (2, 0.0) if rank is None else (1, -rank)
            return -spec.precedence, *place, submission_key(spec)

        return [job.spec.job_id for job in sorted(view.jobs, key=key)]

    def _is_overdue(self, job: JobRecord, at_s: float) -> bool:
        over_s = at_s - job.queued_s - self.config.bound_s
        if over_s < 0.0:
            return False
        return over_s >= self.config.bound_backlogs * self._features.drain_s(job, at_s)

    def note(self, job: JobRecord, at_s: float) -> None:
        """See policies.NotedOrder: what is expected of a job is that of its arrival."""
        self._features.note(job, at_s)

    def is_outdated(self, ranked: QueueMark, now: QueueMark) -> bool:
        """See policies.RefreshedOrder: capacity has come, or some time has passed."""
        is_old = now.at_s - ranked.at_s >= self.config.refresh_s
        return is_old or ranked.freed_count != now.freed_count
