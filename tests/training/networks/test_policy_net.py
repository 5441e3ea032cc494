import tests.training.torch_library  # noqa: F401  (skips this module where torch is missing)

# isort: split
from dataclasses import asdict

import pytest
import torch

from roost_train.environments.slot_run import Slot
from roost_train.networks.policy_net import fresh_net, net_of

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("slot", list(Slot))
def test_a_network_of_a_checkpoint_is_of_the_same_kind(slot: Slot) -> None:
    net = fresh_net(slot)
    again = net_of({"sizes": asdict(net.sizes), "net": net.state_dict()})
    assert type(again) is type(net)
    pairs = zip(net.parameters(), again.parameters(), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)
