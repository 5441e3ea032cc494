"""linear_imitation: a teacher that sorts by one number is repeated, whichever number it is."""

import tests.training.torch_library  # noqa: F401  (skips this module where torch is missing)

# isort: split
import numpy as np
import pytest
import torch
from tests.training.environments.test_decisions import decision

from roost_engine.queue.selector_columns import JOB_NUMBERS
from roost_train.environments.decisions import Decision
from roost_train.improvement.imitation import judge
from roost_train.improvement.linear_imitation import fit_skip
from roost_train.networks.selector_net import SelectorNet

pytestmark = pytest.mark.torch


def sorted_by(name: str, sign: float, seeds: range) -> list[Decision]:
    """Decisions of a teacher that takes the job with the most of a number, or the least."""
    column = JOB_NUMBERS.index(name) - len(JOB_NUMBERS)
    found = []
    for seed in seeds:
        one = decision(2 + seed % 5, seed=seed)
        jobs = np.random.default_rng(seed).random(one.jobs.shape, dtype=np.float32)
        mask = one.mask.copy()
        mask[:-1], mask[-1] = True, False
        found.append(Decision(jobs, one.cluster, mask, int((sign * jobs[:, column]).argmax())))
    return found


@pytest.mark.parametrize(("name", "sign"), [("ln_trusted_due", -1.0), ("ln_waited", 1.0)])
def test_a_teacher_of_one_number_is_repeated(name: str, sign: float) -> None:
    net = fit_skip(SelectorNet.residual(), sorted_by(name, sign, range(300)))
    assert judge(net, sorted_by(name, sign, range(1_000, 1_200))).same_frac > 0.9


def test_it_draws_nothing_and_leaves_the_network_alone() -> None:
    torch.manual_seed(0)
    first, second = SelectorNet.residual(), SelectorNet.residual()
    before = [value.clone() for name, value in first.named_parameters() if name != "skip"]
    decisions = sorted_by("ln_gpus", 1.0, range(60))
    fit_skip(first, decisions)
    fit_skip(second, decisions)
    assert torch.equal(first.skip, second.skip)
    after = [value for name, value in first.named_parameters() if name != "skip"]
    assert all(torch.equal(one, other) for one, other in zip(before, after, strict=True))
