"""The six models of Dally's simulator, and the job mix of its evaluation.

Compute is the measured time multiplied by a factor of the simulator's own configuration (ResNet-50
30 times less than measured, MobileNetV3 150 times, BERT 9,000 times), so communication weighs much
more than on real GPUs; `compute_scale` corrects that gradually. Bytes and layers are the sums of
its layer tables. Source: Sharma et al., arXiv 2401.16492, and the constants of its simulator.
"""

from roost_sim.traces.generator import Component, SizeClass, TraceModel
from roost_sim.worlds.speed.ring_network import StepModel

_SOURCE = "Dally: Sharma et al., arXiv 2401.16492, constants of its simulator"


def _model(name: str, compute_ms: float, gradient_mb: float, layer_count: int) -> StepModel:
    return StepModel(
        name=name,
        family=name,
        source=_SOURCE,
        compute_s=compute_ms / 1e3,
        gradient_bytes=gradient_mb * 1e6,
        layer_count=layer_count,
    )


DALLY_MODELS = (
    _model("alexnet", 1.21, 244, 8),
    _model("bert", 1.711, 562, 66),
    _model("mobilenetv3", 0.063, 9.9, 52),
    _model("resnet18", 0.180, 46.7, 21),
    _model("resnet50", 11.82, 102, 54),
    _model("vgg11", 3.84, 531, 11),
)

_LONGEST_H = 211.5

DALLY_MIX = TraceModel(
    source="Dally's 500 jobs",
    sizes=(
        (1, 270 / 500),
        (2, 13 / 500),
        (4, 52 / 500),
        (8, 109 / 500),
        (16, 42 / 500),
        (32, 11 / 500),
        (40, 1 / 500),
        (48, 1 / 500),
        (56, 1 / 500),
    ),
    # Published: mean 14.6 h, median 3.9 h, longest 211.5 h, 13,054 GPU-hours. With 5.09 GPUs a job
    # on average the GPU-hours say that large jobs are short: 24.6 h on one GPU, 2.8 h on more. Two
    # log-normals of one width meet the median and, cut at the longest, those two means.
    classes=(
        SizeClass(1, (Component(1.0, 10.567, 1.358),)),
        SizeClass(2, (Component(1.0, 8.303, 1.358),)),
    ),
    longest_s=_LONGEST_H * 3_600,
    jobs_per_day=50.0,  # of the published 25, 50, 75 and 100
    day_log_sigma=0.0,
    hour_weights=(1.0,) * 24,
    weekday_weights=(1.0,) * 7,
    burst_frac=0.0,
    burst_gap_s=1.0,
    models=(
        ("alexnet", 53 / 500),
        ("bert", 125 / 500),
        ("mobilenetv3", 125 / 500),
        ("resnet18", 38 / 500),
        ("resnet50", 125 / 500),
        ("vgg11", 34 / 500),
    ),
)
