"""Job-aware exploration: a starving job is served at times, whatever the policy says."""

import tests.training.torch_library  # noqa: F401  (skips this module where torch is missing)

# isort: split
from dataclasses import replace
from math import log, log1p

import numpy as np
import pytest
from tests.training.burst import burst, fresh_net
from tests.training.environments.small_episodes import episodes, halves
from tests.training.environments.test_decisions import decision
from tests.training.networks.test_slot_net import that_spreads

from roost_engine.queue.selector_columns import JOB_NUMBERS
from roost_train.environments.decisions import Decision
from roost_train.errors import TrainError
from roost_train.improvement.exploration import forced_action, played_logs
from roost_train.improvement.improvement import Improvement
from roost_train.improvement.ppo import Ppo, PpoParameters
from roost_train.improvement.rollout import play
from roost_train.improvement.selector_agent import SelectorAgent

pytestmark = pytest.mark.torch


def waiting(ratios: list[float], action: int = 0) -> Decision:
    """A decision among jobs that have waited so many times what they are expected to run."""
    one = decision(len(ratios), action=action)
    column = JOB_NUMBERS.index("waited_per_rest") - len(JOB_NUMBERS)
    one.jobs[:, column] = [log1p(ratio) / 8.0 for ratio in ratios]
    return one


def forced(one: Decision) -> int | None:
    return forced_action(one.jobs, one.mask)


def test_the_job_that_starves_most_is_forced() -> None:
    assert forced(waiting([3.0, 12.0, 40.0])) == 2
    assert forced(waiting([3.0, 9.9, 0.0])) is None


def test_a_job_that_may_not_be_chosen_is_not_forced_and_neither_is_an_only_one() -> None:
    one = waiting([3.0, 12.0, 40.0])
    mask = np.array([True, True, False, False])
    assert forced_action(one.jobs, mask) == 1
    assert forced_action(one.jobs, np.array([False, True, False, False])) is None


def test_the_probability_of_what_was_played_by_hand() -> None:
    # The policy gives 0.2 to what was played; half of the draws in a bad state are forced.
    logs = np.log([0.2, 0.2, 0.2])
    bad_forced, bad_other, good = waiting([1, 20], 1), waiting([1, 20], 0), waiting([1, 2], 0)
    found = played_logs(logs, [bad_forced, bad_other, good], 0.5)
    assert found.tolist() == pytest.approx([log(0.5 * 0.2 + 0.5), log(0.5 * 0.2), log(0.2)])
    assert played_logs(logs, [bad_forced, bad_other, good], 0.0) is logs


def test_an_agent_that_explores_serves_starving_jobs_more_often() -> None:
    drawn, net = episodes(job_count=60, loads=(2.0,)), fresh_net()

    def shares(explore_frac: float) -> float:
        played = play(drawn, range(4), SelectorAgent(net, 1, explore_frac))
        bad = [
            one.action == forced(one)
            for trajectory in played
            for one in trajectory.decisions
            if forced(one) is not None
        ]
        return float(np.mean(bad))

    assert shares(1.0) == 1.0
    assert shares(0.5) > shares(0.0)


def test_ppo_explores_and_other_slots_refuse() -> None:
    parameters = PpoParameters(
        episode_count=2, passes=1, batch_count=32, critic_iterations=0, explore_frac=0.4
    )
    figures = Improvement(Ppo(fresh_net(), parameters), burst()).iterate()
    assert np.isfinite(figures.divergence)
    assert figures.divergence < 0.5  # forcing is no change of the policy
    with pytest.raises(TrainError, match="set explore_frac to 0"):
        Improvement(Ppo(that_spreads(), replace(parameters)), halves()).iterate()
