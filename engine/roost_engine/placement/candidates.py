"""The candidate placements of one shape of one job: listed, described to a policy, explained."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.features import COLUMNS
from roost_engine.cluster.link_table import indices_of
from roost_engine.cluster.node_sets import NO_NODES, nodes_in
from roost_engine.domain.actions import Exclusions
from roost_engine.domain.lazy import Lazy
from roost_engine.domain.model import NodeShare, Placement, Shape
from roost_engine.domain.tier import Tier
from roost_engine.placement.eligibility import Hint
from roost_engine.placement.options import (
    GangOption,
    NodeOption,
    Option,
    gang_features,
    node_features,
)

_NODE = Tier.NODE  # an enum looks its members up by a call


class Listing(NamedTuple):
    """The candidates one by one, in the order that settles ties.

    Attributes:
        node: int64 [candidate], the first node.
        option: int64 [candidate], number of the option.
        subset: int64 [candidate], position in the choice of a NodeOption.
    """

    node: NDArray[np.int64]
    option: NDArray[np.int64]
    subset: NDArray[np.int64]


class Explained(NamedTuple):
    """Some candidates, described by names alone, so that it stays true when nodes change.

    Attributes:
        placements: best first.
        link_scores: int64 [candidate], summed over nodes.
        best_link_score: of as many GPUs as the first has, were its nodes idle.
        free_shares: what is free on the nodes of the first.
    """

    placements: tuple[Placement, ...]
    link_scores: NDArray[np.int64]
    best_link_score: int
    free_shares: tuple[NodeShare, ...]


class Candidates:
    """The placements of one shape that Slurm could start now; empty where there is none.

    Attributes:
        shape: the shape that all of them have.
        options: all of one type: NodeOption, or GangOption.
        tier: of the closest candidate.
        hints: where there is no candidate: when it is worth searching again.
        tables: link tables, by kind of node.
    """

    __slots__ = (
        "_exclusions",
        "_may_have_load",
        "_names",
        "hints",
        "options",
        "shape",
        "tables",
        "tier",
    )

    def __init__(
        self,
        cluster: Cluster,
        shape: Shape,
        options: Sequence[Option],
        exclusions: Lazy[Exclusions],
        hints: tuple[Hint, ...] = (),
    ) -> None:
        """List what a search found.

        Args:
            cluster: of it only what never changes is stored: names and link tables.
            shape: of the candidates.
            options: the candidates.
            exclusions: why the other nodes were ruled out.
            hints: see the class.
        """
        self.shape, self.options, self.hints = shape, options, hints
        self.tier = _NODE
        if options and isinstance(options[0], GangOption):
            self.tier = min([option.tier for option in options if isinstance(option, GangOption)])
        self._exclusions = exclusions
        self._names, self.tables = cluster.names, cluster.tables
        self._may_have_load = cluster.loads.reported != NO_NODES

    def __bool__(self) -> bool:
        """Whether there is any candidate."""
        return bool(self.options)

    def __len__(self) -> int:
        return sum(
            option.nodes.bit_count() * len(option.choice.masks)
            if isinstance(option, NodeOption)
            else 1
            for option in self.options
        )

    def rename_exclusions(self, rename: Callable[[Exclusions], Exclusions]) -> None:
        """Give the reasons other words, once they are read."""
        before = self._exclusions
        self._exclusions = Lazy(lambda: rename(before.get()))

    @property
    def exclusions(self) -> Exclusions:
        """(reason, number of nodes) for the nodes that were ruled out."""
        return self._exclusions.get()

    @property
    def is_load_free(self) -> bool:
        """Whether no load is known on any node: options with the same key then score alike."""
        return not (self._may_have_load and [one for one in self.options if one.load is not None])

    @property
    def features(self) -> NDArray[np.float32]:
        """What a policy sees: float32 [candidate, feature], columns of cluster.features."""
        return self.features_of(self.listing())

    @property
    def link_scores(self) -> NDArray[np.int64]:
        """Link scores, summed over nodes: int64 [candidate]."""
        each = [self._link_score(option) for option in self.options]
        return np.array(each, dtype=np.int64)[self.listing().option]

    def listing(self) -> Listing:
        """List the candidates, single nodes by node index, gangs as they were found."""
        if not self.options or isinstance(self.options[0], GangOption):
            numbers = np.arange(len(self.options))
            first = [option.nodes[0] for option in self.options if isinstance(option, GangOption)]
            return Listing(np.array(first, dtype=np.int64), numbers, np.zeros_like(numbers))
        by_node = sorted(
            (node, number, len(option.choice.masks))
            for number, option in enumerate(self.options)
            if isinstance(option, NodeOption)
            for node in nodes_in(option.nodes)
        )
        counts = [count for _, _, count in by_node]
        return Listing(
            np.repeat([node for node, _, _ in by_node], counts),
            np.repeat([number for _, number, _ in by_node], counts),
            np.concatenate([_numbers(count) for count in counts]),
        )

    def features_of(self, listing: Listing) -> NDArray[np.float32]:
        """Return `features`, given the listing."""
        gangs = [option for option in self.options if isinstance(option, GangOption)]
        if gangs:
            return gang_features(gangs, self.tables)
        if not self.options:
            return np.zeros((0, len(COLUMNS)), dtype=np.float32)
        nodes = [option for option in self.options if isinstance(option, NodeOption)]
        # Subset 0 begins each node's part of the listing.
        return node_features([nodes[number] for number in listing.option[listing.subset == 0]])

    def explain(self, listing: Listing, order: NDArray[np.int64]) -> Explained:
        """Describe some candidates, given by position, best first."""
        chosen = zip(
            [self.options[number] for number in listing.option[order].tolist()],
            listing.node[order].tolist(),
            listing.subset[order].tolist(),
            strict=True,
        )
        described = list(chosen)
        best, node, _ = described[0]
        scores = [self._link_score(option) for option, _, _ in described]
        return Explained(
            placements=tuple([self.to_placement(*each) for each in described]),
            link_scores=np.array(scores, dtype=np.int64),
            best_link_score=self._best_link_score(best),
            free_shares=self._free_shares(best, node),
        )

    def placement(self, position: int) -> Placement:
        """Return one candidate, by its position in the listing."""
        listing = self.listing()
        number, node = int(listing.option[position]), int(listing.node[position])
        return self.to_placement(self.options[number], node, int(listing.subset[position]))

    def to_placement(self, option: Option, node: int, subset: int) -> Placement:
        """Return one candidate as a placement.

        Args:
            option: of this search.
            node: of a NodeOption: node index.
            subset: of a NodeOption: position in its choice.
        """
        names, shape = self._names, self.shape
        if isinstance(option, NodeOption):
            mask = option.choice.masks.item(subset)
            return Placement((names[node],), indices_of(mask), shape, _NODE)
        mask = option.parts[0][2]
        is_gang = all(part[2] == mask for part in option.parts)
        if is_gang and mask.bit_count() == shape.gpus_per_node:
            nodes = tuple(sorted([names[each] for each in option.nodes]))
            return Placement(nodes, indices_of(mask), shape, option.tier)
        pairs = zip(option.nodes, option.parts, strict=True)
        named = sorted((names[each], indices_of(part[2])) for each, part in pairs)
        scattered_over, indices = zip(*named, strict=True)
        return Placement(scattered_over, (), shape, option.tier, indices)

    def _best_link_score(self, option: Option) -> int:
        """Return the best link score of as many GPUs if the nodes of an option were idle."""
        if isinstance(option, NodeOption):
            return option.choice.ideal_link_score
        return sum(
            self.tables[kind].best_by_size[mask.bit_count()] for kind, _, mask in option.parts
        )

    def _free_shares(self, option: Option, node: int) -> tuple[NodeShare, ...]:
        if isinstance(option, NodeOption):
            return (NodeShare(self._names[node], indices_of(option.choice.free_mask)),)
        return tuple(
            NodeShare(self._names[each], indices_of(free))
            for each, (_, free, _) in zip(option.nodes, option.parts, strict=True)
        )

    def _link_score(self, option: Option) -> int:
        if isinstance(option, NodeOption):
            return option.choice.link_score
        return sum(self.tables[kind].part(free, mask)[1] for kind, free, mask in option.parts)


@cache
def _numbers(count: int) -> NDArray[np.int64]:
    return np.arange(count)
