"""A job selector of few numbers: a weighted sum of columns, whose weights move with the backlog.

    rank(job) = f(job) · (w + b · v)

f: the job's numbers, and the shares of such jobs that run longer than each of eight times.
b: `ln_backlog` of the cluster. It starts as the learned order, -`ln_trusted_due`. A few dozen
numbers can be searched with whole simulations as the cost (`evolution`), which a network's weights
cannot.
The exported file is a model of kind order, as that of `selector_net`. Page: docs/learned.md.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from roost_engine.queue.selector_columns import (
    CLUSTER_COLUMNS,
    IMAGE_GPUS,
    IMAGE_TIMES_S,
    JOB_COLUMNS,
    JOB_NUMBERS,
)
from roost_formats.models.signature import ORDER
from roost_train.export.onnx_export import serialized

JOBS_NAME, CLUSTER_NAME = (tensor.name for tensor in ORDER.inputs)
RANK_NAME = ORDER.outputs[0].name

# A job holds at least one GPU, so the image's first column shows the shares themselves.
READ_COLUMNS = (*(f"run_{span_s:.0f}_{IMAGE_GPUS[0]}" for span_s in IMAGE_TIMES_S), *JOB_NUMBERS)
# Whose weights move with the backlog: what is due, how long, how large, how well it fits.
MOVED_COLUMNS = ("ln_gpus", "ln_rest", "ln_service", "ln_waited", "ln_trusted_due", "of_free")
_READ = np.array([JOB_COLUMNS.index(name) for name in READ_COLUMNS])
_MOVED = np.array([JOB_COLUMNS.index(name) for name in MOVED_COLUMNS])
_OF_MOVED = [READ_COLUMNS.index(name) for name in MOVED_COLUMNS]
_BACKLOG = CLUSTER_COLUMNS.index("ln_backlog")
_USUAL_BACKLOG = 0.6  # two hours
_DUE = READ_COLUMNS.index("ln_trusted_due")
_LEAST_SPREAD = 0.02  # of a column that hardly differs within a queue

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class ScoreSelector:
    """A queue.selector.RankModel; see the module.

    Attributes:
        weights: float64 [READ_COLUMNS].
        backlog_weights: float64 [MOVED_COLUMNS].
    """

    weights: NDArray[np.float64]
    backlog_weights: NDArray[np.float64]

    name = "score"

    @classmethod
    def start(cls) -> "ScoreSelector":
        """Return the selector that ranks as the learned order does."""
        weights = np.zeros(len(READ_COLUMNS))
        weights[_DUE] = -1.0
        return cls(weights, np.zeros(len(MOVED_COLUMNS)))

    def ranks(self, jobs: Floats, cluster: Floats) -> Floats:
        """See queue.selector.RankModel."""
        weights = self._job_weights()
        found = jobs @ weights[:, 0] + (jobs @ weights[:, 1]) * cluster[_BACKLOG]
        return np.asarray(found, dtype=np.float32)

    def to_onnx(self) -> bytes:
        """Return it as an ONNX file of kind order; the same weights give the same bytes."""
        weights = self._job_weights()
        backlog = np.zeros((len(CLUSTER_COLUMNS), 1), dtype=np.float32)
        backlog[_BACKLOG] = 1.0
        layers = [
            ("MatMul", [JOBS_NAME, "weights"], "always"),
            ("MatMul", [JOBS_NAME, "backlog_weights"], "slope"),
            ("MatMul", [CLUSTER_NAME, "ln_backlog"], "backlog"),
            ("Mul", ["slope", "backlog"], "moved"),
            ("Add", ["always", "moved"], RANK_NAME),
        ]
        initializers = {
            "weights": np.ascontiguousarray(weights[:, :1]),
            "backlog_weights": np.ascontiguousarray(weights[:, 1:]),
            "ln_backlog": backlog,
        }
        graph = helper.make_graph(
            [helper.make_node(operator, inputs, [output]) for operator, inputs, output in layers],
            "roost_score_selector",
            [
                _value(JOBS_NAME, ["job", len(JOB_COLUMNS)]),
                _value(CLUSTER_NAME, [len(CLUSTER_COLUMNS)]),
            ],
            [_value(RANK_NAME, ["job", 1])],
            [numpy_helper.from_array(array, name) for name, array in sorted(initializers.items())],
        )
        return serialized(graph)

    def _job_weights(self) -> Floats:
        """Return float32 [JOB_COLUMNS, 2]: what counts always, and what counts by the backlog."""
        found = np.zeros((len(JOB_COLUMNS), 2))
        found[_READ, 0] = self.weights
        found[_MOVED, 0] -= _USUAL_BACKLOG * self.backlog_weights
        found[_MOVED, 1] = self.backlog_weights
        return found.astype(np.float32)


@dataclass(frozen=True, slots=True, eq=False)
class ScoreScale:
    """Turns a search's numbers into weights, so that a step of each is worth about the same.

    Attributes:
        spread: float64 [READ_COLUMNS], standard deviation of a column among the jobs of a queue.
    """

    spread: NDArray[np.float64]

    @classmethod
    def of(cls, queues: list[Floats]) -> "ScoreScale":
        """Measure it on queues of at least two jobs, each float32 [job, JOB_COLUMNS]."""
        variance = np.mean([queue[:, _READ].astype(np.float64).var(axis=0) for queue in queues], 0)
        return cls(np.maximum(np.sqrt(variance), _LEAST_SPREAD))

    @property
    def size(self) -> int:
        """How many numbers a search has."""
        return len(READ_COLUMNS) + len(MOVED_COLUMNS)

    def start(self) -> NDArray[np.float64]:
        """Return the numbers of ScoreSelector.start, scaled by a factor that no rank depends on."""
        found = np.zeros(self.size)
        found[_DUE] = -1.0
        return found

    def selector(self, numbers: NDArray[np.float64]) -> ScoreSelector:
        """Return the selector of these numbers, [size]."""
        weights, moved = np.split(numbers, [len(READ_COLUMNS)])
        return ScoreSelector(weights / self.spread, moved / self.spread[_OF_MOVED])


def _value(name: str, sizes: list[int | str]) -> object:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, sizes)
