"""The union tree: speed of CNN training in the environment of TopDRL's laboratory.

The communication cost of a set of GPUs is the weight of the union of the shortest paths from the
core to all of them: each GPU, each machine and each rack in it counts its edge once. The speed of a
job is GPUs * batch / (compute + reduction) / cost. Source: the laboratory's code of 2024
(Proximity-DRL, Canadian AI 2024), not TopDRL's own, which is not public. Its 35 models are not
repeated here; these eleven are counted from published layer shapes, at batch 64. It counts racks by
machine number, which over-applies the rack factor; here racks are racks.
"""

from collections import Counter
from dataclasses import dataclass
from math import ceil, sqrt

from roost_sim.clusters.cluster_spec import ClusterSpec, NetworkTier

_FLOP_PER_S = 10.6e12  # a P100, single precision
_BATCH = 64
_FLOP_PER_MAC = 2
_PASSES = 3  # one forward, and a backward that costs two
# Milliseconds of a reduction by megabytes, times the root of the GPUs; straight lines between.
_SMALL_MB, _SMALL_MS, _LARGE_MB, _LARGE_MS = 100.0, 28.29, 500.0, 139.77
_PER_FURTHER_RACK = 0.2
_SOURCE = "TopDRL's laboratory: Proximity-DRL, Canadian AI 2024; layers as in torchvision"


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeModel:
    """One CNN.

    Attributes:
        name: of the model.
        family: the same as `name`; families are excluded as a whole.
        source: of the figures.
        compute_s: compute of one mini-batch on one GPU.
        gradient_bytes: bytes reduced in each step.
    """

    name: str
    family: str
    source: str
    compute_s: float
    gradient_bytes: float


def _model(name: str, giga_macs: float, mega_weights: float) -> TreeModel:
    flop = giga_macs * 1e9 * _FLOP_PER_MAC * _PASSES * _BATCH
    return TreeModel(
        name=name,
        family=name,
        source=_SOURCE,
        compute_s=flop / _FLOP_PER_S,
        gradient_bytes=mega_weights * 4e6,
    )


# Multiply-adds of one forward pass of one image, in thousand millions, and weights, in millions.
TREE_MODELS = (
    _model("alexnet", 0.71, 61.1),
    _model("densenet121", 2.83, 7.98),
    _model("mobilenetv2", 0.30, 3.50),
    _model("resnet18", 1.81, 11.69),
    _model("resnet50", 4.09, 25.56),
    _model("resnet101", 7.80, 44.55),
    _model("resnet152", 11.51, 60.19),
    _model("shufflenet", 0.14, 2.28),
    _model("vgg11", 7.61, 132.86),
    _model("vgg16", 15.47, 138.36),
    _model("vgg19", 19.63, 143.67),
)


@dataclass(frozen=True, slots=True)
class UnionTree:
    """The tree of one cluster.

    Attributes:
        gpu_weight: of a GPU's edge, in seconds a GB like all weights.
        machine_weight: of a machine's edge to its rack.
        rack_weight: of a rack's edge to the core.
        gpus_per_machine: of the largest.
        machines_per_rack: of the largest.
        compute_scale: multiplies compute.
    """

    gpu_weight: float
    machine_weight: float
    rack_weight: float
    gpus_per_machine: int
    machines_per_rack: int
    compute_scale: float = 1.0

    @classmethod
    def of(cls, cluster: ClusterSpec, compute_scale: float = 1.0) -> "UnionTree":
        """Make the tree of a cluster; the weight of an edge is the inverse of its bandwidth."""
        gpu, machine, rack = (
            1e9 / cluster.tiers[tier].bandwidth_bytes_per_s
            for tier in (NetworkTier.NODE, NetworkTier.RACK, NetworkTier.POD)
        )
        largest = max(Counter(node.rack for node in cluster.nodes).values(), default=1)
        gpus = max(cluster.largest_node_gpu_count, 1)
        return cls(gpu, machine, rack, gpus, largest, compute_scale)

    def cost(self, gpu_count: int, machine_count: int, rack_count: int) -> float:
        """Return the weight of the paths from the core to GPUs on some machines and racks."""
        return (
            gpu_count * self.gpu_weight
            + machine_count * self.machine_weight
            + rack_count * self.rack_weight
        )

    def rate(self, model: TreeModel, gpu_count: int, machine_count: int, rack_count: int) -> float:
        """Return speed over that of the closest placement of as many GPUs, above 0, at most 1."""
        machines, racks = self._closest(gpu_count)
        best_s = self._step_s(model, gpu_count, racks) * self.cost(gpu_count, machines, racks)
        here_s = self._step_s(model, gpu_count, rack_count) * self.cost(
            gpu_count, machine_count, rack_count
        )
        return min(best_s / here_s, 1.0)

    def compute_frac(self, model: TreeModel, gpu_count: int) -> float:
        """Return compute over the step on the closest placement; one GPU reduces too, as coded."""
        _, racks = self._closest(gpu_count)
        compute_s = model.compute_s * self.compute_scale
        return compute_s / self._step_s(model, gpu_count, racks)

    def _closest(self, gpu_count: int) -> tuple[int, int]:
        machines = ceil(gpu_count / self.gpus_per_machine)
        return machines, ceil(machines / self.machines_per_rack)

    def _step_s(self, model: TreeModel, gpu_count: int, rack_count: int) -> float:
        slope = (_LARGE_MS - _SMALL_MS) / (_LARGE_MB - _SMALL_MB)
        reduce_ms = _SMALL_MS + slope * (model.gradient_bytes / 1e6 - _SMALL_MB)
        factor = sqrt(gpu_count) * (1.0 + _PER_FURTHER_RACK * (rack_count - 1))
        return model.compute_s * self.compute_scale + reduce_ms / 1e3 * factor
