"""What the job selector reads: an image and numbers for each waiting job, and for the cluster.

The trainer, the simulator and roostd ask this one function, so what was trained is what decides.

The columns are in `selector_columns`, the image of the cluster is in `cluster_image`. Neither the
number of nodes nor their names matter, and nothing in a job's line depends on the order of the
jobs. Run times are what the predictors expect.

Source: Ayadi et al., TopDRL, JPDC 2025, whose images are not published; page: docs/learned.md.
"""

from collections.abc import Sequence
from functools import lru_cache
from math import log1p
from operator import is_
from typing import cast

import numpy as np
from numpy.typing import NDArray

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.node_sets import EVERY_NODE, NodeSet, doubled
from roost_engine.domain.model import JobId
from roost_engine.domain.value import value
from roost_engine.job_record import JobRecord
from roost_engine.policies.protocols import QueueView
from roost_engine.prediction.predictors import Predictors
from roost_engine.prediction.run_time.run_times import ENDS_S, STARTS_S, RunTimes
from roost_engine.queue.cluster_image import SECONDS_PER_UNIT, UNITS, ClusterImage, gpu_count_of
from roost_engine.queue.selector_columns import (
    CLUSTER_COLUMNS,
    CLUSTER_NUMBERS,
    IMAGE_GPUS,
    IMAGE_TIMES_S,
    JOB_COLUMNS,
    JOB_NUMBERS,
)
from roost_engine.queue.shape_fits import ShapeFits

_IMAGE_SIZE = len(IMAGE_TIMES_S) * len(IMAGE_GPUS)
_FIXED_COUNT = _IMAGE_SIZE + JOB_NUMBERS.index("ln_waited")  # columns that stay while a job waits
# Of queue.learned_order: its numbers, and what it takes a job for whose user is new.
_AGEING, _WINDOW_S, _WINDOW_BACKLOGS, _TYPICAL_GPU_COUNT = 2.0, 6 * 86_400.0, 64.0, 4
_NODE_SIZES = (1, 2, 4, 8)
_SERVICE, _SPAN, _GPUS, _SINCE, _DRAIN = range(5)  # of `_WaitingJobs.quantities`
_HOUR_S = 3_600.0
MOST_NOTED = 20_000


def _running_beyond() -> NDArray[np.float64]:
    """By time of the image and band of run times: the share of the band that is longer."""
    starts_s, ends_s = np.array(STARTS_S), np.array(ENDS_S)
    spans_s = np.array(IMAGE_TIMES_S)[:, None]
    return np.asarray(np.clip((ends_s - spans_s) / (ends_s - starts_s), 0.0, 1.0))


_BEYOND = _running_beyond()
_LOWER = np.array((0, *IMAGE_GPUS[:-1]), dtype=np.float64)
_UPPER = np.array(IMAGE_GPUS, dtype=np.float64)


@value(eq=False)
class SelectorInput:
    """What a selector reads at one decision.

    Attributes:
        job_ids: one for each line of `jobs`.
        jobs: float32 [job, JOB_COLUMNS].
        cluster: float32 [CLUSTER_COLUMNS].
        fits: bool [job], the column of that name.
    """

    job_ids: tuple[JobId, ...]
    jobs: NDArray[np.float32]
    cluster: NDArray[np.float32]
    fits: NDArray[np.bool_]


