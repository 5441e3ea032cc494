import tests.training.torch_library  # noqa: F401  (skips this module where torch is missing)

# isort: split
from dataclasses import asdict

import pytest
import torch

from roost_train.environments.slot_run import Reads, Slot
from roost_train.errors import TrainError
from roost_train.networks.policy_net import fresh_net, net_of, residual_net

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("reads", list(Reads))
@pytest.mark.parametrize("slot", list(Slot))
def test_a_network_of_a_checkpoint_is_of_the_same_kind(slot: Slot, reads: Reads) -> None:
    net = fresh_net(slot, reads)
    again = net_of({"sizes": asdict(net.sizes), "net": net.state_dict()})
    assert type(again) is type(net)
    pairs = zip(net.parameters(), again.parameters(), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)


def test_a_residual_of_a_slot_is_its_network_and_the_gate_has_none() -> None:
    for slot, reads in ((Slot.ORDER, Reads.SCORE), *((Slot.PLACEMENT, one) for one in Reads)):
        assert type(residual_net(slot, reads)) is type(fresh_net(slot, reads))
    with pytest.raises(TrainError, match="order and placement slots only"):
        residual_net(Slot.GATE)
