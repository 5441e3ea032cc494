"""The networks that decide in a slot, and which one a slot has."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeAlias, assert_never

from roost_train.environments.slot_run import Reads, Slot
from roost_train.errors import TrainError
from roost_train.networks.graph_placement_net import GraphPlacementNet, GraphPlacementSizes
from roost_train.networks.placement_net import PlacementNet, PlacementSizes
from roost_train.networks.selector_net import SelectorNet, SelectorSizes
from roost_train.networks.slot_net import SlotNet, SlotSizes

PolicyNet: TypeAlias = SelectorNet | PlacementNet | GraphPlacementNet | SlotNet


def fresh_net(slot: Slot, reads: Reads = Reads.SCORE) -> PolicyNet:
    """Return the network of a slot; its weights are drawn from torch's global generator.

    Args:
        slot: which.
        reads: of the placement slot.
    """
    match slot:
        case Slot.ORDER:
            return SelectorNet()
        case Slot.PLACEMENT:
            return PlacementNet() if reads is Reads.SCORE else GraphPlacementNet()
        case Slot.GATE:
            return SlotNet(SlotSizes.of(slot))
        case _:
            assert_never(slot)


def residual_net(slot: Slot, reads: Reads = Reads.SCORE) -> PolicyNet:
    """Return the network of a slot as it decides exactly as the slot's heuristic.

    Raises:
        TrainError: the slot has no heuristic that a network can start as.
    """
    match slot:
        case Slot.ORDER:
            return SelectorNet.residual()
        case Slot.PLACEMENT:
            return PlacementNet.residual() if reads is Reads.SCORE else GraphPlacementNet()
        case Slot.GATE:
            raise TrainError("warm_start: residual is of the order and placement slots only")
        case _:
            assert_never(slot)


def net_of(state: Mapping[str, Any]) -> PolicyNet:
    """Return the network of a checkpoint, by the names of its sizes."""
    sizes: Mapping[str, Any] = state["sizes"]
    net: PolicyNet
    if set(sizes) == {one.name for one in fields(PlacementSizes)}:
        net = PlacementNet(PlacementSizes(**sizes))
    elif set(sizes) == {one.name for one in fields(GraphPlacementSizes)}:
        net = GraphPlacementNet(GraphPlacementSizes(**sizes))
    elif set(sizes) == {one.name for one in fields(SlotSizes)}:
        net = SlotNet(SlotSizes(**sizes))
    else:
        job, cluster = tuple(sizes["job_channels"]), tuple(sizes["cluster_channels"])
        net = SelectorNet(
            SelectorSizes(job_channels=job, cluster_channels=cluster, hidden=sizes["hidden"])
        )
    net.load_state_dict(state["net"])
    net.eval()
    return net
