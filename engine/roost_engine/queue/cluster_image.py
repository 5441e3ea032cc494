"""The image of the cluster that the job selector reads: which GPUs are held, and how long still.

It has the same size for every cluster: nodes are sorted by what is free on them and by how soon
more will be, and 32 of them are shown, evenly spaced. Page: docs/learned.md.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.link_table import MAX_GPUS
from roost_engine.domain.model import JobId, NodeShare
from roost_engine.job_record import JobRecord
from roost_engine.policies.protocols import QueueView
from roost_engine.queue.selector_columns import IMAGE_GPU_COUNT, IMAGE_NODE_COUNT

_Shares: TypeAlias = tuple[NodeShare, ...]
_Where: TypeAlias = tuple[NDArray[np.intp], NDArray[np.intp]]

SECONDS_PER_UNIT, UNITS = 60.0, 8.0  # ln(1 + s / 60) / 8 is 1 at two days
_SHAPE = (2, IMAGE_NODE_COUNT, IMAGE_GPU_COUNT)
_UNKNOWN_S = 3_600.0  # what a job that Slurm started by itself is expected to run
_LEAST, _MOST = 0.01, 2.0  # of a GPU that is held; the most is also that of a node out of use
_FREE = -1.0  # in place of a time
_FRAME = "frame of the selector's image"


@dataclass(frozen=True, slots=True, eq=False)
class _Frame:
    """The part of the image of a cluster that stays as long as its nodes do.

    Attributes:
        gpu_count: of all nodes, 1 at least.
        width: GPUs of the largest node.
        missing: bool [node, GPU], GPUs that are not there; None: every node has as many.
        shown: indices of the sorted GPUs that are shown, evenly spaced: [node, 8]; None: all are.
        unusable: bool [node], where Slurm would start nothing; None: nowhere.
        places: which of the sorted nodes are shown.
    """

    gpu_count: int
    width: int
    missing: NDArray[np.bool_] | None
    shown: tuple[NDArray[np.intp], NDArray[np.intp]] | None
    unusable: NDArray[np.bool_] | None
    places: NDArray[np.intp]

    @classmethod
    def of(cls, cluster: Cluster) -> "_Frame":
        """Return that of a cluster, made once as long as no node changes."""
        found = cluster.memo.get(_FRAME)
        if not isinstance(found, cls):
            found = cluster.memo[_FRAME] = cls._made(cluster)
        return found

    @classmethod
    def _made(cls, cluster: Cluster) -> "_Frame":
        count = len(cluster)
        sizes, usable = cluster.gpu_count[:count], cluster.usable[:count]
        width = max(int(sizes.max(initial=0)), 1)
        missing = np.arange(width) >= sizes[:, None]
        shown = np.arange(IMAGE_GPU_COUNT) * sizes[:, None] // IMAGE_GPU_COUNT
        is_whole = width == IMAGE_GPU_COUNT and not missing.any()
        return cls(
            gpu_count=max(int(sizes.sum()), 1),
            width=width,
            missing=missing if missing.any() else None,
            shown=None if is_whole else (np.arange(count)[:, None], shown),
            unusable=None if usable.all() else ~usable,
            places=np.arange(IMAGE_NODE_COUNT) * count // IMAGE_NODE_COUNT,
        )


def gpu_count_of(cluster: Cluster) -> int:
    """Return how many GPUs a cluster has, 1 at least."""
    return _Frame.of(cluster).gpu_count


class ClusterImage:
    """Knows which GPUs are held, and until when that is expected.

    Args:
        expected_s: how long a job is expected to run still.
    """

    def __init__(self, expected_s: Callable[[JobRecord, float], float]) -> None:
        self._expected_s = expected_s
        self._held: dict[JobId, tuple[_Shares, _Where]] = {}
        self._until_s = np.full((64, MAX_GPUS), _FREE)
        self._read: tuple[Cluster, int] | None = None  # what was read last, and its change_count

    def draw(self, view: QueueView, out: NDArray[np.float32]) -> None:
        """Write both parts of the image into a flat array."""
        cluster, count = view.cluster, len(view.cluster)
        self._update(view, count)
        if not count:
            out[:] = 0.0
            return
        frame = _Frame.of(cluster)
        left = self._left(view.at_s, count, frame.width)
        if frame.missing is not None:
            left[frame.missing] = np.inf  # GPUs that are not there, last
        left.sort(axis=1)
        if frame.shown is not None:
            left = left[frame.shown]
        if frame.unusable is not None:
            left[frame.unusable] = _MOST
        order = np.add.reduce(left, axis=1).argsort(kind="stable")
        held, shown = out.reshape(_SHAPE)
        shown[:] = left.take(order.take(frame.places), axis=0)
        np.minimum(shown, _MOST, out=shown)
        np.greater(shown, 0.0, out=held)

    def _left(self, at_s: float, count: int, width: int) -> NDArray[np.float64]:
        """Return how long each GPU is held still, scaled; 0: it is free: [node, GPU]."""
        until_s = self._until_s[:count, :width]
        left = until_s - at_s
        # A job that is overdue is expected to run on for half of the time by which it is.
        np.maximum(left, left * -0.5, out=left)
        left /= SECONDS_PER_UNIT
        np.log1p(left, out=left)
        left /= UNITS
        np.maximum(left, _LEAST, out=left)
        left *= until_s != _FREE
        return left

    def _update(self, view: QueueView, count: int) -> None:
        """Read what jobs hold now, if that has changed."""
        cluster = view.cluster
        if self._read == (cluster, cluster.change_count):
            return
        self._read = cluster, cluster.change_count
        if count > len(self._until_s):
            self._until_s = np.full((2 * count, MAX_GPUS), _FREE)
            self._held.clear()
        held, shares_of = self._held, cluster.shares
        for job_id in [one for one, (shares, _) in held.items() if shares_of(one) != shares]:
            self._until_s[held.pop(job_id)[1]] = _FREE
        for job_id in [one for one in cluster.held_jobs() if one not in held]:
            shares = shares_of(job_id)
            where = _where(cluster, shares)
            held[job_id] = shares, where
            record = view.known.get(job_id)
            rest_s = _UNKNOWN_S if record is None else self._expected_s(record, view.at_s)
            self._until_s[where] = view.at_s + rest_s


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
