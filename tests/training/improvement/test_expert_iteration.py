import tests.training.torch_library  # noqa: F401  (skips this module where torch is missing)

# isort: split
from dataclasses import replace
from math import e, inf

import numpy as np
import pytest
import torch
from tests.training.burst import best_s, fresh_net, net_that_prefers_long_jobs, solved_s
from tests.training.environments.small_episodes import episodes
from tests.training.environments.test_decisions import decision

from roost_train.environments.decisions import Trial
from roost_train.errors import TrainError
from roost_train.improvement.expert_iteration import (
    ExpertIteration,
    ExpertParameters,
    Follow,
    spread_of,
    target_of,
)
from roost_train.improvement.improvement import Improvement

pytestmark = pytest.mark.torch

QUICK = ExpertParameters(episode_count=2, passes=2, batch_count=8, sampled_frac=0.2)


def trial(outcomes: list[float]) -> Trial:
    """Three jobs and "none", which may not be chosen; the first two jobs were tried."""
    return Trial(
        decision=decision(3),
        probabilities=np.array([0.5, 0.3, 0.2, 0.0]),
        candidates=np.array([0, 1]),
        outcomes=np.array(outcomes),
    )


def test_the_target_by_hand() -> None:
    # The second came out 20 better than the first, and a scale of 20 makes that a factor of e.
    # 0.5 : 0.3 e, together still 0.8; what was not tried keeps its 0.2.
    target = target_of(trial([-110.0, -90.0]), 20.0)
    share = 0.3 * e / (0.5 + 0.3 * e)
    assert target.tolist() == pytest.approx([0.8 * (1 - share), 0.8 * share, 0.2, 0.0])
    assert target.sum() == pytest.approx(1.0)


def test_equal_outcomes_change_nothing_and_a_huge_difference_is_no_overflow() -> None:
    same = trial([-70.0, -70.0])
    assert target_of(same, 5.0).tolist() == pytest.approx(same.probabilities.tolist())
    assert target_of(trial([-1e9, 0.0]), 1e-6).tolist() == pytest.approx([0.0, 0.8, 0.2, 0.0])


def test_the_spread_is_about_each_decisions_own_mean() -> None:
    # About the means -100 and 5: -10, 10, -5, 5.
    trials = [trial([-110.0, -90.0]), trial([0.0, 10.0])]
    assert spread_of(trials) == pytest.approx(((100 + 100 + 25 + 25) / 4) ** 0.5)


@pytest.mark.parametrize("follow", list(Follow))
def test_a_problem_with_a_known_optimum_is_solved(follow: Follow) -> None:
    parameters = ExpertParameters(
        episode_count=2,
        sampled_frac=0.15,
        ahead_s=inf,
        follow=follow,
        temperature=0.5,
        rate=1e-2,
        most_divergence=0.5,
        batch_count=8,
    )
    before_s, found_s = solved_s(ExpertIteration(net_that_prefers_long_jobs(), parameters), 15)
    assert before_s > 2 * best_s()
    assert found_s == pytest.approx(best_s(), rel=1e-3)


def test_figures_say_what_was_tried_and_nothing_of_a_critic() -> None:
    net = fresh_net()
    before = [weight.clone() for weight in net.parameters()]
    figures = Improvement(ExpertIteration(net, QUICK), episodes(job_count=60)).iterate()
    assert 0 < figures.ahead_count < figures.decision_count
    assert figures.regret_s is not None
    assert figures.regret_s >= 0.0
    assert figures.explained_frac is None
    assert figures.divergence > 0.0
    assert not all(torch.equal(a, b) for a, b in zip(before, net.parameters(), strict=True))


def test_a_training_that_tries_nothing_is_refused() -> None:
    learner = ExpertIteration(fresh_net(), replace(QUICK, sampled_frac=0.0))
    with pytest.raises(TrainError, match="no decision was tried"):
        Improvement(learner, episodes(job_count=20)).iterate()
