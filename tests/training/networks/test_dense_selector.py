"""dense_selector: the same answers as the network, from matrices that stay."""

import tests.training.torch_library  # noqa: F401  (skips this module where torch is missing)

# isort: split
import pytest
import torch

from roost_engine.queue.selector_columns import CLUSTER_COLUMNS, JOB_COLUMNS
from roost_train.networks.dense_selector import DenseSelector
from roost_train.networks.selector_net import SelectorNet, SelectorSizes

pytestmark = pytest.mark.torch


def questions(decision_count: int, job_count: int) -> tuple[torch.Tensor, torch.Tensor]:
    jobs = torch.randn(decision_count, job_count, len(JOB_COLUMNS))
    return jobs, torch.randn(decision_count, len(CLUSTER_COLUMNS))


def loud_net() -> SelectorNet:
    """Return a network in which every weight counts."""
    net = SelectorNet(SelectorSizes(hidden=16))
    with torch.no_grad():
        for weight in net.parameters():
            weight.copy_(torch.randn_like(weight) * 0.3)
    return net


def lines(jobs: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    """Return the first jobs of each decision, one below the other."""
    return torch.cat([one[:count] for one, count in zip(jobs, counts, strict=True)])


@pytest.mark.parametrize("counts", [[1], [40], [3, 7, 1], [128, 1, 2, 60, 5, 5, 31, 2], [2, 0, 3]])
def test_it_answers_what_the_network_does(counts: list[int]) -> None:
    torch.manual_seed(len(counts))
    net = loud_net()
    jobs, cluster = questions(len(counts), max(counts))
    count = torch.tensor(counts)
    with torch.inference_mode():
        wanted = lines(net(jobs, cluster), count)
        found = DenseSelector(net)(lines(jobs, count), cluster, count)
    assert found.shape == wanted.shape
    assert torch.allclose(found, wanted, rtol=1e-4, atol=1e-4)


def test_what_the_network_learns_later_is_not_seen() -> None:
    torch.manual_seed(0)
    net = loud_net()
    jobs, cluster = questions(2, 3)
    question = jobs.flatten(0, 1), cluster, torch.tensor([3, 3])
    dense = DenseSelector(net)
    before = dense(*question)
    with torch.no_grad():
        for weight in net.parameters():
            weight.mul_(2.0)
    assert torch.equal(dense(*question), before)
    assert not torch.allclose(net(jobs, cluster).flatten(), before)
