"""Rewards by hand: two jobs on four GPUs."""

import numpy as np
import pytest
from tests.training.environments.test_paused_run import played, run_of, three_jobs

from roost_sim.traces.trace import make_trace
from roost_train.environments.paused_run import PausedRun
from roost_train.environments.rewards import Reward


def total_of(reward: Reward) -> float:
    paused = PausedRun(run_of(three_jobs()), reward)
    return played(paused, lambda choices: int(np.argmax(choices.mask)))[0]


def test_completion_counts_each_jobs_time_in_the_system() -> None:
    # Ends at 100, 150 and 160 s, submissions at 0, 1 and 2 s.
    assert total_of(Reward.COMPLETION) == pytest.approx(-(100 + 149 + 158))


def test_progress_is_one_for_each_finished_job() -> None:
    assert total_of(Reward.PROGRESS) == pytest.approx(3.0)


def test_throughput_is_work_done_less_twice_the_work_that_waits() -> None:
    done_gpu_s = 100 * 4 + 50 * 4 + 10 * 1
    waited_gpu_s = 99 * 4 + 148 * 1
    assert total_of(Reward.THROUGHPUT) == pytest.approx((done_gpu_s - 2 * waited_gpu_s) / 4)


def test_a_run_without_waits_has_the_reward_of_its_work() -> None:
    paused = PausedRun(run_of(make_trace("made up", [0.0], [8.0], [2])), Reward.THROUGHPUT)
    assert played(paused, lambda choices: 0)[0] == pytest.approx(8 * 2 / 4)
