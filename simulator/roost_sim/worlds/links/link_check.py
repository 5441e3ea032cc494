"""Link check: published all-reduce bandwidths inside nodes, beside what the model says.

None of these figures was fitted, but constants were chosen after reading some of them
(link_constants.source says which). A row is met where the model is within a fifth of it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from roost_engine.domain.topology import Level, Link, LinkMatrix
from roost_sim.clusters.link_shapes import SHAPES
from roost_sim.worlds.links.link_bandwidth import LinkBandwidth
from roost_sim.worlds.links.link_constants import generation_of

TOLERANCE_FRAC = 0.2

_TARTAN = "Tartan (IISWC 2018), its repository's NCCL 2 results; that release had no trees"
_MAPA = "MAPA (SC 2021), its published fit of measured bandwidths"
_TACCL = "TACCL (NSDI 2023), its profile of the machine"


@dataclass(frozen=True, slots=True)
class Check:
    """One published bandwidth.

    Attributes:
        what: machine and GPUs.
        measured_bytes_per_s: as published; of a ratio the ratio.
        predicted_bytes_per_s: by the model.
        source: of the measurement, and why the model misses it where that is known.
    """

    what: str
    measured_bytes_per_s: float
    predicted_bytes_per_s: float
    source: str

    @property
    def error_frac(self) -> float:
        """Return the model's error over the measurement; above 0 the model is too fast."""
        return self.predicted_bytes_per_s / self.measured_bytes_per_s - 1.0

    @property
    def is_met(self) -> bool:
        """Return whether the model is within a fifth."""
        return abs(self.error_frac) <= TOLERANCE_FRAC


def checks() -> tuple[Check, ...]:
    """Return every published bandwidth with the model's."""
    return (*_dgx1_p100(), *_v100(), *_a100(), *_others(), *_ratios())


def _dgx1_p100() -> Iterator[Check]:
    cube = SHAPES["cube8"].links
    single = LinkMatrix(
        tuple(
            tuple(None if link is None else Link(link.level, min(link.nvlink_count, 1)) for link in
                  row)
            for row in cube
        )
    )  # fmt: skip
    model = LinkBandwidth(single, generation_of("p100"), has_trees=False)
    measured = {2: 17.28, 3: 34.56, 4: 52.09, 5: 5.57, 6: 34.70, 7: 34.72, 8: 62.24}
    for count, gbytes_per_s in measured.items():
        why = "; half lanes would give three rings, it used two" if count == 7 else ""
        yield _check(f"DGX-1 P100, GPUs 0 to {count - 1}", gbytes_per_s, model, range(count),
                     _TARTAN + why)  # fmt: skip


def _v100() -> Iterator[Check]:
    cube = LinkBandwidth.of(SHAPES["cube8"], "v100")
    yield _check("DGX-1V, pair with two lanes", 39.1, cube, (0, 3), _MAPA)
    yield _check("DGX-1V, pair with one lane", 21.6, cube, (0, 1), _MAPA)
    yield _check("DGX-1V, pair without NVLink", 10.1, cube, (0, 5), _MAPA)
    yield _check("DGX-1V, three with 2, 2 and 1 lanes", 57.9, cube, (0, 2, 3), _MAPA)
    yield _check("DGX-1V, three with 2, 1 and 1 lanes", 44.1, cube, (0, 1, 2), _MAPA)
    yield _check("DGX-1V, three with 2, 2 and no lanes", 30.0, cube, (0, 3, 4),
                 _MAPA + "; the model counts chains, the fit does not know them")  # fmt: skip
    yield _check("NDv2 (V100), pair with two lanes", 43.5, cube, (0, 3), _TACCL)
    yield _check("NDv2 (V100), pair with one lane", 21.7, cube, (0, 1), _TACCL)
    dgx2 = LinkBandwidth.of(SHAPES["v100x16"], "v100")
    yield _check("DGX-2 (V100), pair", 125.0, dgx2, (0, 9), _TACCL)


