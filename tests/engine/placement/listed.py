"""What a search found, candidate by candidate."""

import numpy as np

from roost_engine.placement.candidates import Candidates, Explained
from roost_engine.placement.options import GangOption


def nodes_of(found: Candidates) -> list[list[int]]:
    """Node indices of each candidate."""
    listing = found.listing()
    return [
        list(option.nodes) if isinstance(option := found.options[number], GangOption) else [node]
        for node, number in zip(listing.node.tolist(), listing.option.tolist(), strict=True)
    ]


def masks_of(found: Candidates) -> list[int]:
    """Index set of each candidate, the same on all of its nodes."""
    listing, masks = found.listing(), list[int]()
    for number, subset in zip(listing.option.tolist(), listing.subset.tolist(), strict=True):
        option = found.options[number]
        is_gang = isinstance(option, GangOption)
        masks.append(option.parts[0][2] if is_gang else int(option.choice.masks[subset]))
    return masks


def explained(found: Candidates, position: int = 0) -> Explained:
    """One candidate, described."""
    return found.explain(found.listing(), np.array([position]))
