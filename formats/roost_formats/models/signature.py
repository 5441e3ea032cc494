"""Signatures: the loader's requirements for each kind of model, and the registry of the kinds.

A new kind of model needs a Signature in KINDS, and an adapter from the engine's arguments to the
signature's inputs and from its outputs to the engine's result; score.py is the example.
Page: docs/models.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from roost_engine.cluster.features import COLUMNS, SCHEMA_VERSION
from roost_engine.domain.errors import PolicyError
from roost_engine.gate.offer_features import CONTEXT_COLUMNS, OFFER_COLUMNS
from roost_engine.gate.offer_features import SCHEMA_VERSION as GATE_SCHEMA_VERSION
from roost_engine.prediction.interference import interference_model as neighbours
from roost_engine.prediction.interference.interference_vector import VECTOR_COLUMNS
from roost_engine.prediction.run_time.run_time_features import COLUMNS as RUN_TIME_COLUMNS
from roost_engine.prediction.run_time.run_time_features import (
    SCHEMA_VERSION as RUN_TIMES_SCHEMA_VERSION,
)
from roost_engine.prediction.run_time.run_times import BAND_COUNT
from roost_engine.scoring.graph_columns import (
    GRAPH_SCHEMA_VERSION,
    INPUT_COLUMNS,
    INPUT_SIZES,
    OUTPUT_SIZES,
)

# Every operator has a shape rule in shapes.py and a reference reading in
# roost_train.export.numpy_policy.
PLAIN_OPERATORS = frozenset(
    {
        "Add",
        "Concat",
        "Div",
        "Gemm",
        "Identity",
        "MatMul",
        "Mul",
        "Relu",
        "Sigmoid",
        "Softmax",
        "Sub",
        "Tanh",
    }
)


FLOAT32: np.dtype[Any] = np.dtype(np.float32)
INT64: np.dtype[Any] = np.dtype(np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """One input or output of a model.

    Attributes:
        name: in the ONNX file, and in every call.
        sizes: of each dimension: a number, or a symbol. A symbol has one value in all tensors.
        columns: names of the last dimension's positions, where the signature prescribes them.
        dtype: the type of its numbers, FLOAT32 or INT64.
    """

    name: str
    sizes: tuple[int | str, ...]
    columns: tuple[str, ...] | None = None
    dtype: np.dtype[Any] = FLOAT32

    def describe(self, sizes: Mapping[str, int]) -> str:
        """Return the tensor as text, such as "float32[candidate, 18]".

        Args:
            sizes: replaces these symbols by their values.
        """
        return f"{self.dtype}[{', '.join(map(str, self.known_sizes(sizes)))}]"

    def known_sizes(self, sizes: Mapping[str, int]) -> tuple[int | str, ...]:
        """Return the tensor's sizes with these symbols replaced by their values."""
        return tuple(
            sizes.get(size, size) if isinstance(size, str) else size for size in self.sizes
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How large a model may be.

    Attributes:
        model_bytes: of the file.
        node_count: operations in the graph.
        rank: dimensions of any weight or intermediate value.
        dimension: the largest size of a weight, or of an input or output beside the batch.
        weight_elements: numbers in all weights, and in all values computed from weights alone.
        intermediate_elements: numbers in all other computed values, for a batch of one item. The
            limit is on their sum, because a graph can keep all of them in memory until its end.
    """

    model_bytes: int = 10_000_000
    node_count: int = 256
    rank: int = 2
    dimension: int = 1024
    weight_elements: int = 2_500_000
    intermediate_elements: int = 4_096


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """How long an answer may take, and what follows when it takes longer.

    Attributes:
        answer_s: an answer that takes longer is slow.
        slow_limit: this many slow answers in a row take the model out of service.
        out_of_service_s: for which the model is not asked; after that it gets one more try.
    """

    answer_s: float
    slow_limit: int = 3  # a single slow answer may be due to the kernel's scheduling
    out_of_service_s: float = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """The inputs, outputs and limits of a kind of model.

    Attributes:
        kind: its name in manifests and in the registry.
        title: its name in messages, with the article.
        schema_version: of the meaning of inputs and outputs. A model states the version that it
            was trained for; a model of another version is refused.
        batch: the symbols whose values differ from call to call. The model file fixes the value
            of every other symbol.
        inputs: in the order in which their sizes are checked.
        outputs: an output of one dimension may come from the model as a column, [n, 1].
        canary_tolerance: the largest difference between an answer and the manifest's canary.
        budget: of one answer.
        limits: on the model file and on what it computes.
        allowed_operators: of the ONNX default operator set.
    """

    kind: str
    title: str
    schema_version: int
    batch: tuple[str, ...]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    canary_tolerance: float
    budget: Budget
    limits: Limits = Limits()
    allowed_operators: frozenset[str] = PLAIN_OPERATORS

    def __post_init__(self) -> None:
        """Check that the signature is consistent.

        Raises:
            ValueError: two tensors have one name, a tensor has a type that no reader here knows or
                more dimensions than the limit, the number of its columns is not its last size, or
                no input has a symbol of the batch.
        """
        names = [tensor.name for tensor in self.tensors]
        if len(set(names)) != len(names):
            raise ValueError(f"{self.kind}: two tensors have the same name in {names}")
        for tensor in self.tensors:
            if tensor.dtype not in (FLOAT32, INT64):
                raise ValueError(f"{self.kind}: {tensor.name} is of type {tensor.dtype}")
            if len(tensor.sizes) > self.limits.rank:
                raise ValueError(f"{self.kind}: {tensor.name} has too many dimensions")
            if tensor.columns is not None and tensor.sizes[-1:] != (len(tensor.columns),):
                raise ValueError(f"{self.kind}: {tensor.name} has other columns than sizes")
        read = {size for tensor in self.inputs for size in tensor.sizes}
        if not self.batch or not read.issuperset(self.batch):
            raise ValueError(f"{self.kind}: no input has the sizes {self.batch}")

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All inputs, then all outputs."""
        return self.inputs + self.outputs

    def has_columns(self, tensor: Tensor) -> bool:
        """Return whether a manifest must name the columns of one of the tensors.

        It must where the signature prescribes the names and where the model chooses the number.
        """
        last = tensor.sizes[-1] if tensor.sizes else 0
        return tensor.columns is not None or (isinstance(last, str) and last not in self.batch)

    def with_sizes(self, sizes: Mapping[str, int]) -> "Signature":
        """Return the signature with the symbols that a model file has fixed replaced by numbers."""

        def fixed(tensor: Tensor) -> Tensor:
            return replace(tensor, sizes=tensor.known_sizes(sizes))

        return replace(
            self,
            inputs=tuple(fixed(tensor) for tensor in self.inputs),
            outputs=tuple(fixed(tensor) for tensor in self.outputs),
        )


SCORE = Signature(
    kind="score",
    title="a score policy",
    schema_version=SCHEMA_VERSION,
    batch=("candidate",),
    inputs=(Tensor(name="features", sizes=("candidate", len(COLUMNS)), columns=COLUMNS),),
    outputs=(Tensor(name="score", sizes=("candidate",)),),
    canary_tolerance=1e-5,
    # A thousand candidates take 0.2 ms on one core; ten times a decision's whole budget is a fault.
    budget=Budget(answer_s=0.010),
    # 16,384 float32 are 64 KiB a candidate: eight layers of 1,024, or 64 MiB at a thousand.
    limits=Limits(intermediate_elements=16_384),
)

# The whole queue is one batch, so an item may cost less and an answer more than in a score.
ORDER = Signature(
    kind="order",
    title="an order policy",
    schema_version=1,
    batch=("job",),
    inputs=(
        Tensor(name="jobs", sizes=("job", "feature")),
        Tensor(name="cluster", sizes=("cluster_feature",)),
    ),
    outputs=(Tensor(name="rank", sizes=("job",)),),  # the highest rank is served first
    canary_tolerance=1e-4,
    budget=Budget(answer_s=0.050),
)

# One job at a time is asked about, while a decision waits.
RUN_TIMES = Signature(
    kind="runtimes",
    title="a model of run times",
    schema_version=RUN_TIMES_SCHEMA_VERSION,
    batch=("job",),
    inputs=(
        Tensor(name="features", sizes=("job", len(RUN_TIME_COLUMNS)), columns=RUN_TIME_COLUMNS),
    ),
    outputs=(Tensor(name="ending_fracs", sizes=("job", BAND_COUNT)),),
    canary_tolerance=1e-5,
    budget=Budget(answer_s=0.010),
)

# One call answers any levels of the tree; levels that are not asked about have no items. Its scores
# are candidates' scores, so roostd takes such a file wherever it takes one of kind score.
GRAPH = Signature(
    kind="graph",
    title="a graph score policy",
    schema_version=GRAPH_SCHEMA_VERSION,
    batch=("gpu", "node", "rack", "pod", "candidate"),
    inputs=tuple(
        Tensor(name=name, sizes=sizes, columns=INPUT_COLUMNS.get(name))
        for name, sizes in INPUT_SIZES.items()
    ),
    outputs=tuple(Tensor(name=name, sizes=sizes) for name, sizes in OUTPUT_SIZES.items()),
    canary_tolerance=1e-5,
    # Ten thousand GPUs from scratch take 2 ms on one core.
    budget=Budget(answer_s=0.010),
    limits=Limits(intermediate_elements=16_384),
)

# All candidates of a decision, with and without the newcomer, are one batch.
INTERFERENCE = Signature(
    kind="interference",
    title="a model of interference",
    schema_version=neighbours.INTERFERENCE_SCHEMA_VERSION,
    batch=("case",),
    inputs=tuple(
        Tensor(name=name, sizes=("case", len(columns)), columns=columns)
        for name, columns in (
            (neighbours.OWN, VECTOR_COLUMNS),
            (neighbours.BESIDE, neighbours.BESIDE_COLUMNS),
            (neighbours.TIER, neighbours.TIER_COLUMNS),
        )
    ),
    outputs=(Tensor(name=neighbours.SLOWDOWN, sizes=("case", 2)),),
    canary_tolerance=1e-5,
    budget=Budget(answer_s=0.010),
)

# One offer at a time is asked about, while a decision waits.
GATE = Signature(
    kind="gate",
    title="a gate policy",
    schema_version=GATE_SCHEMA_VERSION,
    batch=("offer",),
    inputs=(
        Tensor(name="offers", sizes=("offer", len(OFFER_COLUMNS)), columns=OFFER_COLUMNS),
        Tensor(name="context", sizes=("offer", len(CONTEXT_COLUMNS)), columns=CONTEXT_COLUMNS),
    ),
    outputs=(Tensor(name="rank", sizes=("offer",)),),  # above 0: the job takes the offer
    canary_tolerance=1e-5,
    budget=Budget(answer_s=0.010),
)

KINDS: Mapping[str, Signature] = {
    signature.kind: signature for signature in (SCORE, ORDER, RUN_TIMES, GRAPH, INTERFERENCE, GATE)
}


def signature_of(kind: str) -> Signature:
    """Return the signature of a kind.

    Raises:
        PolicyError: no kind has this name.
    """
    if kind not in KINDS:
        raise PolicyError(f"no kind of model is named {kind!r}; known are {', '.join(KINDS)}")
    return KINDS[kind]
