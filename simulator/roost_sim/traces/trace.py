"""A trace: the jobs that a simulation replays, as columns.

Columns rather than objects: a year of a large site is a million jobs, and slicing, scaling and
statistics are then single numpy calls. Files are read by `roost_sim.traces.formats`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from roost_sim.errors import TraceError

MAX_TIME_S = 1e11  # three thousand years: a larger time has a wrong unit
_YEAR_S = 365 * 86_400
UNKNOWN = -1  # in node_count, user_id, model_id and the ids of Labels: not in the trace


class Status(IntEnum):
    """How a job ended on the cluster where the trace was taken."""

    UNKNOWN = 0
    COMPLETED = 1
    FAILED = 2
    CANCELLED = 3
    TIMEOUT = 4  # stopped at its time limit: it would have run longer


@dataclass(frozen=True, slots=True, eq=False)
class Labels:
    """A name for each job, such as its account; jobs share the names.

    Attributes:
        ids: int32 [job], an index into `names`, or UNKNOWN.
        names: each name once.
    """

    ids: NDArray[np.int32]
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.ids.setflags(write=False)

    @classmethod
    def unknown(cls, count: int) -> "Labels":
        """Return labels of jobs that have no name."""
        return cls(np.full(count, UNKNOWN, dtype=np.int32))

    def of(self, position: int) -> str:
        """Return the name of a job; "" if unknown."""
        index = int(self.ids[position])
        return "" if index == UNKNOWN else self.names[index]

    def between(self, begin: int, end: int) -> list[str]:
        """Return the names of consecutive jobs, `end` left out; "" where unknown."""
        names = (*self.names, "")  # UNKNOWN is the last position
        return [names[index] for index in self.ids[begin:end].tolist()]

    def where(self, keep: NDArray[np.bool_] | NDArray[np.int64]) -> "Labels":
        """Return the labels of a mask, bool [job], or of positions, int64 [job]."""
        return Labels(self.ids[keep], self.names)


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """Jobs in order of submission.

    Attributes:
        source: the file, or how the trace was made.
        submit_s: float64 [job], ascending, 0 or later.
        duration_s: float64 [job], above 0: the run time on the cluster of the trace.
        gpu_count: int32 [job], above 0.
        node_count: int32 [job]; UNKNOWN: the scheduler may choose.
        user_id: int32 [job], an index into user_names, or UNKNOWN.
        model_id: int32 [job], an index into model_names, or UNKNOWN.
        status: uint8 [job], values of Status.
        user_names: each name once.
        job_name: of each job, as its user submitted it.
        account: of each job in Slurm's accounting, or the virtual cluster of a public trace.
        partition: where each job ran on the cluster of the trace. A simulated cluster has one
            partition of its own, and nothing there depends on this one.
        qos: of each job, Slurm's quality of service.
        time_limit_s: float64 [job]; infinite: without a limit; not a number: unknown.
        wait_s: float64 [job], from submission to start in the trace; not a number: unknown.
        is_array: bool [job], whether it is a task of a job array; False where unknown.
        user_names: each name once.
        model_names: each name once.
        epoch_of_zero_s: the wall clock at submit_s 0, read as UTC; None: unknown.
    """

    source: str
    submit_s: NDArray[np.float64]
    duration_s: NDArray[np.float64]
    gpu_count: NDArray[np.int32]
    node_count: NDArray[np.int32]
    user_id: NDArray[np.int32]
    model_id: NDArray[np.int32]
    status: NDArray[np.uint8]
    job_name: Labels
    account: Labels
    partition: Labels
    qos: Labels
    time_limit_s: NDArray[np.float64]
    wait_s: NDArray[np.float64]
    is_array: NDArray[np.bool_]
    user_names: tuple[str, ...] = ()
    model_names: tuple[str, ...] = ()
    epoch_of_zero_s: float | None = None

    def __post_init__(self) -> None:
        count = len(self.submit_s)
        for name in (*_ROW_COLUMNS, "submit_s"):
            column = getattr(self, name)
            if column.shape != (count,):
                raise ValueError(f"{name} has shape {column.shape}, want ({count},)")
            column.setflags(write=False)
        for name in LABELS:
            if len(getattr(self, name).ids) != count:
                raise ValueError(f"{name} has not {count} ids")
        if count and (self.submit_s[0] < 0 or bool(np.any(np.diff(self.submit_s) < 0))):
            raise ValueError("submit_s must be ascending and not negative")

    def __len__(self) -> int:
        return len(self.submit_s)

    @property
    def span_s(self) -> float:
        """Seconds from the first submission to the last; 0 for an empty trace."""
        return float(self.submit_s[-1] - self.submit_s[0]) if len(self) else 0.0

    @property
    def work_gpu_s(self) -> float:
        """GPU-seconds of all jobs."""
        return float((self.gpu_count * self.duration_s).sum())

    def user_name(self, position: int) -> str:
        """Return the user of a job; "" if unknown."""
        index = int(self.user_id[position])
        return "" if index == UNKNOWN else self.user_names[index]

    def model_name(self, position: int) -> str:
        """Return the model of a job; "" if unknown."""
        index = int(self.model_id[position])
        return "" if index == UNKNOWN else self.model_names[index]

    def ended_s(self) -> NDArray[np.float64]:
        """Return when each job ended in the trace, float64 [job]; a job of unknown wait had none.

        From then on the site's accounting has its run time.
        """
        return self.submit_s + np.nan_to_num(self.wait_s) + self.duration_s

    def load(self, cluster_gpu_count: int) -> float:
        """Return the offered load: GPU-seconds requested over the cluster's while jobs arrive.

        Source: the ratio that scheduling papers call rho, sum(gpus * duration) / (GPUs * span).

        Raises:
            TraceError: all jobs arrive at once, so that there is no rate.
        """
        if cluster_gpu_count <= 0:
            raise ValueError(f"a cluster has GPUs, got {cluster_gpu_count}")
        if self.span_s <= 0:
            reason = "all jobs arrive at once: there is no load; take the trace as it is"
            raise TraceError(self.source, None, reason)
        return self.work_gpu_s / (cluster_gpu_count * self.span_s)

    def at_load(self, load: float, cluster_gpu_count: int) -> "Trace":
        """Return the trace with its arrivals scaled in time to an offered load.

        Durations and sizes stay the same; the rhythm of day and week is scaled with the arrivals.
        The result has no wall clock, since it would be wrong.

        Raises:
            TraceError: all jobs arrive at once, or the load is so low that times exceed MAX_TIME_S.
        """
        if not load > 0:
            raise ValueError(f"want a load above 0, got {load}")
        factor = self.load(cluster_gpu_count) / load
        if not self.span_s * factor < MAX_TIME_S:
            years = MAX_TIME_S / _YEAR_S
            reason = f"at a load of {load:g} jobs arrive over more than {years:,.0f} years"
            raise TraceError(self.source, None, f"{reason}; want a higher one")
        first_s = self.submit_s[0]
        return replace(self, submit_s=(self.submit_s - first_s) * factor, epoch_of_zero_s=None)

    def limit(self, count: int) -> "Trace":
        """Return the first `count` jobs, or all if there are fewer."""
        return self.where(np.arange(len(self)) < count)

    def window(self, begin_s: float, end_s: float) -> "Trace":
        """Return the jobs submitted in [begin_s, end_s), with submit_s relative to begin_s."""
        inside = self.where((self.submit_s >= begin_s) & (self.submit_s < end_s))
        zero_s = None if self.epoch_of_zero_s is None else self.epoch_of_zero_s + begin_s
        return replace(inside, submit_s=inside.submit_s - begin_s, epoch_of_zero_s=zero_s)

    def fitting(self, cluster_gpu_count: int) -> "Trace":
        """Return the jobs that request no more GPUs than the cluster has."""
        return self.where(self.gpu_count <= cluster_gpu_count)

    def without_impossible_nodes(self, node_gpu_counts: Sequence[int]) -> "Trace":
        """Return the trace with node counts that a cluster cannot satisfy set to UNKNOWN.

        Example: a job of 16 GPUs on 16 nodes may run on two nodes of 8 if there are only two.

        Args:
            node_gpu_counts: GPUs of each node of the cluster.
        """
        sizes = np.sort(np.asarray(node_gpu_counts, dtype=np.int64))
        known = np.maximum(self.node_count, 1)
        each = -(-self.gpu_count.astype(np.int64) // known)
        able = len(sizes) - np.searchsorted(sizes, each, side="left")
        possible = (self.node_count == UNKNOWN) | (self.node_count <= able)
        return replace(self, node_count=np.where(possible, self.node_count, np.int32(UNKNOWN)))

    def where(self, keep: NDArray[np.bool_]) -> "Trace":
        """Return the jobs of a mask, bool [job]; times and names are unchanged."""
        columns = {name: getattr(self, name)[keep] for name in (*_ROW_COLUMNS, "submit_s")}
        labels = {name: getattr(self, name).where(keep) for name in LABELS}
        return replace(self, **columns, **labels)


LABELS = ("job_name", "account", "partition", "qos")
_ROW_COLUMNS = (
    "duration_s",
    "gpu_count",
    "node_count",
    "user_id",
    "model_id",
    "status",
    "time_limit_s",
    "wait_s",
    "is_array",
)


def make_trace(
    source: str,
    submit_s: Sequence[float] | NDArray[np.float64],
    duration_s: Sequence[float] | NDArray[np.float64],
    gpu_count: Sequence[int] | NDArray[np.int32],
    *,
    node_count: Sequence[int] | NDArray[np.int32] | None = None,
    user_id: NDArray[np.int32] | None = None,
    model_id: NDArray[np.int32] | None = None,
    status: Sequence[int] | NDArray[np.uint8] | None = None,
    labels: Mapping[str, Labels] | None = None,
    time_limit_s: Sequence[float] | NDArray[np.float64] | None = None,
    wait_s: Sequence[float] | NDArray[np.float64] | None = None,
    is_array: Sequence[bool] | NDArray[np.bool_] | None = None,
    user_names: Sequence[str] = (),
    model_names: Sequence[str] = (),
    epoch_of_zero_s: float | None = None,
) -> Trace:
    """Build a trace from columns in any order: it is sorted by submission, ties as given.

    Args:
        source: the file, or how the trace was made.
        submit_s: [job].
        duration_s: [job].
        gpu_count: [job].
        node_count: [job]; None: unknown for every job.
        user_id: [job]; None: unknown.
        model_id: [job]; None: unknown.
        status: [job]; None: unknown.
        labels: some of LABELS by name, in the order of the other columns; a missing one is unknown.
        time_limit_s: [job]; None: unknown.
        wait_s: [job]; None: unknown.
        is_array: [job]; None: no job is.
        user_names: indexed by user_id.
        model_names: indexed by model_id.
        epoch_of_zero_s: the wall clock at submit_s 0.
    """
    submit = np.asarray(submit_s, dtype=np.float64)
    order = np.argsort(submit, kind="stable")
    if not len(submit) == len(duration_s) == len(gpu_count):
        raise ValueError("submit_s, duration_s and gpu_count differ in shape")
    states = np.zeros(len(submit), dtype=np.uint8) if status is None else np.asarray(status)
    arrays = np.zeros(len(submit), dtype=bool) if is_array is None else np.asarray(is_array)
    return Trace(
        source=source,
        submit_s=submit[order],
        duration_s=np.asarray(duration_s, dtype=np.float64)[order],
        gpu_count=np.asarray(gpu_count, dtype=np.int32)[order],
        node_count=_ids(node_count, order),
        user_id=_ids(user_id, order),
        model_id=_ids(model_id, order),
        status=states.astype(np.uint8)[order],
        **_labels(labels or {}, order),
        time_limit_s=_seconds(time_limit_s, order),
        wait_s=_seconds(wait_s, order),
        is_array=arrays.astype(np.bool_)[order],
        user_names=tuple(user_names),
        model_names=tuple(model_names),
        epoch_of_zero_s=epoch_of_zero_s,
    )


def _ids(
    column: Sequence[int] | NDArray[np.int32] | None, order: NDArray[np.intp]
) -> NDArray[np.int32]:
    if column is None:
        return np.full(len(order), UNKNOWN, dtype=np.int32)
    return np.asarray(column, dtype=np.int32)[order]


def _seconds(
    column: Sequence[float] | NDArray[np.float64] | None, order: NDArray[np.intp]
) -> NDArray[np.float64]:
    if column is None:
        return np.full(len(order), np.nan)
    return np.asarray(column, dtype=np.float64)[order]


def _labels(given: Mapping[str, Labels], order: NDArray[np.intp]) -> dict[str, Labels]:
    return {
        name: given[name].where(order) if name in given else Labels.unknown(len(order))
        for name in LABELS
    }
