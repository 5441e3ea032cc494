"""The gymnasium environment keeps gymnasium's rules."""

import warnings

import numpy as np
import pytest
from tests.training.environments.small_episodes import episodes

gymnasium = pytest.importorskip("gymnasium", reason="gymnasium not installed (the train extra)")

from gymnasium.utils.env_checker import check_env  # noqa: E402

from roost_train.environments.order_environment import OrderEnvironment  # noqa: E402


def environment() -> OrderEnvironment:
    return OrderEnvironment(episodes(job_count=20, window_count=8))


def test_gymnasiums_checker_passes() -> None:
    with warnings.catch_warnings():
        # The checker advises against spaces without bounds; features are finite, not bounded.
        warnings.filterwarnings("ignore", message=".*Box observation space (min|max)imum value.*")
        warnings.filterwarnings("ignore", message=".*not within the observation space.*")
        check_env(environment(), skip_render_check=True)


def test_an_episode_ends_after_every_job() -> None:
    env = environment()
    observation, info = env.reset(seed=3)
    total, steps, done = 0.0, 0, False
    while not done:
        assert np.array_equal(info["action_mask"], observation["mask"])
        observation, reward, done, truncated, info = env.step(np.argmax(observation["mask"]))
        total, steps = total + reward, steps + 1
        assert not truncated
    assert steps >= 20
    assert total < 0.0


def test_a_masked_action_is_taken_as_the_first_allowed_one() -> None:
    first, second = environment(), environment()
    observation, _ = first.reset(seed=1)
    second.reset(seed=1)
    allowed = np.argmax(observation["mask"])
    forbidden = np.argmin(observation["mask"])
    left, right = first.step(allowed), second.step(forbidden)
    assert left[1] == right[1]
    assert np.array_equal(left[0]["jobs"], right[0]["jobs"])


def test_reset_without_a_seed_goes_on_to_the_next_episode() -> None:
    env = environment()
    first = env.reset()[0]["jobs"]
    assert not np.array_equal(first, env.reset()[0]["jobs"])