class SelectorFeatures:
    """Describes queue and cluster; what stays while a job waits or runs is computed once.

    A queue has a few jobs most of the time, so what counts is how often numpy is called: quantities
    of a job stand together in one array, and logarithms are taken of several columns at once.

    Args:
        predictors: say how long jobs run.
    """

    def __init__(self, predictors: Predictors) -> None:
        self._predictors = predictors
        self._waiting = _WaitingJobs(predictors)
        self._image = ClusterImage(self._expected_s)

    def observe(
        self,
        view: QueueView,
        jobs: Sequence[JobRecord] | None = None,
        fits: NDArray[np.bool_] | None = None,
    ) -> SelectorInput:
        """Describe the queue.

        Args:
            view: the queue and the cluster.
            jobs: the jobs to describe; None: every job of the view.
            fits: [job], what `fits` has answered for these jobs; None: it is not known.
        """
        described = view.jobs if jobs is None else jobs
        cluster, waiting = view.cluster, self._waiting
        waiting.forget_all_but(view.jobs)
        lines = waiting.lines(described, view.at_s)
        if fits is None:
            fits = waiting.fits(cluster, lines)
        quantities = waiting.quantities.take(lines, axis=1)
        service = quantities[_SERVICE]
        service_sum = float(np.add.reduce(service))
        jobs_out = waiting.columns.take(lines, axis=0)
        moving = jobs_out[:, _FIXED_COUNT:]
        trust_frac = self._predictors.skill.trust_frac
        moving[:, :3] = _of_waits(quantities, view.at_s, trust_frac).T
        moving[:, 3] = fits
        free_count = max(cluster.free_gpu_count, 1)
        moving[:, 4] = np.minimum(quantities[_GPUS] / free_count, 2.0)
        moving[:, 5] = _share_below(service)
        moving[:, 6] = _share_below(quantities[_GPUS])
        cluster_out = np.empty(len(CLUSTER_COLUMNS), dtype=np.float32)
        self._image.draw(view, cluster_out[: -len(CLUSTER_NUMBERS)])
        gpu_sum = float(np.add.reduce(quantities[_GPUS]))
        fitting_frac = np.count_nonzero(fits) / len(fits) if len(fits) else 0.0
        cluster_out[-len(CLUSTER_NUMBERS) :] = (
            *_numbers_of_cluster(cluster),
            log1p(len(lines)) / 8.0,
            log1p(gpu_sum / gpu_count_of(cluster)),
            _ln_of(service_sum / gpu_count_of(cluster)),
            fitting_frac,
        )
        return SelectorInput(
            job_ids=tuple([record.spec.job_id for record in described]),
            jobs=jobs_out,
            cluster=cluster_out,
            fits=fits,
        )

    def note(self, record: JobRecord, at_s: float) -> None:
        """Describe a job that was queued by what is expected of it now; it keeps that."""
        self._waiting.note(record, at_s)

    def drain_s(self, record: JobRecord, at_s: float) -> float:
        """Return how long the queue took when a waiting job came."""
        line = self._waiting.line(record, at_s)  # first: a new line may need longer arrays
        return float(self._waiting.quantities[_DRAIN, line])

    def fits(self, view: QueueView, nodes: NodeSet = EVERY_NODE) -> NDArray[np.bool_]:
        """Return whether enough of these nodes have enough free GPUs for a shape of each job.

        See `shape_fits` for what is not looked at.
        """
        self._waiting.forget_all_but(view.jobs)
        lines = self._waiting.lines(view.jobs, view.at_s)
        return self._waiting.fits(view.cluster, lines, nodes)

    def _expected_s(self, record: JobRecord, at_s: float) -> float:
        """Return how long a job that runs is expected to run still, by what was asked before."""
        rest_s = self._waiting.rest_s(record)
        return self._predictors.expected_times(record, at_s).rest_s() if rest_s is None else rest_s


