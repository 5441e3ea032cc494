"""Sizes of models and of their largest tensors, for checkpoints and the skew rule.

Counted from the published layer shapes (32-bit weights, a gradient of the same size). Families
whose variant the tables do not name (lm, transformer, a2c, dqn, deepspeech2, ncf) are not listed:
their size is unknown, not 0.
"""

from collections.abc import Mapping
from dataclasses import dataclass

_BYTES_PER_WEIGHT = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSize:
    """The size of one model.

    Attributes:
        weight_count: of all tensors.
        largest_tensor_count: weights of the largest one.
        source: which variant.
    """

    weight_count: int
    largest_tensor_count: int
    source: str

    @property
    def gradient_bytes(self) -> int:
        """Bytes that one step reduces, 4 for each weight."""
        return self.weight_count * _BYTES_PER_WEIGHT

    @property
    def skew_frac(self) -> float:
        """Weights of the largest tensor over all; Tiresias consolidates a job by it."""
        return self.largest_tensor_count / self.weight_count


def _size(weight_count: int, largest_tensor_count: int, source: str) -> ModelSize:
    return ModelSize(
        weight_count=weight_count, largest_tensor_count=largest_tensor_count, source=source
    )


_VISION = "as in torchvision, 1000 classes"
_SIZES: Mapping[str, ModelSize] = {
    "alexnet": _size(61_100_840, 9_216 * 4_096, f"AlexNet {_VISION}: first dense layer"),
    "bert": _size(109_482_240, 30_522 * 768, "BERT-base, uncased: word embedding"),
    "gpt2": _size(124_439_808, 50_257 * 768, "GPT-2 small: word embedding"),
    "mobilenetv3": _size(2_542_856, 1_024 * 1_000, f"MobileNetV3 small {_VISION}: classifier"),
    "resnet18": _size(11_689_512, 9 * 512 * 512, f"ResNet-18 {_VISION}: a 3x3 convolution"),
    "resnet50": _size(25_557_032, 9 * 512 * 512, f"ResNet-50 {_VISION}: a 3x3 convolution"),
    "shufflenet": _size(2_278_604, 1_024 * 1_000, f"ShuffleNetV2 x1.0 {_VISION}: classifier"),
    "vgg11": _size(132_863_336, 25_088 * 4_096, f"VGG-11 {_VISION}: first dense layer"),
    "vgg16": _size(138_357_544, 25_088 * 4_096, f"VGG-16 {_VISION}: first dense layer"),
    "vgg19": _size(143_667_240, 25_088 * 4_096, f"VGG-19 {_VISION}: first dense layer"),
    "yolov3": _size(61_949_149, 9 * 512 * 1_024, "YOLOv3, 80 classes: a 3x3 convolution"),
}


def size_of(family: str) -> ModelSize | None:
    """Return the size of a family's model; None: unknown."""
    return _SIZES.get(family)
