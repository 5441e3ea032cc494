"""What each part of the improvement is worth: variants, pairs and intervals."""

import tests.training.torch_library  # noqa: F401  (skips this module where torch is missing)

# isort: split
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.training.environments.small_episodes import cluster, trace

from roost_train.errors import TrainError
from roost_train.improvement.imitation import ImitationParameters
from roost_train.improvement.ppo import PpoParameters
from roost_train.selector.ablation import (
    FULL,
    SUPERVISED,
    TEACHER,
    Ablation,
    as_table,
    effects,
    variants,
)
from roost_train.selector.config import EpisodeNumbers, SelectorConfig

pytestmark = pytest.mark.torch

SHORT = SelectorConfig(
    episodes=EpisodeNumbers(job_count=24, warm_count=4, window_count=8),
    imitation=ImitationParameters(passes=1),
    imitated_episodes=1,
    ppo=PpoParameters(episode_count=1, passes=2, critic_iterations=0, explore_frac=0.1),
    iterations=1,
    validated_episodes=1,
)


def test_each_variant_lacks_one_part() -> None:
    found = variants(SHORT)
    assert list(found) == [FULL, "without replay", "without exploration", "without critic"]
    assert found["without replay"].ppo == replace(SHORT.ppo, passes=1)
    assert found["without exploration"].ppo == replace(SHORT.ppo, explore_frac=0.0)
    assert found["without critic"].ppo == replace(SHORT.ppo, critic=False)


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        (replace(SHORT, iterations=0), "an iteration or more"),
        (replace(SHORT, ppo=replace(SHORT.ppo, explore_frac=0.0)), "explore_frac"),
        (replace(SHORT, ppo=replace(SHORT.ppo, passes=1)), "passes"),
    ],
)
def test_a_part_that_is_not_there_cannot_be_left_out(config: SelectorConfig, problem: str) -> None:
    with pytest.raises(TrainError, match=problem):
        variants(config)


def test_an_ablation_continues_and_comes_out_the_same(tmp_path: Path) -> None:
    told = list[str]()
    ablation = Ablation(trace(), (cluster(),), SHORT, tmp_path, told.append)
    first = ablation.run([0], 2)
    assert set(first) == {TEACHER, SUPERVISED, *variants(SHORT)}
    assert {lines.shape for lines in first.values()} == {(1, 2)}
    told.clear()
    again = Ablation(trace(), (cluster(),), SHORT, tmp_path, told.append).run([0], 2)
    assert all(np.array_equal(lines, again[name]) for name, lines in first.items())
    assert not any(line.startswith("imitation") for line in told)


def test_effects_are_paired_by_seed_and_episode() -> None:
    level = np.random.default_rng(0).normal(0.0, 5.0, (3, 20))  # what the draw of the jobs does
    logs = {FULL: level, "worse": level + np.log(1.1), "same": level}
    worse, same = effects(logs, FULL)
    assert (worse.variant, round(worse.ratio, 6)) == ("worse", 1.1)
    assert worse.low == pytest.approx(worse.high) == pytest.approx(1.1)
    assert (same.ratio, same.low, same.high) == (1.0, 1.0, 1.0)
    assert "worse  1.100 [1.100, 1.100]" in as_table([worse, same], FULL)
