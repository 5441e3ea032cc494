"""A net that corrects the history's distribution of a job's run time.

    shares = softmax(a · ln(history's shares) + residual(features))

It starts as the history itself: a = 1, and the residual's last layer is 0.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from roost_engine.prediction.run_time.history import SPREAD
from roost_engine.prediction.run_time.run_time_features import COLUMNS
from roost_engine.prediction.run_time.run_times import BAND_COUNT, STARTS_S
from roost_formats.models.run_times import INPUT_NAME, OUTPUT_NAME
from roost_train.export.onnx_export import serialized


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTimeHyperParameters:
    """Everything that shapes a training."""

    seed: int = 0
    hidden: int = 32
    most_epochs: int = 30
    batch_jobs: int = 256
    rate: float = 1e-3
    weight_decay: float = 1e-2
    dropout: float = 0.2

    @property
    def run_name(self) -> str:
        """Return the name of a run; the seed is part of it."""
        return f"runtimes-h{self.hidden}-n{self.most_epochs}-seed{self.seed}"


class RunTimeNet(torch.nn.Module):  # type: ignore[misc]
    """See the module.

    Args:
        mean, spread: of the features, float32 [column].
        parameters: the sizes.
    """

    def __init__(
        self,
        mean: NDArray[np.float32],
        spread: NDArray[np.float32],
        parameters: RunTimeHyperParameters,
    ) -> None:
        super().__init__()
        hidden = parameters.hidden
        self.mean, self.spread = torch.from_numpy(mean), torch.from_numpy(spread)
        self.trust = torch.nn.Parameter(torch.tensor(1.0))
        self.first = torch.nn.Linear(len(COLUMNS), hidden)
        self.second = torch.nn.Linear(hidden, hidden)
        self.third = torch.nn.Linear(hidden, BAND_COUNT)
        self.drop = torch.nn.Dropout(parameters.dropout)
        torch.nn.init.zeros_(self.third.weight)
        torch.nn.init.zeros_(self.third.bias)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Return logits, [job, band].

        Args:
            features: [job, column].
        """
        inside = (features - self.mean) / self.spread
        inside = self.drop(torch.relu(self.first(inside)))
        inside = self.drop(torch.relu(self.second(inside)))
        return self.trust * features[:, :BAND_COUNT] + self.third(inside)

    def ending_fracs(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the share that ends in each band, float32 [job, band]."""
        self.eval()
        with torch.inference_mode():
            shares = torch.softmax(self.forward(torch.from_numpy(features)), dim=1)
        found: NDArray[np.float32] = shares.numpy()
        return found

    def to_weights(self) -> dict[str, NDArray[np.float32]]:
        """Return the weights of the exported file; the scaling of the features is in the first."""

        def plain(tensor: torch.Tensor) -> NDArray[np.float64]:
            array: NDArray[np.float64] = tensor.detach().numpy().astype(np.float64)
            return array

        first = plain(self.first.weight).T / plain(self.spread)[:, None]
        skip = np.zeros((len(COLUMNS), BAND_COUNT))
        skip[:BAND_COUNT] = np.eye(BAND_COUNT) * float(self.trust.detach())
        found = {
            "skip": skip,
            "weight1": first,
            "bias1": plain(self.first.bias) - plain(self.mean) @ first,
            "weight2": plain(self.second.weight).T,
            "bias2": plain(self.second.bias),
            "weight3": plain(self.third.weight).T,
            "bias3": plain(self.third.bias),
        }
        return {name: np.ascontiguousarray(array, np.float32) for name, array in found.items()}


def train_run_times(
    features: NDArray[np.float32],
    run_s: NDArray[np.float64],
    parameters: RunTimeHyperParameters,
    epochs: int,
    after_epoch: Callable[["RunTimeNet"], None] = lambda net: None,
) -> RunTimeNet:
    """Train a net; the same parameters give the same weights on one machine and one torch.

    Args:
        features: [job, column].
        run_s: [job].
        parameters: everything else.
        epochs: passes over the jobs.
        after_epoch: called with the net after each pass.
    """
    torch.manual_seed(parameters.seed)
    torch.set_num_threads(1)  # so small a net is slower on several, and sums in another order
    mean, spread = features.mean(axis=0), features.std(axis=0)
    net = RunTimeNet(mean, np.where(spread > 1e-4, spread, np.float32(1.0)), parameters)
    inputs, targets = torch.from_numpy(features), torch.from_numpy(target_fracs(run_s))
    steps = torch.optim.AdamW(
        net.parameters(), lr=parameters.rate, weight_decay=parameters.weight_decay
    )
    for _ in range(epochs):
        net.train()
        for batch in torch.randperm(len(features)).split(parameters.batch_jobs):
            logs = torch.log_softmax(net(inputs[batch]), dim=1)
            loss = -(targets[batch] * logs).sum(dim=1).mean()
            steps.zero_grad()
            loss.backward()
            steps.step()
        after_epoch(net)
    return net


def target_fracs(run_s: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return each run time as shares of bands, float32 [job, band], spread as the history does."""
    bands = np.maximum(np.searchsorted(np.array(STARTS_S), run_s, side="right") - 1, 0)
    targets = np.zeros((len(run_s), BAND_COUNT), dtype=np.float32)
    rows = np.arange(len(run_s))
    for step, share in enumerate(SPREAD):
        for beside in {-step, step}:
            targets[rows, np.clip(bands + beside, 0, BAND_COUNT - 1)] += share
    return targets


def export_run_times(net: RunTimeNet) -> bytes:
    """Return the net as an ONNX file: features[job, column] to ending_fracs[job, band]."""
    node = helper.make_node
    nodes = [
        node("MatMul", [INPUT_NAME, "skip"], ["history"]),
        node("Gemm", [INPUT_NAME, "weight1", "bias1"], ["first"]),
        node("Relu", ["first"], ["first_active"]),
        node("Gemm", ["first_active", "weight2", "bias2"], ["second"]),
        node("Relu", ["second"], ["second_active"]),
        node("Gemm", ["second_active", "weight3", "bias3"], ["residual"]),
        node("Add", ["history", "residual"], ["logits"]),
        node("Softmax", ["logits"], [OUTPUT_NAME], axis=1),
    ]

    def table(name: str, columns: int) -> object:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["job", columns])

    weights = sorted(net.to_weights().items())
    graph = helper.make_graph(
        nodes,
        "roost_runtimes",
        [table(INPUT_NAME, len(COLUMNS))],
        [table(OUTPUT_NAME, BAND_COUNT)],
        [numpy_helper.from_array(weight, name) for name, weight in weights],
    )
    return serialized(graph)