class _WaitingJobs:
    """The columns of waiting jobs that stay while they wait, by line.

    Attributes:
        columns: float32 [line, JOB_COLUMNS]; those that change while a job waits are 0.
        quantities: float64 [quantity, line]: `_SERVICE` expected, in GPU-seconds; `_SPAN`, how much
            later than it came the job is due in the learned order; `_GPUS`; `_SINCE`, when it began
            to wait; `_DRAIN`, how long the queue took then.
    """

    def __init__(self, predictors: Predictors) -> None:
        self._predictors = predictors
        self._line_of: dict[JobId, tuple[JobRecord, object, int]] = {}
        self._unused: list[int] = []
        self._asked_s, self._asked = -1.0, cast(Sequence[JobRecord], ())  # the last question
        self._lines = np.zeros(0, dtype=np.intp)
        self._fits = ShapeFits()
        self._shapes = np.zeros(64, dtype=np.intp)  # by line, their number
        self.columns = np.zeros((64, len(JOB_COLUMNS)), dtype=np.float32)
        self.quantities = np.zeros((5, 64))

    def lines(self, jobs: Sequence[JobRecord], at_s: float) -> NDArray[np.intp]:
        """Return the line of each job."""
        if at_s == self._asked_s and are_same(jobs, self._asked):
            return self._lines
        self._asked_s, self._asked = at_s, jobs
        self._lines = np.array([self.line(record, at_s) for record in jobs], dtype=np.intp)
        return self._lines

    def forget_all_but(self, queued: Sequence[JobRecord]) -> None:
        """Give up the lines of jobs that are queued no more, once there are many.

        Args:
            queued: every queued job, also those that are not described.
        """
        if len(self._line_of) > 2 * len(queued) + 64:
            kept = {record.spec.job_id for record in queued}
            for job_id in [job_id for job_id in self._line_of if job_id not in kept]:
                self._forget(job_id)

    def note(self, record: JobRecord, at_s: float) -> None:
        """Fill the line of a job; of very many the oldest is given up, as a canary may not rank."""
        if len(self._line_of) >= MOST_NOTED:
            self._forget(next(iter(self._line_of)))
            self._asked_s = -1.0  # the last answer may name that line
        self.line(record, at_s)

    def line(self, record: JobRecord, at_s: float) -> int:
        """Return the line of a job, which is filled when the job is new or was changed."""
        entry = self._line_of.get(record.spec.job_id)
        # Another record: the job was stopped and waits again. Another spec: it was changed.
        if entry is not None and entry[0] is record and entry[1] is record.spec:
            return entry[2]
        line = self._free_line() if entry is None else entry[2]
        self._line_of[record.spec.job_id] = record, record.spec, line
        self._fill(line, record, at_s)
        return line

    def rest_s(self, record: JobRecord) -> float | None:
        """Return what was expected of a job while it waited; None: it was not asked for."""
        entry = self._line_of.get(record.spec.job_id)
        if entry is None or entry[0] is not record:
            return None
        return float(self.quantities[_SERVICE, entry[2]] / self.quantities[_GPUS, entry[2]])

    def fits(
        self, cluster: Cluster, lines: NDArray[np.intp], nodes: NodeSet = EVERY_NODE
    ) -> NDArray[np.bool_]:
        """See SelectorFeatures.fits."""
        enough = self._fits.enough(cluster, nodes)
        return np.asarray(enough[self._shapes[lines]], dtype=np.bool_)

    def _fill(self, line: int, record: JobRecord, at_s: float) -> None:
        spec = record.spec
        times = self._predictors.run_times(record, at_s)
        rest_s, gpus = times.rest_s(), spec.gpu_count
        backlog = self._predictors.backlog
        backlog.wait(spec.job_id, gpus * rest_s)
        drain_s = backlog.drain_of_s(spec.job_id)
        if times.age_s <= 0.0:  # as the learned order does: trust is earned by what was expected
            self._predictors.skill.expect(spec.job_id, rest_s)
        nodes = min((shape.node_count for shape in spec.shapes), default=1)
        self.quantities[:, line] = (  # in the order of their names
            gpus * rest_s,
            min(
                _AGEING * rest_s * (gpus if times.is_of_user else _TYPICAL_GPU_COUNT),
                _WINDOW_S + _WINDOW_BACKLOGS * drain_s,
            ),
            gpus,
            max(spec.submit_s, spec.eligible_s),
            drain_s,
        )
        self._shapes[line] = self._fits.number_of(spec.shapes)
        columns = self.columns[line]
        _draw(times, gpus, columns[:_IMAGE_SIZE].reshape(len(IMAGE_TIMES_S), len(IMAGE_GPUS)))
        columns[_IMAGE_SIZE:_FIXED_COUNT] = (
            log1p(gpus) / 5.0,
            log1p(nodes) / 3.0,
            _ln_of(rest_s),
            _ln_of(gpus * rest_s),
            _ln_of(times.quantile_s(0.5)),
            _ln_of(times.quantile_s(0.9)),
            log1p(times.job_count) / 8.0,
            float(times.is_of_user),
            float(spec.time_limit_s is not None),
            _ln_of(record.earlier_run_s),
        )

    def _free_line(self) -> int:
        if self._unused:
            return self._unused.pop()
        line = len(self._line_of)
        if line == len(self.columns):
            self.columns, self._shapes = doubled(self.columns), doubled(self._shapes)
            self.quantities = np.concatenate((self.quantities, self.quantities), axis=1)
        return line

    def _forget(self, job_id: JobId) -> None:
        self._unused.append(self._line_of.pop(job_id)[2])


