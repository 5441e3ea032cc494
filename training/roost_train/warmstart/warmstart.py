"""Warm start: an order model that imitates the scheduler that a site has now.

DL2 (Peng et al., 2021) begins by imitating the incumbent. Here a small network gives each waiting
job a number, and learns from pairs that the job which was started gets the higher one: the logistic
loss of the difference, as in Bradley and Terry (1952). The result is a model of kind `order`.
Page: docs/policies.md.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from torch import nn

from roost_engine.plugins.plugins import Policies
from roost_engine.prediction.predictors import Predictors
from roost_engine.queue.model_order import CLUSTER_COLUMNS, JOB_COLUMNS, AnyOrderModel, order_by
from roost_formats.models.model_order import CLUSTER, JOBS, RANK, load_onnx_order
from roost_formats.models.signature import ORDER
from roost_sim.catalogue.composition import Composition
from roost_sim.information.policy_information import PolicyInformation
from roost_train.errors import TooFewChoices
from roost_train.export.model_files import library_versions, write_model_files
from roost_train.warmstart.decisions import Preferences

MODEL_FILE = "warmstart.onnx"
LEAST_PAIRS = 200
_HELD_OUT_FRAC = 0.1
_CANARY_COUNT = 16
_OPSET, _IR_VERSION = 17, 8

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmstartParameters:
    """The hyper-parameters.

    Attributes:
        seed: of everything random.
        width: of the two hidden layers.
        epochs: passes over the pairs.
        batch: pairs of a step.
        learning_rate: of Adam, at the beginning; it falls to 0 along a cosine.
        most_pairs: of more, a sample is taken.
    """

    seed: int = 0
    width: int = 32
    epochs: int = 20
    batch: int = 512
    learning_rate: float = 3e-3
    most_pairs: int = 200_000

    @property
    def run_name(self) -> str:
        """The training's name, with its seed."""
        return f"warmstart-seed{self.seed}"


class OrderNet(nn.Module):  # type: ignore[misc]
    """The rank of a job: a linear part and a net with two hidden layers.

    Columns are scaled by the mean and deviation of the pairs, inside the net.
    """

    def __init__(self, width: int, mean: Floats, scale: Floats) -> None:
        super().__init__()
        self.register_buffer("mean", torch.from_numpy(mean))
        self.register_buffer("scale", torch.from_numpy(scale))
        self.first = nn.Linear(len(JOB_COLUMNS), width)
        self.second = nn.Linear(width, width)
        self.last = nn.Linear(width, 1, bias=False)
        self.skip = nn.Linear(len(JOB_COLUMNS), 1, bias=False)

    def by_column(self, column: int, sign: float) -> "OrderNet":
        """Return a net of this size and scale that ranks by one column."""
        net = OrderNet(self.first.out_features, self.mean.numpy(), self.scale.numpy())
        with torch.no_grad():
            net.last.weight.zero_()
            net.skip.weight.zero_()
            net.skip.weight[0, column] = sign
        return net

    def forward(self, jobs: torch.Tensor) -> torch.Tensor:
        """Return float32 [job, 1]."""
        scaled = (jobs - self.mean) * self.scale
        hidden = torch.relu(self.second(torch.relu(self.first(scaled))))
        found: torch.Tensor = self.last(hidden) + self.skip(scaled)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmstartReport:
    """What a training came to.

    Attributes:
        pair_count: pairs learned from.
        agreement_frac: of the held-out pairs, the share that the model orders as the teacher did.
        column: by which alone the model ranks; None: by the network.
    """

    pair_count: int
    agreement_frac: float
    column: str | None = None


