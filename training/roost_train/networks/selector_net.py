r"""The job selector: a convolutional network in branches, with a head that points at a waiting job.

    cluster image -> two convolutions -+
    cluster numbers ------------------ context -+
    job image -> two convolutions -------------- head -> one logit a job
    job numbers --------------------------------/ \-- plus a linear skip of the job numbers

Every job goes through the same weights, so neither the length of the queue nor the order of the
jobs matters. The logit of "none" comes from the context alone and is subtracted from the others:
the answer is positive for a job that is better than no job. The skip starts as the learned order
(roost_engine.queue.learned_order), so an untrained selector is that heuristic.

The images have a fixed size, so each convolution is a matrix. `export_selector` writes it as one:
a model file needs no operator that the daemon's reader does not know.

Source: Ayadi et al., TopDRL, JPDC 2025; sizes are not published. Page: docs/learned.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import numpy as np
import torch
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from torch.nn import functional

from roost_engine.queue.selector_columns import (
    CLUSTER_COLUMNS,
    CLUSTER_NUMBERS,
    IMAGE_GPU_COUNT,
    IMAGE_GPUS,
    IMAGE_NODE_COUNT,
    IMAGE_TIMES_S,
    JOB_COLUMNS,
    JOB_NUMBERS,
)
from roost_formats.models.signature import ORDER
from roost_train.export.onnx_export import serialized

JOBS_NAME, CLUSTER_NAME = (tensor.name for tensor in ORDER.inputs)
RANK_NAME = ORDER.outputs[0].name

_JOB_IMAGE = (1, len(IMAGE_TIMES_S), len(IMAGE_GPUS))
_CLUSTER_IMAGE = (2, IMAGE_NODE_COUNT, IMAGE_GPU_COUNT)
_DUE = JOB_NUMBERS.index("ln_trusted_due")
_SKIP_START = 8.0  # logits a unit: a service of an hour more is worth about 0.7
_QUIET_GAIN = 0.02  # of the last layer at the start, beside the skip

Weights = dict[str, NDArray[np.float32]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectorSizes:
    """How wide the network is.

    Attributes:
        job_channels, cluster_channels: of both convolutions of each branch.
        hidden: of the context and of the head's layers.
    """

    job_channels: tuple[int, int] = (4, 8)
    cluster_channels: tuple[int, int] = (4, 8)
    hidden: int = 48


class SelectorNet(torch.nn.Module):  # type: ignore[misc]
    """See the module; weights are drawn from torch's global generator."""

    def __init__(self, sizes: SelectorSizes | None = None) -> None:
        super().__init__()
        self.sizes = sizes or SelectorSizes()
        (job1, job2), (cluster1, cluster2) = self.sizes.job_channels, self.sizes.cluster_channels
        hidden = self.sizes.hidden
        conv = torch.nn.Conv2d
        self.job_conv1 = conv(1, job1, 3, stride=2, padding=1)
        self.job_conv2 = conv(job1, job2, 3, padding=1)
        self.cluster_conv1 = conv(2, cluster1, 4, stride=(4, 2), padding=(0, 1))
        self.cluster_conv2 = conv(cluster1, cluster2, 3, stride=2, padding=1)
        job_size, cluster_size = self._flat_sizes()
        self.context = torch.nn.Linear(cluster_size + len(CLUSTER_NUMBERS), hidden)
        self.head1 = torch.nn.Linear(job_size + len(JOB_NUMBERS) + hidden, hidden)
        self.head2 = torch.nn.Linear(hidden, hidden)
        self.head3 = torch.nn.Linear(hidden, 1)
        self.none = torch.nn.Linear(hidden, 1)
        skip = torch.zeros(len(JOB_NUMBERS))
        skip[_DUE] = -_SKIP_START
        self.skip = torch.nn.Parameter(skip)
        for layer in (self.head3, self.none):
            with torch.no_grad():
                layer.weight *= _QUIET_GAIN
                layer.bias *= 0.0

    @classmethod
    def residual(cls) -> "SelectorNet":
        """Return a selector that ranks exactly as its skip: its network begins at zero.

        Only the last layers are zero, so the first step of a training moves them, and through them
        all others.
        """
        net = cls()
        with torch.no_grad():
            for layer in (net.head3, net.none):
                layer.weight.zero_()
                layer.bias.zero_()
        return net

    def forward(self, jobs: torch.Tensor, cluster: torch.Tensor) -> torch.Tensor:
        """Return the ranks: logits less that of "none", [decision, job].

        Args:
            jobs: [decision, job, JOB_COLUMNS].
            cluster: [decision, CLUSTER_COLUMNS].
        """
        context = self.context_of(cluster)
        hidden = self.hidden_of(jobs, context)
        own = self.head3(hidden)[..., 0] + jobs[..., -len(JOB_NUMBERS) :] @ self.skip
        return own - self.none(context)

    def critic(self) -> "SelectorCritic":
        """Return a critic of the same width, with weights of its own."""
        return SelectorCritic(self.sizes)

    def context_of(self, cluster: torch.Tensor) -> torch.Tensor:
        """Return what is known of the cluster, [decision, hidden]."""
        numbers = cluster[:, -len(CLUSTER_NUMBERS) :]
        image = cluster[:, : -len(CLUSTER_NUMBERS)].reshape(-1, *_CLUSTER_IMAGE)
        image = torch.relu(self.cluster_conv2(torch.relu(self.cluster_conv1(image))))
        return torch.relu(self.context(torch.cat((image.flatten(1), numbers), dim=1)))

    def hidden_of(self, jobs: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        """Return the head's last hidden layer, [decision, job, hidden]."""
        count, most, _ = jobs.shape
        numbers = jobs[..., -len(JOB_NUMBERS) :]
        image = jobs[..., : -len(JOB_NUMBERS)].reshape(count * most, *_JOB_IMAGE)
        image = torch.relu(self.job_conv2(torch.relu(self.job_conv1(image))))
        image = image.flatten(1).reshape(count, most, -1)
        # The context is the same for every job: its part of the first layer is computed once.
        of_image, of_numbers, of_context = self.head1.weight.split(
            (image.shape[-1], len(JOB_NUMBERS), context.shape[-1]), dim=1
        )
        shared = functional.linear(context, of_context, self.head1.bias)
        first = image @ of_image.T + numbers @ of_numbers.T + shared[:, None]
        return torch.relu(self.head2(torch.relu(first)))

    def _flat_sizes(self) -> tuple[int, int]:
        """Return how many numbers leave the convolutions of both branches."""
        shapes = self.image_shapes()
        return prod(shapes["job_conv2"][1]), prod(shapes["cluster_conv2"][1])

    @property
    def number_counts(self) -> tuple[int, int]:
        """How many numbers stand behind the image of a job, and behind that of the cluster."""
        return len(JOB_NUMBERS), len(CLUSTER_NUMBERS)

    def image_shapes(self) -> Mapping[str, tuple[tuple[int, ...], tuple[int, ...]]]:
        """Return the shape of what goes into each convolution, and of what comes out."""
        job1 = tuple(self.job_conv1(torch.zeros(1, *_JOB_IMAGE)).shape[1:])
        job2 = tuple(self.job_conv2(torch.zeros(1, *job1)).shape[1:])
        cluster1 = tuple(self.cluster_conv1(torch.zeros(1, *_CLUSTER_IMAGE)).shape[1:])
        cluster2 = tuple(self.cluster_conv2(torch.zeros(1, *cluster1)).shape[1:])
        return {
            "job_conv1": (_JOB_IMAGE, job1),
            "job_conv2": (job1, job2),
            "cluster_conv1": (_CLUSTER_IMAGE, cluster1),
            "cluster_conv2": (cluster1, cluster2),
        }

    def to_weights(self) -> Weights:
        """Return the weights of the exported file: each convolution as a matrix."""
        shapes = self.image_shapes()
        job1, job1_bias = _as_matrix(self.job_conv1, _JOB_IMAGE)
        job2, job2_bias = _as_matrix(self.job_conv2, shapes["job_conv2"][0])
        cluster1, cluster1_bias = _as_matrix(self.cluster_conv1, _CLUSTER_IMAGE)
        cluster2, cluster2_bias = _as_matrix(self.cluster_conv2, shapes["cluster_conv2"][0])
        numbers = self.number_counts
        of_image, of_numbers, of_context = self.head1.weight.split(
            (len(job2_bias), numbers[0], self.sizes.hidden), dim=1
        )
        context_image, context_numbers = self.context.weight.split(
            (len(cluster2_bias), numbers[1]), dim=1
        )
        found = {
            "job_conv1": _above(job1, numbers[0]),
            "job_conv1_bias": job1_bias,
            "job_conv2": job2,
            "job_conv2_bias": job2_bias,
            "cluster_conv1": _above(cluster1, numbers[1]),
            "cluster_conv1_bias": cluster1_bias,
            "cluster_conv2": cluster2,
            "cluster_conv2_bias": cluster2_bias,
            "context_image": context_image.T,
            "context_numbers": _below(context_numbers.T, len(CLUSTER_COLUMNS)),
            "context_bias": self.context.bias,
            "head1_image": of_image.T,
            "head1_numbers": _below(of_numbers.T, len(JOB_COLUMNS)),
            "head1_context": of_context.T,
            "head1_bias": self.head1.bias,
            "head2": self.head2.weight.T,
            "head2_bias": self.head2.bias,
            "head3": self.head3.weight.T,
            "head3_bias": self.head3.bias,
            "none": self.none.weight.T,
            "none_bias": self.none.bias,
            "skip": _below(self.skip[:, None], len(JOB_COLUMNS)),
        }
        return {
            name: np.ascontiguousarray(tensor.detach().numpy(), np.float32)
            for name, tensor in found.items()
        }

    def to_onnx(self) -> bytes:
        """Return the model file; see export_selector."""
        self.eval()
        return export_selector(self)

    def ranks(self, jobs: NDArray[np.float32], cluster: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return what the exported model answers, float32 [job].

        Args:
            jobs: [job, JOB_COLUMNS].
            cluster: [CLUSTER_COLUMNS].
        """
        with torch.inference_mode():
            found = self.forward(torch.from_numpy(jobs)[None], torch.from_numpy(cluster)[None])
        answer: NDArray[np.float32] = found[0].numpy()
        return answer


class SelectorCritic(torch.nn.Module):  # type: ignore[misc]
    """What the rest of an episode is worth: a network of its own, which is not exported."""

    def __init__(self, sizes: SelectorSizes | None = None) -> None:
        super().__init__()
        self.trunk = SelectorNet(sizes)
        hidden = self.trunk.sizes.hidden
        self.mix = torch.nn.Linear(2 * hidden, hidden)
        self.value = torch.nn.Linear(hidden, 1)

    def forward(
        self, jobs: torch.Tensor, cluster: torch.Tensor, present: torch.Tensor
    ) -> torch.Tensor:
        """Return the value of each decision, [decision].

        Args:
            jobs: see SelectorNet.
            cluster: see SelectorNet.
            present: bool [decision, job], where there is a job.
        """
        context = self.trunk.context_of(cluster)
        hidden = self.trunk.hidden_of(jobs, context) * present[..., None]
        mean = hidden.sum(dim=1) / present.sum(dim=1, keepdim=True).clamp(min=1)
        mixed = torch.relu(self.mix(torch.cat((context, mean), dim=1)))
        value: torch.Tensor = self.value(mixed)[:, 0]
        return value


def masked_logs(ranks: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Return the log-probability of each action, [decision, job + 1]; -inf where masked.

    Args:
        ranks: [decision, job], as SelectorNet answers.
        mask: bool [decision, job + 1]; the last is "none", whose rank is 0.
    """
    logits = torch.cat((ranks, torch.zeros_like(ranks[:, :1])), dim=1)
    return torch.log_softmax(logits.masked_fill(~mask, -torch.inf), dim=1)


def export_selector(net: SelectorNet) -> bytes:
    """Return the net as an ONNX file of kind order; the same weights give the same bytes."""
    layers = [
        ("Gemm", [JOBS_NAME, "job_conv1", "job_conv1_bias"], "image1"),
        ("Relu", ["image1"], "image1_active"),
        ("Gemm", ["image1_active", "job_conv2", "job_conv2_bias"], "image2"),
        ("Relu", ["image2"], "image2_active"),
        ("MatMul", [CLUSTER_NAME, "cluster_conv1"], "cluster1"),
        ("Add", ["cluster1", "cluster_conv1_bias"], "cluster1_sum"),
        ("Relu", ["cluster1_sum"], "cluster1_active"),
        ("MatMul", ["cluster1_active", "cluster_conv2"], "cluster2"),
        ("Add", ["cluster2", "cluster_conv2_bias"], "cluster2_sum"),
        ("Relu", ["cluster2_sum"], "cluster2_active"),
        ("MatMul", ["cluster2_active", "context_image"], "context1"),
        ("MatMul", [CLUSTER_NAME, "context_numbers"], "context2"),
        ("Add", ["context1", "context2"], "context3"),
        ("Add", ["context3", "context_bias"], "context4"),
        ("Relu", ["context4"], "context"),
        ("MatMul", ["context", "head1_context"], "shared1"),
        ("Add", ["shared1", "head1_bias"], "shared2"),
        ("Gemm", ["image2_active", "head1_image", "shared2"], "first1"),
        ("MatMul", [JOBS_NAME, "head1_numbers"], "first2"),
        ("Add", ["first1", "first2"], "first"),
        ("Relu", ["first"], "first_active"),
        ("Gemm", ["first_active", "head2", "head2_bias"], "second"),
        ("Relu", ["second"], "second_active"),
        ("Gemm", ["second_active", "head3", "head3_bias"], "own1"),
        ("MatMul", [JOBS_NAME, "skip"], "own2"),
        ("Add", ["own1", "own2"], "own"),
        ("MatMul", ["context", "none"], "none1"),
        ("Add", ["none1", "none_bias"], "none2"),
        ("Sub", ["own", "none2"], RANK_NAME),
    ]
    graph = helper.make_graph(
        [helper.make_node(operator, inputs, [output]) for operator, inputs, output in layers],
        "roost_selector",
        [
            _value(JOBS_NAME, ["job", len(JOB_COLUMNS)]),
            _value(CLUSTER_NAME, [len(CLUSTER_COLUMNS)]),
        ],
        [_value(RANK_NAME, ["job", 1])],
        [numpy_helper.from_array(array, name) for name, array in sorted(net.to_weights().items())],
    )
    return serialized(graph)


def _value(name: str, sizes: list[int | str]) -> object:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, sizes)


def _as_matrix(layer: torch.nn.Conv2d, shape: tuple[int, ...]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a convolution of a fixed-size image as [pixel in, number out], and its bias.

    The line of a pixel is the answer to the image in which only that pixel is 1, less the bias.
    """
    with torch.no_grad():
        pixels = int(np.prod(shape))
        bias = layer(torch.zeros(1, *shape)).flatten()
        matrix = layer(torch.eye(pixels).reshape(pixels, *shape)).flatten(1) - bias
    return matrix, bias


def _above(matrix: torch.Tensor, line_count: int) -> torch.Tensor:
    """Put lines of 0 below a matrix: for the numbers that stand behind an image."""
    return torch.cat((matrix, torch.zeros(line_count, matrix.shape[1])))


def _below(matrix: torch.Tensor, line_count: int) -> torch.Tensor:
    """Put lines of 0 above a matrix, up to so many: for the image that stands before numbers."""
    return torch.cat((torch.zeros(line_count - len(matrix), matrix.shape[1]), matrix))
