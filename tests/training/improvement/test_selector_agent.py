import tests.training.torch_library  # noqa: F401  (skips this module where torch is missing)

# isort: split
import pytest
import torch
from tests.training.environments.small_episodes import episodes

from roost_train.improvement.selector_agent import SelectorAgent
from roost_train.networks.selector_net import SelectorNet, SelectorSizes

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("may_wait", [False, True])
def test_it_only_takes_what_the_mask_allows(may_wait: bool) -> None:
    torch.manual_seed(0)
    agent = SelectorAgent(SelectorNet(SelectorSizes(hidden=16)), draw_seed=0)
    runs = [episodes(job_count=25, may_wait=may_wait).begin(seed) for seed in range(3)]
    due = [(run, run.next_choices()) for run in runs]
    waited_count = 0
    for _ in range(25):
        ready = [(run, choices) for run, choices in due if choices is not None]
        if not ready:
            break
        actions = agent([run for run, _ in ready], [choices for _, choices in ready])
        due = []
        for (run, choices), action in zip(ready, actions, strict=True):
            assert choices.mask[action]
            waited_count += action == choices.none
            run.choose(action)
            due.append((run, run.next_choices()))
    assert bool(waited_count) == may_wait