def are_same(jobs: Sequence[JobRecord], others: Sequence[JobRecord]) -> bool:
    """Return whether both have the very same records; to compare their fields is much slower."""
    return len(jobs) == len(others) and all(map(is_, jobs, others))


def _draw(times: RunTimes, gpu_count: int, out: NDArray[np.float32]) -> None:
    """Write the image of a job: [time, GPUs]."""
    if times.age_s > 0.0:
        beyond = np.array([1.0 - times.ends_within_frac(span_s) for span_s in IMAGE_TIMES_S])
    else:
        beyond = np.add.reduce(_BEYOND * times.ending_fracs, axis=1)
    np.multiply(beyond[:, None], _covered(gpu_count), out=out)


@lru_cache(256)
def _covered(gpu_count: int) -> NDArray[np.float64]:
    """Return the share of each column of a job's image that its GPUs fill: [GPUs]."""
    return np.clip((gpu_count - _LOWER) / (_UPPER - _LOWER), 0.0, 1.0)


def _of_waits(
    quantities: NDArray[np.float64], at_s: float, trust_frac: float
) -> NDArray[np.float64]:
    """Return the columns ln_waited, ln_trusted_due and waited_per_rest: [column, job]."""
    waited_s = at_s - quantities[_SINCE]
    due_s = trust_frac * quantities[_SPAN]
    due_s -= waited_s
    found = np.empty((3, len(waited_s)))
    np.maximum(waited_s, 0.0, out=found[0])
    found[0] /= SECONDS_PER_UNIT
    np.abs(due_s, out=found[1])
    found[1] /= _HOUR_S
    np.multiply(waited_s, quantities[_GPUS], out=found[2])
    found[2] /= quantities[_SERVICE]
    np.log1p(found, out=found)
    found /= UNITS
    np.copysign(found[1], due_s, out=found[1])
    return found


def _numbers_of_cluster(cluster: Cluster) -> tuple[float, ...]:
    """Return the first of CLUSTER_NUMBERS, which the queue does not change."""
    node_count, gpu_count = max(len(cluster), 1), gpu_count_of(cluster)
    free_count, at_least = cluster.free_gpu_count, cluster.gpu_free.at_least
    return (
        free_count / gpu_count,
        log1p(free_count) / 8.0,
        log1p(gpu_count) / 8.0,
        log1p(node_count) / 8.0,
        *[at_least[size].bit_count() / node_count for size in _NODE_SIZES],
    )


def _share_below(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return for each value the share of all values that are smaller."""
    ordered = values.copy()
    ordered.sort()
    return ordered.searchsorted(values) / max(len(values), 1)


def _ln_of(seconds: float) -> float:
    return log1p(max(seconds, 0.0) / SECONDS_PER_UNIT) / UNITS
