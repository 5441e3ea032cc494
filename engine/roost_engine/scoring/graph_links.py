"""The typed links inside one kind of node, as weights that average over a GPU's neighbours."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from roost_engine.cluster.features import link_scale
from roost_engine.cluster.link_table import LinkTable
from roost_engine.domain.topology import Level, Link
from roost_engine.scoring.graph_columns import LINK_TYPES


@dataclass(frozen=True, slots=True, eq=False)
class KindLinks:
    """The links of one kind of node.

    Attributes:
        gpu_count: of a node.
        neighbours: by type of link but the most frequent one, int64 [place, gpu]: the neighbours of
            each GPU one after the other; with float32 [place, gpu, 1], 0 where there is none left.
        commonest: the position of the most frequent type in LINK_TYPES: every other GPU that is in
            no list of neighbours.
        weights: float32 [type, gpu, 1], one over how many such neighbours each GPU has.
        pairs_frac: float32 [type, gpu], the share of a GPU's other GPUs that are such neighbours.
        links_frac: mean link of all pairs, on the scale of link_scale().
        is_nvlinked: whether every pair has NVLink; True for one GPU.
        potential: float64 [mask], see LinkTable.
    """

    gpu_count: int
    neighbours: Mapping[int, tuple[NDArray[np.int64], NDArray[np.float32]]]
    commonest: int
    weights: NDArray[np.float32]
    pairs_frac: NDArray[np.float32]
    links_frac: float
    is_nvlinked: bool
    potential: NDArray[np.float64]

    @classmethod
    def of(cls, table: LinkTable) -> "KindLinks":
        """Read the links of a kind of node."""
        links, count = table.links.links, table.gpu_count
        near = np.zeros((len(LINK_TYPES), count, count), dtype=np.float32)
        for gpu, row in enumerate(links):
            for other, link in enumerate(row):
                if link is not None:
                    near[_type_of(link), gpu, other] = 1
        degrees = near.sum(axis=2)
        commonest = int(degrees.sum(axis=1).argmax())
        neighbours = {}
        for link_type in range(len(LINK_TYPES)):
            if link_type != commonest and near[link_type].any():
                # Neighbours first: a stable sort by "is no neighbour".
                order = np.argsort(1 - near[link_type], axis=1, kind="stable")
                places = int(degrees[link_type].max())
                is_there = np.arange(places)[:, None] < degrees[link_type]
                neighbours[link_type] = order.T[:places], is_there.astype(np.float32)[..., None]
        pair_count = count * (count - 1) // 2
        mean_score = np.array(table.score_by_set[table.full_mask] / max(pair_count, 1))
        return cls(
            gpu_count=count,
            neighbours=neighbours,
            commonest=commonest,
            weights=np.asarray(1 / np.maximum(degrees, 1), dtype=np.float32)[..., None],
            pairs_frac=np.asarray(degrees / max(count - 1, 1), dtype=np.float32),
            links_frac=float(link_scale(mean_score)),
            is_nvlinked=bool(degrees[0].sum() == count * (count - 1)),
            potential=table.potential,
        )

    def add_means(self, state: NDArray[np.float32], sums: NDArray[np.float32]) -> None:
        """Average a state over the neighbours of each GPU by each type of link.

        No matrix product: BLAS rounds differently from one processor to the next.

        Args:
            state: float32 [column, gpu, node].
            sums: float32 [type, column, gpu, node], all 0: receives the means; it stays 0 where a
                GPU has no such neighbour.
        """
        totals, others = state[:, 0].copy(), sums[self.commonest]
        for gpu in range(1, self.gpu_count):  # one after the other, unlike a sum of numpy's
            totals += state[:, gpu]
        np.subtract(totals[:, None], state, out=others)
        for link_type, (neighbour, is_there) in self.neighbours.items():
            near = sums[link_type]
            for place in range(len(neighbour)):
                near += state[:, neighbour[place]] * is_there[place]
            others -= near
            near *= self.weights[link_type]
        np.maximum(others, 0.0, out=others)  # what rounding leaves of a sum of nothing
        others *= self.weights[self.commonest]


def _type_of(link: Link) -> int:
    """Return the position of a link's type in LINK_TYPES."""
    if link.nvlink_count:
        return 0
    return 1 if link.level <= Level.MULTIPLE_SWITCHES else 2
