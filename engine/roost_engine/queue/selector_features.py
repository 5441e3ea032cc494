"""What the job selector reads: an image and numbers for each waiting job, and for the cluster.

The trainer, the simulator and roostd ask this one function, so what was trained is what decides.

The columns are in `selector_columns`.

The image of the cluster has the same size for every cluster: its nodes are sorted by what is free
on them and by how soon more will be, and 32 of them are shown, evenly spaced. So neither the number
of nodes nor their names matter. Nothing in a job's line depends on the order of the jobs.
Run times are what the predictors expect.

Source: Ayadi et al., TopDRL, JPDC 2025, whose images are not published; page: docs/learned.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log1p
from typing import TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.link_table import MAX_GPUS
from roost_engine.cluster.node_sets import EVERY_NODE, NodeSet, doubled
from roost_engine.domain.model import JobId, NodeShare
from roost_engine.job_record import JobRecord
from roost_engine.policies.protocols import QueueView
from roost_engine.prediction.predictors import Predictors
from roost_engine.prediction.run_times import ENDS_S, STARTS_S, RunTimes
from roost_engine.queue.selector_columns import (
    IMAGE_GPU_COUNT,
    IMAGE_GPUS,
    IMAGE_NODE_COUNT,
    IMAGE_TIMES_S,
    JOB_COLUMNS,
    JOB_NUMBERS,
)
from roost_engine.queue.shape_fits import ShapeFits

_Shares: TypeAlias = tuple[NodeShare, ...]
_Where: TypeAlias = tuple[NDArray[np.intp], NDArray[np.intp]]

_IMAGE_SIZE = len(IMAGE_TIMES_S) * len(IMAGE_GPUS)
_FIXED_COUNT = _IMAGE_SIZE + JOB_NUMBERS.index("ln_waited")  # columns that stay while a job waits
# Of queue.learned_order: its numbers, and what it takes a job for whose user is new.
_AGEING, _WINDOW_S, _WINDOW_BACKLOGS, _TYPICAL_GPU_COUNT = 2.0, 6 * 86_400.0, 64.0, 4
_NODE_SIZES = (1, 2, 4, 8)
_SECONDS_PER_UNIT, _UNITS = 60.0, 8.0  # ln(1 + s / 60) / 8 is 1 at two days
_HOUR_S = 3_600.0


def _running_beyond() -> NDArray[np.float64]:
    """By time of the image and band of run times: the share of the band that is longer."""
    starts_s, ends_s = np.array(STARTS_S), np.array(ENDS_S)
    spans_s = np.array(IMAGE_TIMES_S)[:, None]
    return np.asarray(np.clip((ends_s - spans_s) / (ends_s - starts_s), 0.0, 1.0))


_BEYOND = _running_beyond()
_LOWER = np.array((0, *IMAGE_GPUS[:-1]), dtype=np.float64)
_UPPER = np.array(IMAGE_GPUS, dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class SelectorInput:
    """What a selector reads at one decision.

    Attributes:
        job_ids: one for each line of `jobs`.
        jobs: float32 [job, JOB_COLUMNS].
        cluster: float32 [CLUSTER_COLUMNS].
        fits: bool [job], the column of that name.
        service_gpu_s: float64 [job], what each job is expected to need.
    """

    job_ids: tuple[JobId, ...]
    jobs: NDArray[np.float32]
    cluster: NDArray[np.float32]
    fits: NDArray[np.bool_]
    service_gpu_s: NDArray[np.float64]


class SelectorFeatures:
    """Describes queue and cluster; what stays while a job waits or runs is computed once.

    Args:
        predictors: say how long jobs run.
    """

    def __init__(self, predictors: Predictors) -> None:
        self._predictors = predictors
        self._waiting = _WaitingJobs(predictors)
        self._running = _RunningJobs(predictors, self._waiting)

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
        cluster, at_s, waiting = view.cluster, view.at_s, self._waiting
        lines = waiting.lines(described, at_s)
        fixed, service = waiting.fixed[lines], waiting.service_gpu_s[lines]
        free_count = cluster.free_gpu_count
        if fits is None:
            fits = waiting.fits(cluster, lines)
        waited_s = at_s - waiting.since_s[lines]
        window_s = _WINDOW_S + _WINDOW_BACKLOGS * float(service.sum()) / _gpu_count(cluster)
        gpus = waiting.gpu_count[lines]
        jobs_out = np.empty((len(lines), len(JOB_COLUMNS)), dtype=np.float32)
        jobs_out[:, :_FIXED_COUNT] = fixed
        moving = jobs_out[:, _FIXED_COUNT:]
        due_s = np.minimum(_AGEING * waiting.ordered_gpu_s[lines], window_s) - waited_s
        moving[:, 0] = _ln_time(waited_s)
        moving[:, 1] = np.sign(due_s) * np.log1p(np.abs(due_s) / _HOUR_S) / _UNITS
        moving[:, 2] = np.log1p(waited_s * gpus / service) / _UNITS
        moving[:, 3] = fits
        moving[:, 4] = np.minimum(gpus / max(free_count, 1), 2.0)
        moving[:, 5] = _share_below(service)
        moving[:, 6] = _share_below(gpus)
        numbers = self._numbers(cluster, gpus, service, fits)
        image = self._running.image(view)
        return SelectorInput(
            job_ids=tuple([record.spec.job_id for record in described]),
            jobs=jobs_out,
            cluster=np.concatenate((image, numbers)),
            fits=fits,
            service_gpu_s=service,
        )

    def fits(self, view: QueueView, nodes: NodeSet = EVERY_NODE) -> NDArray[np.bool_]:
        """Return whether enough of these nodes have enough free GPUs for a shape of each job.

        Quick, and a little hopeful: CPUs, memory, partitions and common GPU indices are not looked
        at.
        """
        lines = self._waiting.lines(view.jobs, view.at_s)
        return self._waiting.fits(view.cluster, lines, nodes)

    def _numbers(
        self,
        cluster: Cluster,
        gpus: NDArray[np.float64],
        service: NDArray[np.float64],
        fits: NDArray[np.bool_],
    ) -> NDArray[np.float32]:
        node_count = max(len(cluster), 1)
        gpu_count = _gpu_count(cluster)
        free_count, at_least = cluster.free_gpu_count, cluster.gpu_free.at_least
        return np.array(
            (
                free_count / gpu_count,
                log1p(free_count) / 8.0,
                log1p(gpu_count) / 8.0,
                log1p(node_count) / 8.0,
                *(at_least[size].bit_count() / node_count for size in _NODE_SIZES),
                log1p(len(gpus)) / 8.0,
                log1p(float(gpus.sum()) / gpu_count),
                log1p(float(service.sum()) / gpu_count / _SECONDS_PER_UNIT) / _UNITS,
                float(fits.mean()) if len(fits) else 0.0,
            ),
            dtype=np.float32,
        )


class _WaitingJobs:
    """The columns of waiting jobs that stay while they wait, by line.

    Attributes:
        fixed: float32 [line, column].
        service_gpu_s: float64 [line], expected.
        ordered_gpu_s: float64 [line], the same as the learned order has it.
        gpu_count, since_s: float64 [line].
    """

    def __init__(self, predictors: Predictors) -> None:
        self._predictors = predictors
        self._line_of: dict[JobId, tuple[JobRecord, object, int]] = {}
        self._unused: list[int] = []
        self._asked_s, self._asked = -1.0, cast(Sequence[JobRecord], ())  # the last question
        self._lines = np.zeros(0, dtype=np.intp)
        self._fits = ShapeFits()
        self._shapes = np.zeros(64, dtype=np.intp)  # by line, their number
        self.fixed = np.zeros((64, _FIXED_COUNT), dtype=np.float32)
        self.service_gpu_s, self.ordered_gpu_s = np.zeros((2, 64))
        self.gpu_count, self.since_s = np.zeros((2, 64))

    def lines(self, jobs: Sequence[JobRecord], at_s: float) -> NDArray[np.intp]:
        """Return the line of each job."""
        if at_s == self._asked_s and jobs == self._asked:
            return self._lines
        known = self._line_of
        if len(known) > 2 * len(jobs) + 64:
            self._forget_all_but(jobs)
        found = []
        for record in jobs:
            entry = known.get(record.spec.job_id)
            # Another record: the job was stopped and waits again. Another spec: it was changed.
            if entry is None or entry[0] is not record or entry[1] is not record.spec:
                line = self._free_line() if entry is None else entry[2]
                known[record.spec.job_id] = record, record.spec, line
                self._fill(line, record, at_s)
                found.append(line)
            else:
                found.append(entry[2])
        self._asked_s, self._asked = at_s, jobs
        self._lines = np.array(found, dtype=np.intp)
        return self._lines

    def rest_s(self, record: JobRecord) -> float | None:
        """Return what was expected of a job while it waited; None: it was not asked for."""
        entry = self._line_of.get(record.spec.job_id)
        if entry is None or entry[0] is not record:
            return None
        return float(self.service_gpu_s[entry[2]] / self.gpu_count[entry[2]])

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
        nodes = min((shape.node_count for shape in spec.shapes), default=1)
        self.service_gpu_s[line], self.gpu_count[line] = gpus * rest_s, gpus
        self.ordered_gpu_s[line] = rest_s * (gpus if times.is_of_user else _TYPICAL_GPU_COUNT)
        self.since_s[line] = max(spec.submit_s, spec.eligible_s)
        self._shapes[line] = self._fits.number_of(spec.shapes)
        image = _image_of(times, gpus)
        numbers = (
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
        self.fixed[line] = np.concatenate((image, numbers))

    def _free_line(self) -> int:
        if self._unused:
            return self._unused.pop()
        line = len(self._line_of)
        if line == len(self.fixed):
            self.fixed = doubled(self.fixed)
            self.service_gpu_s = doubled(self.service_gpu_s)
            self.ordered_gpu_s = doubled(self.ordered_gpu_s)
            self.gpu_count, self.since_s = doubled(self.gpu_count), doubled(self.since_s)
            self._shapes = doubled(self._shapes)
        return line

    def _forget_all_but(self, jobs: Sequence[JobRecord]) -> None:
        kept = {record.spec.job_id for record in jobs}
        for job_id in [job_id for job_id in self._line_of if job_id not in kept]:
            self._unused.append(self._line_of.pop(job_id)[2])


@dataclass(frozen=True, slots=True, eq=False)
class _Frame:
    """The part of the image of a cluster that stays as long as its nodes do.

    Attributes:
        key: the sizes of the nodes.
        width: GPUs of the largest node.
        missing: bool [node, GPU], GPUs that are not there.
        rows, shown: indices of the sorted GPUs that are shown, evenly spaced: [node, 8].
        places: which of the sorted nodes are shown.
    """

    key: bytes
    width: int
    missing: NDArray[np.bool_]
    rows: NDArray[np.intp]
    shown: NDArray[np.intp]
    places: NDArray[np.intp]

    @classmethod
    def of(cls, sizes: NDArray[np.int64], key: bytes) -> "_Frame":
        count, width = len(sizes), max(int(sizes.max()), 1)
        return cls(
            key=key,
            width=width,
            missing=np.arange(width) >= sizes[:, None],
            rows=np.arange(count)[:, None],
            shown=np.arange(IMAGE_GPU_COUNT) * sizes[:, None] // IMAGE_GPU_COUNT,
            places=np.arange(IMAGE_NODE_COUNT) * count // IMAGE_NODE_COUNT,
        )


class _RunningJobs:
    """Which GPUs are held, since when, and until when that is expected."""

    def __init__(self, predictors: Predictors, waiting: _WaitingJobs) -> None:
        self._predictors, self._waiting = predictors, waiting
        self._held: dict[JobId, tuple[_Shares, _Where]] = {}
        self._since_s = self._until_s = np.full((64, MAX_GPUS), -1.0)
        self._frame: _Frame | None = None  # of the cluster that was last seen

    def image(self, view: QueueView) -> NDArray[np.float32]:
        """Return both parts of the image of the cluster, flat."""
        cluster, count = view.cluster, len(view.cluster)
        if count > len(self._since_s):
            self._since_s, self._until_s = np.full((2, 2 * count, MAX_GPUS), -1.0)
            self._held.clear()
        self._update(view)
        if not count:
            return np.zeros(2 * IMAGE_NODE_COUNT * IMAGE_GPU_COUNT, dtype=np.float32)
        frame = self._frame_of(cluster.gpu_count[:count])
        width = frame.width
        since_s, until_s = self._since_s[:count, :width], self._until_s[:count, :width]
        # A job that has outlived what was expected is expected to run half as long again.
        left_s = np.maximum(until_s - view.at_s, (view.at_s - since_s) * 0.5)
        left = np.where(since_s >= 0.0, np.maximum(_ln_time(left_s), 0.01), 0.0)
        left[frame.missing] = np.inf  # GPUs that are not there, last
        left.sort(axis=1)
        left = left[frame.rows, frame.shown]
        left[~cluster.usable[:count]] = 2.0
        order = left.sum(axis=1).argsort(kind="stable")
        picture = np.empty((2, IMAGE_NODE_COUNT, IMAGE_GPU_COUNT), dtype=np.float32)
        picture[1] = left[order[frame.places]]
        np.minimum(picture[1], 2.0, out=picture[1])
        picture[0] = picture[1] > 0.0
        return picture.ravel()

    def _frame_of(self, sizes: NDArray[np.int64]) -> "_Frame":
        """Return what of the image depends on the sizes of the nodes alone."""
        key = sizes.tobytes()
        if self._frame is None or self._frame.key != key:
            self._frame = _Frame.of(sizes, key)
        return self._frame

    def _update(self, view: QueueView) -> None:
        held, shares_of = self._held, view.cluster.shares
        for job_id in [one for one, (shares, _) in held.items() if shares_of(one) != shares]:
            self._since_s[held.pop(job_id)[1]] = -1.0
        for job_id in [one for one in view.cluster.held_jobs() if one not in held]:
            shares = shares_of(job_id)
            where = _where(view.cluster, shares)
            held[job_id] = shares, where
            self._since_s[where] = view.at_s
            self._until_s[where] = view.at_s + self._expected_s(view.known.get(job_id), view.at_s)

    def _expected_s(self, record: JobRecord | None, at_s: float) -> float:
        if record is None:
            return _HOUR_S
        rest_s = self._waiting.rest_s(record)
        if rest_s is None:
            rest_s = self._predictors.expected_times(record, at_s).rest_s()
        return rest_s


def _where(cluster: Cluster, shares: _Shares) -> _Where:
    """Return the nodes and the GPUs of shares, as an index into [node, GPU]."""
    places = [
        (cluster.index_of[share.node], gpu)
        for share in shares
        for gpu in share.gpu_indices
        if gpu < MAX_GPUS
    ]
    nodes, gpus = np.array(places, dtype=np.intp).reshape(-1, 2).T
    return nodes, gpus


def _gpu_count(cluster: Cluster) -> int:
    return max(int(cluster.gpu_count[: len(cluster)].sum()), 1)


def _image_of(times: RunTimes, gpu_count: int) -> NDArray[np.float64]:
    if times.age_s > 0.0:
        beyond = np.array([1.0 - times.ends_within_frac(span_s) for span_s in IMAGE_TIMES_S])
    else:
        beyond = (_BEYOND * times.ending_fracs).sum(axis=1)
    covered = np.clip((gpu_count - _LOWER) / (_UPPER - _LOWER), 0.0, 1.0)
    return np.asarray(np.outer(beyond, covered).ravel())


def _share_below(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return for each value the share of all values that are smaller."""
    return np.searchsorted(np.sort(values), values) / max(len(values), 1)


def _ln_of(seconds: float) -> float:
    return log1p(max(seconds, 0.0) / _SECONDS_PER_UNIT) / _UNITS


def _ln_time(seconds: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.log1p(np.maximum(seconds, 0.0) / _SECONDS_PER_UNIT) / _UNITS)
