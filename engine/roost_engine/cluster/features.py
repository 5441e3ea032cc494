"""What a score policy sees of each candidate, and the heuristic that reads the same columns.

Every column is a fraction 0..1, so that a policy trained on one cluster reads another.
Page: docs/models.md.
"""

import numpy as np
from numpy.typing import NDArray

SCHEMA_VERSION = 1  # of COLUMNS; a model says which one it was trained for

LOAD_SCOPES = ("switch", "root", "node")  # nearest first; each holds the ones before it
LOAD_QUANTITIES = ("sm", "memory", "pcie", "nvlink")

COLUMNS: tuple[str, ...] = (
    "link_frac",  # mean pair score on the scale of link_scale(); 0 for one GPU a node
    "link_best_frac",  # link score over the best this many GPUs have on an idle node of this kind
    "tier_frac",  # 0 one node, 0.5 one rack, 1 across racks
    "fragmentation_frac",  # how much of the nodes' linked sets the candidate uses up
    "leftover_frac",  # GPUs it leaves free on its nodes, of all their GPUs
    *(f"{scope}_{quantity}_frac" for scope in LOAD_SCOPES for quantity in LOAD_QUANTITIES),
    "load_known_frac",  # share of the nodes' GPUs whose load a probe has reported
)
COLUMN = {name: position for position, name in enumerate(COLUMNS)}

BEST_PAIR_SCORE = 1800.0  # eighteen NVLink lanes
# Half of a PCIe 5.0 x16 slot and of an eighteen-lane NVLink port, both ways: a neighbour that
# moves this much counts as half as busy as one can be.
PCIE_HALF_BYTES_PER_S = 63e9
NVLINK_HALF_BYTES_PER_S = 450e9

# Order of magnitude gives the order of questions: stay together, link well, keep linked sets whole,
# fill up started nodes; the load of all neighbours together weighs less than one left-over GPU.
_WEIGHTS = {
    "link_frac": 4.0,
    "link_best_frac": 2.0,
    "tier_frac": -4.0,
    "fragmentation_frac": -2.0,
    "leftover_frac": -0.5,
}
_LOAD_WEIGHTS = {"switch": -0.008, "root": -0.004, "node": -0.002}
HEURISTIC_WEIGHTS: NDArray[np.float32] = np.array(
    [
        _WEIGHTS.get(name, _LOAD_WEIGHTS.get(name.split("_")[0], 0.0))
        if name != "load_known_frac"
        else 0.0
        for name in COLUMNS
    ],
    dtype=np.float32,
)


def link_scale(pair_score: NDArray[np.float64]) -> NDArray[np.float64]:
    """Map mean pair scores to 0..1 logarithmically: SYS 0.32, PIX 0.52, NV1 0.62, NV18 1.

    Args:
        pair_score: [...], points of domain.topology.Link.score.

    Returns:
        [...], 0 where there is no pair.
    """
    scaled: NDArray[np.float64] = np.log1p(pair_score) / np.log1p(BEST_PAIR_SCORE)
    return np.minimum(scaled, 1.0)


def load_fractions(load: NDArray[np.float32]) -> NDArray[np.float32]:
    """Turn load into fractions 0..1; rates saturate, an unknown or negative one is 0.

    Args:
        load: float32 [..., gpu, 4], columns domain.events.LOAD_COLUMNS, NaN where unknown.

    Returns:
        float32 [..., gpu, 4], columns LOAD_QUANTITIES.
    """
    known = np.where(np.isfinite(load) & (load > 0), load, 0.0).astype(np.float64)
    known[..., 2] /= known[..., 2] + PCIE_HALF_BYTES_PER_S
    known[..., 3] /= known[..., 3] + NVLINK_HALF_BYTES_PER_S
    return np.clip(known, 0.0, 1.0).astype(np.float32)


def weighted_sums(values: NDArray[np.float32], weights: NDArray[np.float32]) -> NDArray[np.float32]:
    """Products summed over the middle axis, in the same order on every machine.

    The matrix product of BLAS rounds differently from one processor to the next, so that a journal
    replayed elsewhere could decide differently; some of its kernels raise NaN warnings besides.

    Args:
        values: float32 [..., line, inner].
        weights: float32 [..., inner, column].

    Returns:
        float32 [..., line, column].
    """
    sums: NDArray[np.float32] = np.add.reduce(values[..., None] * weights[..., None, :, :], axis=-2)
    return sums