def _a100() -> Iterator[Check]:
    switched = LinkBandwidth.of(SHAPES["a100x8"], "a100")
    yield _check("DGX A100, 8 GPUs", 235.3, switched, range(8), "superbenchmark, its test data")
    yield _check("4 A100 without switch, pair", 72.0, LinkBandwidth.of(SHAPES["a100x4"], "a100"),
                 (0, 1), "NVIDIA/nccl-tests issue 331")  # fmt: skip
    bridged = _a100_pairs()
    yield _check("A100 PCIe, bridged pair", 208.0, bridged, (0, 1), "NVIDIA/nccl-tests issue 178")
    yield _check("A100 PCIe, three of one NUMA node", 20.0, bridged, (0, 1, 2),
                 "NVIDIA/nccl-tests issue 178")  # fmt: skip


def _others() -> Iterator[Check]:
    hopper = LinkBandwidth.of(SHAPES["h100x8"], "h100")
    yield _check("DGX H100, 8 GPUs, rings", 370.0, hopper, range(8), "NVIDIA/nccl-tests issue 212")
    yield _check("HGX H200, 8 GPUs", 475.0, hopper, range(8),
                 "NVIDIA/nccl-tests issue 272; NVLink SHARP is not modelled")  # fmt: skip
    yield _check("H100 PCIe, bridged pair", 116.0, _pair(12, "h100"), (0, 1),
                 "NVIDIA/nccl issue 1161; lanes not stated, taken as 12")  # fmt: skip
    yield _check("RTX 2080 Ti, bridged pair", 21.9, _pair(2, "rtx2080ti"), (0, 1),
                 "NVIDIA/nccl-tests issue 44; at 128 MB")  # fmt: skip
    sockets = LinkBandwidth.of(_numa_nodes(8), "rtx5090")
    why = "NVIDIA/nccl issue 1639; topology not stated, taken as four GPUs a socket"
    yield _check("RTX 5090, 4 GPUs", 35.0, sockets, range(4), why)
    yield _check("RTX 5090, 8 GPUs", 28.0, sockets, range(8), why)


def _ratios() -> Iterator[Check]:
    cube, bridged = LinkBandwidth.of(SHAPES["cube8"], "v100"), _a100_pairs()
    yield Check("ratio: V100 pair with two lanes to none", 39.1 / 10.1,
                cube.bytes_per_s((0, 3)) / cube.bytes_per_s((0, 5)), _MAPA)  # fmt: skip
    yield Check("ratio: A100 PCIe bridged pair to three without", 208.0 / 20.0,
                bridged.bytes_per_s((0, 1)) / bridged.bytes_per_s((0, 1, 2)),
                "NVIDIA/nccl-tests issue 178")  # fmt: skip


def _check(
    what: str, gbytes_per_s: float, model: LinkBandwidth, gpus: range | tuple[int, ...], source: str
) -> Check:
    return Check(what, gbytes_per_s * 1e9, model.bytes_per_s(tuple(gpus)), source)


def _a100_pairs() -> LinkBandwidth:
    pairs = {(a, a + 1): 12 for a in range(0, 8, 2)}
    return LinkBandwidth.of(_numa_nodes(8, pairs), "a100")


def _pair(lanes: int, gpu_model: str) -> LinkBandwidth:
    return LinkBandwidth.of(_numa_nodes(2, {(0, 1): lanes}), gpu_model)


def _numa_nodes(gpu_count: int, lanes: Mapping[tuple[int, int], int] | None = None) -> LinkMatrix:
    """Return the matrix of a node with two sockets, NODE inside each and SYS between them."""

    def link(a: int, b: int) -> Link:
        same = (a < gpu_count / 2) == (b < gpu_count / 2)
        level = Level.NUMA_NODE if same else Level.SYSTEM
        return Link(level, (lanes or {}).get((min(a, b), max(a, b)), 0))

    return LinkMatrix(
        tuple(
            tuple(None if a == b else link(a, b) for b in range(gpu_count))
            for a in range(gpu_count)
        )
    )
