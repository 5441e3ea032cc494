"""The order that a model makes: it reads features of all waiting jobs and ranks them at once.

What an operator has put first or last stays so, and a job that has waited longer than the window of
the learned order goes before every job that has not, whatever the model says. Page:
docs/policies.md.
"""

from collections.abc import Mapping, Sequence
from math import log1p
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from roost_engine.domain.model import JobId
from roost_engine.job_record import JobRecord
from roost_engine.policies.heuristics import submission_key
from roost_engine.policies.protocols import OrderPolicy, QueueMark, QueueView, SortKey
from roost_engine.prediction.predictors import Predictors
from roost_engine.prediction.run_time.run_times import RunTimes
from roost_engine.queue.learned_order import LearnedOrder, LearnedOrderConfig
from roost_engine.queue.selector import RankModel, SelectorOrder

JOB_COLUMNS = (
    "gpu_log",
    "node_log",
    "waited_log",
    "limit_log",
    "has_limit",
    "expected_log",
    "service_log",
    "attained_log",
    "known_frac",
    "turn_frac",
    "waited_days",
    "service_days",
    "due_days",
)
"""What a model may read of a job, see `job_features`."""
CLUSTER_COLUMNS = ("free_frac", "queued_log", "demand_log")
"""What a model may read of the cluster, see `cluster_features`."""

_DAY_S = 86_400.0
_REFRESH_S = 60.0
_MOST_REMEMBERED = 20_000

Floats = NDArray[np.float32]


class OrderModel(Protocol):
    """A model of kind `order`."""

    @property
    def name(self) -> str:
        """What operators call it: "onnx:" and twelve digits of the sha256."""

    @property
    def job_columns(self) -> Sequence[str]:
        """What it reads of a job, of JOB_COLUMNS."""

    @property
    def cluster_columns(self) -> Sequence[str]:
        """What it reads of the cluster, of CLUSTER_COLUMNS."""

    def rank(self, jobs: Floats, cluster: Floats) -> Floats:
        """Return a number for each job; the highest is served first.

        Args:
            jobs: [job, column].
            cluster: [column].

        Raises:
            PolicyError: the model cannot answer.
        """


AnyOrderModel: TypeAlias = OrderModel | RankModel


def order_by(model: AnyOrderModel, predictors: Predictors) -> OrderPolicy:
    """Return the order that a model makes, whichever of the two sets of columns it reads."""
    if isinstance(model, RankModel):
        return SelectorOrder(model, predictors)
    return ModelOrder(model, predictors)


class Known(NamedTuple):
    """What is expected of a job.

    Attributes:
        expected_s: its run time.
        job_count: jobs like it that ended.
        due_s: when it is due in the learned order, in engine time.
    """

    expected_s: float
    job_count: float
    due_s: float


class Expectations:
    """What is expected of each waiting job, as of when it was queued; the learned order keeps that.

    Args:
        predictors: are asked.
    """

    def __init__(self, predictors: Predictors) -> None:
        self._predictors = predictors
        self._order = LearnedOrder(LearnedOrderConfig(), predictors)
        # By job, the latest last: its run times and its window.
        self._noted: dict[JobId, tuple[RunTimes, float]] = {}

    def note(self, job: JobRecord, at_s: float) -> tuple[RunTimes, float]:
        """Ask what is expected of a job that was queued, and note it for trust and the backlog."""
        times = self._predictors.run_times(job, at_s)
        backlog = self._predictors.backlog
        backlog.wait(job.job_id, job.spec.gpu_count * times.rest_s())
        if times.age_s <= 0.0:
            self._predictors.skill.expect(job.job_id, times.rest_s())
        self._noted.pop(job.job_id, None)
        found = self._noted[job.job_id] = (
            times,
            self._order.window_s(backlog.drain_of_s(job.job_id)),
        )
        if len(self._noted) > _MOST_REMEMBERED:
            del self._noted[next(iter(self._noted))]
        return found

    def of(self, job: JobRecord, at_s: float) -> Known:
        """Return what is expected of a waiting job."""
        times, window_s = self._noted.get(job.job_id) or self.note(job, at_s)
        due_s = self._order.due_by(job.spec, times, window_s)
        return Known(times.rest_s(), times.job_count, due_s)

    def window_s(self, job: JobRecord, at_s: float) -> float:
        """Return how long a waiting job may be overtaken in the learned order."""
        return (self._noted.get(job.job_id) or self.note(job, at_s))[1]


