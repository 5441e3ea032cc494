"""Reads a selector's weights back from its model file, to train on from there.

The file has each convolution as a matrix (`selector_net.to_weights`). Every number of a kernel
stands in it several times, once for each place of the image that the kernel reaches; one is taken.
"""

import hashlib
from math import prod
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from roost_formats.models.onnx_file import read_onnx
from roost_formats.models.order import load_onnx_selector
from roost_formats.models.signature import ORDER
from roost_train.errors import TrainError
from roost_train.networks.selector_net import SelectorNet, SelectorSizes, Weights

_TOLERANCE = 1e-6
_CONVOLUTIONS = ("job_conv1", "job_conv2", "cluster_conv1", "cluster_conv2")


def read_selector(path: Path) -> tuple[SelectorNet, str]:
    """Return the selector of a model file, and the file's sha256.

    Args:
        path: of the ONNX file; its manifest stands beside it.

    Raises:
        PolicyError: a daemon would refuse the model.
        TrainError: it is no network of this version's form.
        OSError: the file cannot be read.
    """
    load_onnx_selector(path, lambda: 0.0)
    content = path.read_bytes()
    weights = dict(read_onnx(content, ORDER).weights)
    try:
        net = SelectorNet(_sizes_of(weights))
        _fill(net, weights)
    except (KeyError, RuntimeError, ValueError, IndexError) as error:
        raise TrainError(f"{path}: no selector of this version's form: {error}") from error
    written = net.to_weights()
    for name, wanted in weights.items():
        if np.abs(written[name] - wanted).max(initial=0.0) > _TOLERANCE:
            raise TrainError(f"{path}: no selector of this version's form: {name} differs")
    net.eval()
    return net, hashlib.sha256(content).hexdigest()


def _sizes_of(weights: Weights) -> SelectorSizes:
    """Return how wide the network is, by the sizes of its matrices."""
    plain = SelectorNet()
    shapes = plain.image_shapes()
    counts = [len(weights[f"{name}_bias"]) // prod(shapes[name][1][1:]) for name in _CONVOLUTIONS]
    return SelectorSizes(
        job_channels=(counts[0], counts[1]),
        cluster_channels=(counts[2], counts[3]),
        hidden=len(weights["head2_bias"]),
    )


def _fill(net: SelectorNet, weights: Weights) -> None:
    shapes = net.image_shapes()
    number_counts = {"job_conv1": net.number_counts[0], "cluster_conv1": net.number_counts[1]}
    state: dict[str, NDArray[np.float32]] = {}
    for name in _CONVOLUTIONS:
        matrix = weights[name]
        matrix = matrix[: len(matrix) - number_counts.get(name, 0)]
        kernel = _kernel(getattr(net, name), matrix, *shapes[name])
        state[f"{name}.weight"] = kernel
        state[f"{name}.bias"] = weights[f"{name}_bias"].reshape(len(kernel), -1)[:, 0]
    of_jobs, of_cluster = net.number_counts
    context = weights["context_image"], weights["context_numbers"][-of_cluster:]
    first = weights["head1_image"], weights["head1_numbers"][-of_jobs:], weights["head1_context"]
    state["context.weight"] = np.concatenate(context).T
    state["context.bias"] = weights["context_bias"]
    state["head1.weight"] = np.concatenate(first).T
    state["head1.bias"] = weights["head1_bias"]
    for name in ("head2", "head3", "none"):
        state[f"{name}.weight"] = weights[name].T
        state[f"{name}.bias"] = weights[f"{name}_bias"]
    state["skip"] = weights["skip"][-of_jobs:, 0]
    net.load_state_dict({name: torch.tensor(value) for name, value in state.items()})


def _kernel(
    layer: torch.nn.Conv2d,
    matrix: NDArray[np.float32],
    image: tuple[int, ...],
    answer: tuple[int, ...],
) -> NDArray[np.float32]:
    """Return the kernel of a convolution from its matrix.

    Args:
        layer: for strides and padding.
        matrix: [pixel in, number out].
        image: (channels, lines, columns) of what goes in.
        answer: the same of what comes out.
    """
    as_image = matrix.reshape(*image, *answer)
    kernel = np.empty(layer.weight.shape, dtype=np.float32)
    for line in range(kernel.shape[2]):
        at_line = _reached(line, layer.stride[0], layer.padding[0], image[1], answer[1])
        for column in range(kernel.shape[3]):
            at = _reached(column, layer.stride[1], layer.padding[1], image[2], answer[2])
            kernel[:, :, line, column] = as_image[:, at_line[0], at[0], :, at_line[1], at[1]].T
    return kernel


def _reached(place: int, stride: int, padding: int, size: int, answer_size: int) -> tuple[int, int]:
    """Return a place of the image that a place of the kernel reaches, and for which answer.

    Place 0 of a kernel with stride 2 and padding 1 reads pixel -1, which is padding, for answer 0,
    and pixel 1 for answer 1.
    """
    for answer in range(answer_size):
        pixel = answer * stride + place - padding
        if 0 <= pixel < size:
            return pixel, answer
    raise IndexError(f"place {place} of a kernel reaches no pixel")
