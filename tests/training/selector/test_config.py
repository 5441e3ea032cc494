import tests.training.torch_library  # noqa: F401  (skips this module where torch is missing)

# isort: split
from pathlib import Path

import pytest
import yaml

from roost_train.environments.rewards import Reward
from roost_train.errors import TrainError
from roost_train.selector.config import SelectorConfig, as_document, read_config

pytestmark = pytest.mark.torch


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "selector.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_keys_that_are_left_out_have_their_defaults(tmp_path: Path) -> None:
    text = "iterations: 3\nepisodes: {loads: [1, 1.5], reward: progress}\nppo: {rate: 1, clip: .1}"
    found = read_config(written(tmp_path, text))
    assert found.iterations == 3
    assert found.episodes.loads == (1.0, 1.5)
    assert found.episodes.reward is Reward.PROGRESS
    assert (found.ppo.rate, found.ppo.clip) == (1.0, 0.1)
    assert found.imitation == SelectorConfig().imitation
    assert read_config(written(tmp_path, "")) == read_config(None) == SelectorConfig()


def test_a_written_configuration_is_read_back(tmp_path: Path) -> None:
    document = as_document(SelectorConfig())
    assert read_config(written(tmp_path, yaml.safe_dump(document))) == SelectorConfig()


def test_an_endless_horizon_can_be_written(tmp_path: Path) -> None:
    found = read_config(written(tmp_path, "ppo: {horizon_s: .inf}"))
    assert found.ppo.horizon_s == float("inf")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("iteration: 3", "1: iteration: unknown key; known are episodes"),
        ("\nppo:\n  rat: 3", "3: ppo.rat: unknown key"),
        ("iterations: many", "1: iterations: want a whole number of 0 or more, got 'many'"),
        ("iterations: true", "1: iterations: want a whole number of 0 or more, got True"),
        ("iterations: -3", "1: iterations: want a whole number of 0 or more, got -3"),
        (f"iterations: 1{400 * '0'}", "1: iterations: want a whole number of 0 or more"),
        ("iterations: 1\niterations: 2", "2: iterations: "),
        ("ppo: {clip: -1}", "1: ppo.clip: want a number of 0 or more, got -1"),
        ("ppo: {clip: .nan}", "1: ppo.clip: want a number of 0 or more"),
        ("ppo: {critic: off}", "1: ppo.critic: want true or false, got 'off'"),
        ("ppo: 3", "1: ppo: want a mapping, got 3"),
        ("episodes:\n  loads: 1.1", "2: episodes.loads: want a list of numbers"),
        ("episodes: {loads: [1, a]}", "1: episodes.loads: want a number of 0 or more, got 'a'"),
        ("episodes: {reward: money}", "reward: want one of completion, progress, throughput"),
        ("warm_start: none", "warm_start: want one of imitation, residual, got 'none'"),
        ("[1]", "want keys with values"),
        ("a: [", "selector.yaml:1: "),
        ("a: " + 100 * "[", "nested deeper than 32 levels"),
    ],
)
def test_what_is_wrong_is_told(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(TrainError, match=r"selector\.yaml") as caught:
        read_config(written(tmp_path, text))
    assert told in str(caught.value)