class ModelOrder:
    """See the module.

    Args:
        model: ranks.
        predictors: what is expected of jobs.
    """

    def __init__(self, model: OrderModel, predictors: Predictors) -> None:
        self.name, self._model = model.name, model
        self._expectations = Expectations(predictors)
        self._jobs = [JOB_COLUMNS.index(name) for name in model.job_columns]
        self._cluster = [CLUSTER_COLUMNS.index(name) for name in model.cluster_columns]

    def rank(self, view: QueueView) -> Sequence[JobId]:
        """See OrderPolicy."""
        if not view.jobs:
            return ()
        jobs = job_features(view, self._expectations.of)[:, self._jobs]
        cluster = cluster_features(view)[self._cluster]
        ranks = self._model.rank(jobs, cluster).tolist()
        keyed = sorted(
            (_key(job, rank, self._is_due(job, view.at_s)), job.job_id)
            for job, rank in zip(view.jobs, ranks, strict=True)
        )
        return [job_id for _, job_id in keyed]

    def _is_due(self, job: JobRecord, at_s: float) -> bool:
        return at_s - job.queued_s > self._expectations.window_s(job, at_s)

    def is_outdated(self, ranked: QueueMark, now: QueueMark) -> bool:
        """See RefreshedOrder: ranks depend on time and on the cluster."""
        return now.at_s - ranked.at_s >= _REFRESH_S

    def note(self, job: JobRecord, at_s: float) -> None:
        """See NotedOrder."""
        self._expectations.note(job, at_s)


def _key(job: JobRecord, rank: float, is_due: bool) -> SortKey:
    place = (0, job.queued_s) if is_due else (1, -rank)
    return -job.spec.precedence, *place, *submission_key(job.spec)


class _KnownOf(Protocol):
    def __call__(self, job: JobRecord, at_s: float) -> Known: ...


def job_features(view: QueueView, known_of: _KnownOf) -> Floats:
    """Return float32 [job, JOB_COLUMNS], all finite.

    gpu_log and node_log are log2 of GPUs and nodes. waited_log, limit_log, expected_log (run time),
    service_log (GPU-seconds) and attained_log are a tenth of log(1 + seconds): an hour is 0.82.
    has_limit is 0 or 1. known_frac is n / (n + 1) for n similar jobs that ended. turn_frac is the
    job's place in Slurm's order, from 0 (first) to 1. waited_days and service_days (GPU-days) are
    the same times as above, not as logarithms: some orders weigh one against the other. due_days is
    the time until the job is due in the learned order.

    Args:
        view: the queue.
        known_of: returns what is expected of a job.
    """
    found = np.zeros((len(view.jobs), len(JOB_COLUMNS)), dtype=np.float32)
    turns = _turns(view.jobs)
    for number, job in enumerate(view.jobs):
        spec = job.spec
        expected_s, job_count, due_s = known_of(job, view.at_s)
        gpu_count, limit_s = max(spec.gpu_count, 1), spec.time_limit_s or 0.0
        found[number] = (
            np.log2(gpu_count),
            np.log2(max(min(shape.node_count for shape in spec.shapes), 1)),
            _log(view.at_s - job.queued_s),
            _log(limit_s),
            1.0 if limit_s else 0.0,
            _log(expected_s),
            _log(expected_s * gpu_count),
            _log(job.attained_gpu_s(view.at_s)),
            job_count / (job_count + 1.0),
            turns[job.job_id],
            max(view.at_s - job.queued_s, 0.0) / _DAY_S,
            expected_s * gpu_count / _DAY_S,
            (due_s - view.at_s) / _DAY_S,
        )
    return found


def cluster_features(view: QueueView) -> Floats:
    """Return float32 [CLUSTER_COLUMNS].

    free_frac is the share of GPUs that are free; queued_log and demand_log are log(1 + n) / 10 of
    the waiting jobs and of the GPUs that they ask for.
    """
    cluster = view.cluster
    gpu_count = sum(cluster.table(node).gpu_count for node in cluster.index_of.values())
    wanted_count = sum(job.spec.gpu_count for job in view.jobs)
    free_frac = cluster.free_count() / gpu_count if gpu_count else 0.0
    return np.array([free_frac, _log(len(view.jobs)), _log(wanted_count)], dtype=np.float32)


def _turns(jobs: Sequence[JobRecord]) -> Mapping[JobId, float]:
    ordered = sorted((submission_key(job.spec), job.job_id) for job in jobs)
    most = max(len(ordered) - 1, 1)
    return {job_id: turn / most for turn, (_, job_id) in enumerate(ordered)}


def _log(value: float) -> float:
    return log1p(max(value, 0.0)) / 10.0