def imitate(
    pairs: Preferences,
    source: str,
    parameters: WarmstartParameters,
    progress: Callable[[int, float], None] = lambda done, loss: None,
) -> tuple[OrderNet, WarmstartReport]:
    """Train on pairs, the last tenth held out, and return what agrees with most of that tenth.

    That is the network or one that ranks by a single column, which is what many schedulers do:
    "turn_frac" is first in, first out, and "due_days" the learned order.

    Raises:
        TooFewChoices: there are fewer than LEAST_PAIRS pairs.
    """
    if len(pairs) < LEAST_PAIRS:
        raise TooFewChoices(source, len(pairs), LEAST_PAIRS)
    torch.set_num_threads(1)  # so small a net only loses by more
    torch.manual_seed(parameters.seed)
    random = np.random.default_rng(parameters.seed)
    cut = len(pairs) - int(len(pairs) * _HELD_OUT_FRAC)
    seen = np.concatenate([pairs.started[:cut], pairs.passed_over[:cut]])
    scale = 1.0 / np.maximum(seen.std(axis=0), 1e-3)
    net = OrderNet(parameters.width, seen.mean(axis=0), scale.astype(np.float32))
    started, passed = torch.from_numpy(pairs.started), torch.from_numpy(pairs.passed_over)
    optimizer = torch.optim.Adam(net.parameters(), lr=parameters.learning_rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, parameters.epochs)
    for epoch in range(parameters.epochs):
        total = 0.0
        for chosen in np.array_split(random.permutation(cut), max(cut // parameters.batch, 1)):
            numbers = torch.from_numpy(chosen)
            gap = net(started[numbers]) - net(passed[numbers])
            loss = nn.functional.softplus(-gap).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += float(loss.detach()) * len(chosen)
        schedule.step()
        progress(epoch + 1, total / cut)
    column, sign = _best_column(pairs.started[:cut] - pairs.passed_over[:cut])
    plain = net.by_column(column, sign)
    own_frac, plain_frac = (
        _agreement_frac(one, started[cut:], passed[cut:]) for one in (net, plain)
    )
    if plain_frac >= own_frac:
        return plain.eval(), WarmstartReport(
            pair_count=cut, agreement_frac=plain_frac, column=JOB_COLUMNS[column]
        )
    return net.eval(), WarmstartReport(pair_count=cut, agreement_frac=own_frac)


def _best_column(gaps: Floats) -> tuple[int, float]:
    """Return the column, and its sign, that is higher for the started job in most pairs."""
    agreeing = np.array([(gaps > 0.0).sum(axis=0), (gaps < 0.0).sum(axis=0)])
    is_lower, column = np.unravel_index(int(agreeing.argmax()), agreeing.shape)
    return int(column), -1.0 if is_lower else 1.0


def _agreement_frac(net: OrderNet, started: torch.Tensor, passed: torch.Tensor) -> float:
    with torch.no_grad():
        return float((net(started) > net(passed)).float().mean())


def export_order(net: OrderNet) -> bytes:
    """Return the net as an ONNX file: jobs [job, column] and cluster [column] to rank [job, 1].

    The cluster is the same for all jobs of a queue, so it counts 0.
    """
    node = helper.make_node
    nodes = [
        node("Sub", [JOBS, "mean"], ["centred"]),
        node("Mul", ["centred", "scale"], ["scaled"]),
        node("Gemm", ["scaled", "weight1", "bias1"], ["first"]),
        node("Relu", ["first"], ["first_active"]),
        node("Gemm", ["first_active", "weight2", "bias2"], ["second"]),
        node("Relu", ["second"], ["second_active"]),
        node("MatMul", ["second_active", "weight3"], ["net"]),
        node("MatMul", ["scaled", "skip"], ["linear"]),
        node("Add", ["net", "linear"], ["of_job"]),
        node("MatMul", [CLUSTER, "of_cluster"], ["shared"]),
        node("Add", ["of_job", "shared"], [RANK]),
    ]
    inputs = [
        helper.make_tensor_value_info(JOBS, TensorProto.FLOAT, ["job", len(JOB_COLUMNS)]),
        helper.make_tensor_value_info(CLUSTER, TensorProto.FLOAT, [len(CLUSTER_COLUMNS)]),
    ]
    graph = helper.make_graph(
        nodes,
        "roost_order",
        inputs,
        [helper.make_tensor_value_info(RANK, TensorProto.FLOAT, ["job", 1])],
        [numpy_helper.from_array(weight, name) for name, weight in _weights(net).items()],
    )
    opsets = [helper.make_opsetid("", _OPSET)]
    model = helper.make_model(
        graph, ir_version=_IR_VERSION, opset_imports=opsets, producer_name="roost-train"
    )
    onnx.checker.check_model(model, full_check=True)
    content: bytes = model.SerializeToString(deterministic=True)
    return content


def _weights(net: OrderNet) -> dict[str, Floats]:
    state = {name: value.detach().numpy() for name, value in net.state_dict().items()}
    return {
        "bias1": state["first.bias"],
        "bias2": state["second.bias"],
        "mean": state["mean"],
        "of_cluster": np.zeros((len(CLUSTER_COLUMNS), 1), np.float32),
        "scale": state["scale"],
        "skip": np.ascontiguousarray(state["skip.weight"].T),
        "weight1": np.ascontiguousarray(state["first.weight"].T),
        "weight2": np.ascontiguousarray(state["second.weight"].T),
        "weight3": np.ascontiguousarray(state["last.weight"].T),
    }


def write_order(
    net: OrderNet,
    pairs: Preferences,
    parameters: WarmstartParameters,
    report: WarmstartReport,
    folder: Path,
    card: dict[str, object],
) -> Path:
    """Write the model and its manifest, and load them once, as roostd does.

    Raises:
        PolicyError: the files fail a check of the loader.
    """
    content, path = export_order(net), folder / MODEL_FILE
    jobs = pairs.started[:_CANARY_COUNT]
    with torch.no_grad():
        ranks = net(torch.from_numpy(jobs)).numpy()[:, 0]
    asked = {JOBS: jobs, CLUSTER: np.zeros(len(CLUSTER_COLUMNS), np.float32)}
    about = {
        "name": parameters.run_name,
        "parameters": asdict(parameters),
        "report": asdict(report),
        "versions": library_versions(),
        **card,
    }
    columns = {JOBS: JOB_COLUMNS, CLUSTER: CLUSTER_COLUMNS}
    write_model_files(path, content, ORDER, columns, (asked, {RANK: ranks}), about)
    load_onnx_order(path, lambda: 0.0)
    return path


@dataclass(frozen=True, slots=True, kw_only=True)
class Imitation(Composition):
    """A policy of the simulator with a model in its order slot.

    Attributes:
        model: ranks the jobs.
    """

    model: AnyOrderModel

    def build(self, information: PolicyInformation) -> Policies:
        """See Composition."""
        policies = Composition.build(self, information)
        predictors = policies.predictors or Predictors()
        order = order_by(self.model, predictors)
        return replace(policies, order=order, predictors=predictors)
