"""The gymnasium environments of the three slots keep gymnasium's rules."""

import threading
import warnings

import numpy as np
import pytest
from tests.training.environments.small_episodes import episodes, gangs

gymnasium = pytest.importorskip("gymnasium", reason="gymnasium not installed (the train extra)")

from gymnasium.utils.env_checker import check_env  # noqa: E402

from roost_train.environments import slot_environment  # noqa: E402
from roost_train.environments.slot_environment import SlotEnvironment  # noqa: E402
from roost_train.environments.slot_run import Slot  # noqa: E402
from roost_train.errors import TrainError  # noqa: E402


def environment(slot: Slot = Slot.ORDER) -> SlotEnvironment:
    if slot is Slot.GATE:
        return SlotEnvironment(gangs(window_count=8))
    return SlotEnvironment(episodes(job_count=20, window_count=8, slot=slot))


@pytest.mark.parametrize("slot", list(Slot))
def test_gymnasiums_checker_passes(slot: Slot) -> None:
    with warnings.catch_warnings():
        # The checker advises against spaces without bounds; features are finite, not bounded.
        warnings.filterwarnings("ignore", message=".*Box observation space (min|max)imum value.*")
        warnings.filterwarnings("ignore", message=".*not within the observation space.*")
        env = environment(slot)
        check_env(env, skip_render_check=True)
        env.close()


@pytest.mark.parametrize("slot", list(Slot))
def test_an_episode_ends_after_every_job(slot: Slot) -> None:
    env = environment(slot)
    observation, info = env.reset(seed=3)
    total, steps, done = 0.0, 0, False
    while not done:
        assert np.array_equal(info["action_mask"], observation["mask"])
        assert env.observation_space.contains(observation)
        observation, reward, done, truncated, info = env.step(np.argmax(observation["mask"]))
        total, steps = total + reward, steps + 1
        assert not truncated
    assert steps >= (5 if slot is Slot.ORDER else 2)
    assert total < 0.0


@pytest.mark.parametrize("slot", [Slot.ORDER, Slot.PLACEMENT])
def test_a_masked_action_is_taken_as_the_first_allowed_one(slot: Slot) -> None:
    first, second = environment(slot), environment(slot)
    observation, _ = first.reset(seed=1)
    second.reset(seed=1)
    allowed = np.argmax(observation["mask"])
    forbidden = np.argmin(observation["mask"])
    assert observation["mask"][allowed]
    assert not observation["mask"][forbidden]
    left, right = first.step(allowed), second.step(forbidden)
    assert left[1] == right[1]
    assert np.array_equal(left[0]["options"], right[0]["options"])
    first.close()
    second.close()


def test_episodes_without_a_decision_come_to_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slot_environment, "_MOST_EMPTY", 3)
    env = SlotEnvironment(episodes(job_count=5, warm_count=6, window_count=8))
    with pytest.raises(TrainError, match="3 episodes had no decision: take more jobs"):
        env.reset(seed=0)


def test_reset_without_a_seed_continues_with_the_next_episode() -> None:
    env = environment()

    def times_s() -> list[float]:
        env.reset()
        return [float(env.step(np.int64(0))[4]["at_s"]) for _ in range(4)]

    assert times_s() != times_s()


@pytest.mark.parametrize("slot", [Slot.PLACEMENT, Slot.GATE])
def test_a_closed_environment_leaves_no_thread(slot: Slot) -> None:
    before = set(threading.enumerate())
    env = environment(slot)
    env.reset(seed=0)
    env.step(np.int64(0))
    env.reset(seed=1)
    env.close()
    env.close()
    for one in set(threading.enumerate()) - before:
        one.join(60.0)
        assert not one.is_alive()
