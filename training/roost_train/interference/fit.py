"""The interference model: a sum of products that no neighbour can make smaller.

    mean = Σ_pq C[p, q] · φ_p(own) · ψ_q(sums on the GPU) + k · duty(own) · pressure(sums elsewhere)

φ is a soft partition of the space of own vectors, ψ are bounded functions that are 0 without a
neighbour and rise with its load. C is fitted by least squares under C >= 0, so more load never
predicts less slowdown. Columns that a vector does not know count for no distance and no load, so a
job of which nothing is known gets the mean of all φ: the prior, with a wide spread.

The second term is not fitted: one public measurement gives its one constant, see _STRETCH.
"""

from dataclasses import dataclass

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from roost_engine.prediction.interference.interference_model import (
    BESIDE,
    BESIDE_COLUMNS,
    LEVELS,
    OWN,
    SLOWDOWN,
    TIER,
    TIER_COLUMNS,
    Cases,
    Slowdowns,
)
from roost_engine.prediction.interference.interference_vector import COLUMN, MASK, PRESENT, WIDTH
from roost_train.export.onnx_export import serialized
from roost_train.interference.pairs import Pairs
from roost_train.interference.spread import Spread

Array = NDArray[np.float64]

# ResNet-50 spread over two P100 servers: 98.0 images/s alone, 75.6 beside others like it, GPUs
# busy 49.6 % of the time alone (Jeon et al., ATC 2019; quoted second-hand); the other 50.4 % are
# taken as communication. Proportional to both duties is an assumption. Which of switch, socket or
# card cost it is not known, so all three have the constant. No uplink's cost was ever measured.
_STRETCH = float(np.log(98.0 / 75.6)) / 0.504**2
_HOST_LEVELS = ("switch", "socket", "nic")
_HOST_SPREAD = 0.6  # of the second term's mean: it rests on one measurement
_DUTY = ("nic", "pcie")
_SM, _STEP = COLUMN["sm_mean"], COLUMN["step_time_mean"]
_READ = (_SM, _STEP)
_PRIOR_LOAD = {_SM: 0.75, _STEP: 0.6}  # of a neighbour that does not say; the means of the pairs
_FLOOR = 0.02
_MOST_SWEEPS = 60  # over all coordinates
_UNKNOWN_SPREAD = 0.25
_SOME_SPREAD = Spread(0.2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What is chosen before the fit.

    Attributes:
        width: of the parts of φ, in units of the columns; wide parts generalise, narrow ones fit.
        ridge: pulls C to 0.
        sm_parts, step_parts: centres of φ along SM activity and step time.
    """

    width: float = 0.8
    ridge: float = 0.3
    sm_parts: int = 3
    step_parts: int = 4


def _centres(shape: Shape) -> Array:
    return np.array(
        [
            (sm, step)
            for sm in np.linspace(0.1, 1.0, shape.sm_parts)
            for step in np.linspace(0.1, 0.95, shape.step_parts)
        ]
    )


def _partition(shape: Shape) -> Array:
    """Return the weights of φ's logits: [WIDTH, part].

    -|x - c|² = -|x|² + 2 c·x - |c|²; the first term is the same for every part, and softmax drops
    it. The last is a weight of the mask, so an unknown column counts for no part.
    """
    centres, found = _centres(shape), np.zeros((WIDTH, len(_centres(shape))))
    for at, position in enumerate(_READ):
        found[position] = 2.0 * centres[:, at] / shape.width**2
        found[MASK.start + position] = -(centres[:, at] ** 2) / shape.width**2
    return found


def _loads() -> tuple[Array, Array]:
    """Return slopes [BESIDE, q] and offsets [q] of ψ = tanh(slope · x + offset) - tanh(offset)."""
    rows: list[tuple[dict[int, float], float]] = [({PRESENT: 3.0}, 0.0)]
    rows += [({_STEP: 6.0}, -6.0 * c) for c in (0.15, 0.3, 0.45, 0.6, 0.75, 0.9)]
    rows += [({_SM: 5.0}, -5.0 * c) for c in (0.3, 0.6, 0.9)]
    rows += [({_SM: 4.0, _STEP: 4.0}, -4.0 * c) for c in (0.8, 1.2, 1.6)]
    slopes = np.zeros((len(BESIDE_COLUMNS), len(rows)))
    begin = LEVELS.index("gpu") * WIDTH
    for q, (terms, _) in enumerate(rows):
        for position, slope in terms.items():
            slopes[begin + position, q] += slope
            if position == PRESENT:
                continue
            fill = slope * _PRIOR_LOAD[position]
            slopes[begin + MASK.start + position, q] -= fill
            slopes[begin + PRESENT, q] += fill
    return slopes, np.array([offset for _, offset in rows])


def _host() -> tuple[Array, Array, Array]:
    """Return the weights of duty [WIDTH], pressure and unmeasured neighbours [BESIDE]."""
    duty, pressure = np.zeros(WIDTH), np.zeros(len(BESIDE_COLUMNS))
    other = np.zeros(len(BESIDE_COLUMNS))
    for quantity in _DUTY:
        duty[COLUMN[f"{quantity}_mean"]] = 1.0
    for level in LEVELS[1:]:
        begin = LEVELS.index(level) * WIDTH
        other[begin + PRESENT] = 0.05
        if level in _HOST_LEVELS:
            for quantity in _DUTY:
                pressure[begin + COLUMN[f"{quantity}_mean"]] = _STRETCH
    return duty, pressure, other


@dataclass(frozen=True, slots=True, eq=False)
class InterferenceFit:
    """A fitted model.

    Attributes:
        shape: see Shape.
        costs: [part, q], C.
        spread: of what the model misses for an unseen job beside one other.
    """

    shape: Shape
    costs: Array
    spread: Spread

    def weights(self) -> dict[str, NDArray[np.float32]]:
        """Return the weights of the exported file by name."""
        slopes, offsets = _loads()
        duty, pressure, other = _host()
        # Spread.of without its base, and _UNKNOWN_SPREAD for the columns that are not known: sums
        # of the vector's values and masks that give the same.
        spread, unknown = self.spread, np.zeros(WIDTH)
        unknown[PRESENT] = _UNKNOWN_SPREAD + spread.by_step * spread.shortness
        for position in _READ:
            unknown[MASK.start + position] = -_UNKNOWN_SPREAD / len(_READ)
        unknown[MASK.start + _STEP] += spread.by_step * (1.0 - spread.shortness)
        unknown[_STEP] = -spread.by_step
        any_gpu = np.zeros(len(BESIDE_COLUMNS))
        any_gpu[PRESENT] = 3.0
        found = {
            "partition": _partition(self.shape),
            "slopes": slopes,
            "offsets": offsets,
            "at_rest": np.tanh(offsets),
            "costs": self.costs,
            "add_up": np.ones((len(offsets), 1)),
            "duty": duty[:, None],
            "pressure": pressure[:, None],
            # tier_spread adds _FLOOR on one node.
            "part_spread": np.full((len(self.costs), 1), max(spread.base - _FLOOR, 0.0)),
            "unknown": unknown[:, None],
            "any_gpu": any_gpu[:, None],
            "other": other[:, None],
            "host_spread": np.array([_HOST_SPREAD]),
            # No pair was measured off one node.
            "tier_spread": np.array([[_FLOOR], [2 * _FLOOR], [3 * _FLOOR]]),
        }
        return {name: np.ascontiguousarray(each, np.float32) for name, each in found.items()}

    def slowdowns(self, cases: Cases) -> Slowdowns:
        """Predict as the exported file does, in float64."""
        w = {name: each.astype(np.float64) for name, each in self.weights().items()}
        parts = _softmax(cases.own.astype(np.float64) @ w["partition"])
        loads = np.tanh(cases.beside @ w["slopes"] + w["offsets"]) - w["at_rest"]
        host = np.maximum(cases.own @ w["duty"], 0) * np.maximum(cases.beside @ w["pressure"], 0)
        mean = ((parts @ w["costs"]) * loads) @ w["add_up"] + host
        spread = (parts @ w["part_spread"] + np.maximum(cases.own @ w["unknown"], 0)) * np.tanh(
            cases.beside @ w["any_gpu"]
        )
        spread = spread + w["host_spread"] * host + cases.tier @ w["tier_spread"]
        spread = spread + np.tanh(cases.beside @ w["other"])
        return Slowdowns(mean[:, 0].astype(np.float32), spread[:, 0].astype(np.float32))


def fit(pairs: Pairs, shape: Shape, spread: Spread = _SOME_SPREAD) -> InterferenceFit:
    """Fit the costs to measured pairs.

    Args:
        pairs: to learn from.
        shape: chosen before.
        spread: of what the model misses.
    """
    cases, (slopes, offsets) = pairs.cases(), _loads()
    parts = _softmax(cases.own.astype(np.float64) @ _partition(shape))
    loads = np.tanh(cases.beside @ slopes + offsets) - np.tanh(offsets)
    products = (parts[:, :, None] * loads[:, None, :]).reshape(len(pairs), -1)
    costs = nonnegative_least_squares(products, pairs.slowdown, shape.ridge)
    return InterferenceFit(shape, costs.reshape(parts.shape[1], -1), spread)


def nonnegative_least_squares(columns: Array, wanted: Array, ridge: float) -> Array:
    """Return x >= 0 that minimises |columns · x - wanted|² + ridge² · |x|².

    By coordinate descent on the normal equations, which ends at the minimum of a convex problem.

    Args:
        columns: [row, column].
        wanted: [row].
        ridge: above 0.
    """
    gram = columns.T @ columns + ridge**2 * np.eye(columns.shape[1])
    found, gradient = np.zeros(columns.shape[1]), -(columns.T @ wanted)
    for _ in range(_MOST_SWEEPS):
        largest = 0.0
        for at in range(len(found)):
            moved = max(found[at] - gradient[at] / gram[at, at], 0.0) - found[at]
            if moved:
                found[at] += moved
                gradient += moved * gram[at]
                largest = max(largest, abs(moved))
        if largest < 1e-4:
            break
    return found


def export_interference(model: InterferenceFit) -> bytes:
    """Return the model as an ONNX file of kind interference; the same weights, the same bytes."""
    node = helper.make_node
    nodes = [
        node("MatMul", [OWN, "partition"], ["logits"]),
        node("Softmax", ["logits"], ["parts"], axis=1),
        node("Gemm", [BESIDE, "slopes", "offsets"], ["load_sums"]),
        node("Tanh", ["load_sums"], ["load_tanh"]),
        node("Sub", ["load_tanh", "at_rest"], ["loads"]),
        node("MatMul", ["parts", "costs"], ["own_costs"]),
        node("Mul", ["own_costs", "loads"], ["terms"]),
        node("MatMul", ["terms", "add_up"], ["on_gpu"]),
        node("MatMul", [OWN, "duty"], ["duty_sum"]),
        node("Relu", ["duty_sum"], ["own_duty"]),
        node("MatMul", [BESIDE, "pressure"], ["pressure_sum"]),
        node("Relu", ["pressure_sum"], ["host_pressure"]),
        node("Mul", ["own_duty", "host_pressure"], ["on_host"]),
        node("Add", ["on_gpu", "on_host"], ["mean"]),
        node("MatMul", ["parts", "part_spread"], ["known_spread"]),
        node("MatMul", [OWN, "unknown"], ["unknown_sum"]),
        node("Relu", ["unknown_sum"], ["unknown_spread"]),
        node("Add", ["known_spread", "unknown_spread"], ["job_spread"]),
        node("MatMul", [BESIDE, "any_gpu"], ["gpu_sum"]),
        node("Tanh", ["gpu_sum"], ["has_gpu"]),
        node("Mul", ["job_spread", "has_gpu"], ["gpu_spread"]),
        node("Mul", ["on_host", "host_spread"], ["constant_spread"]),
        node("MatMul", [TIER, "tier_spread"], ["floor_spread"]),
        node("MatMul", [BESIDE, "other"], ["other_sum"]),
        node("Tanh", ["other_sum"], ["other_spread"]),
        node("Add", ["gpu_spread", "constant_spread"], ["spread_1"]),
        node("Add", ["spread_1", "floor_spread"], ["spread_2"]),
        node("Add", ["spread_2", "other_spread"], ["spread"]),
        node("Concat", ["mean", "spread"], [SLOWDOWN], axis=1),
    ]

    def table(name: str, columns: int) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["case", columns])

    graph = helper.make_graph(
        nodes,
        "roost_interference",
        [
            table(OWN, WIDTH),
            table(BESIDE, len(BESIDE_COLUMNS)),
            table(TIER, len(TIER_COLUMNS)),
        ],
        [table(SLOWDOWN, 2)],
        [numpy_helper.from_array(each, name) for name, each in sorted(model.weights().items())],
    )
    return serialized(graph)


def _softmax(logits: Array) -> Array:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    found: Array = powers / powers.sum(axis=1, keepdims=True)
    return found
