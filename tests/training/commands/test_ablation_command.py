"""roost-train ablate: options that cannot be used, and the table."""

import tests.training.torch_library  # noqa: F401  (skips this module where torch is missing)

# isort: split
import json
from pathlib import Path

import pytest
from tests.training.commands.test_evolution_command import ONE_NODE
from tests.training.environments.small_episodes import trace

from roost_sim.traces.csv_file import write_csv
from roost_train.cli import main

pytestmark = pytest.mark.torch

CONFIG = """
iterations: 1
imitated_episodes: 1
validated_episodes: 1
episodes: {job_count: 40, warm_count: 4, window_count: 8, loads: [1.3]}
imitation: {passes: 1}
ppo: {episode_count: 1, passes: 2, critic_iterations: 0, explore_frac: 0.1}
"""


def argv(folder: Path) -> list[str]:
    write_csv(trace(), folder / "jobs.csv")
    (folder / "short.yaml").write_text(CONFIG, encoding="utf-8")
    (folder / "cluster.yaml").write_text(ONE_NODE, encoding="utf-8")
    words = ["ablate", "--trace", str(folder / "jobs.csv")]
    words += ["--cluster", str(folder / "cluster.yaml")]
    return [*words, "--config", str(folder / "short.yaml"), "--out", str(folder / "out")]


def test_the_result_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*argv(tmp_path), "--seeds", "1", "--judged", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    named = [one["variant"] for one in found["full"]]
    assert named == [
        "teacher",
        "supervised only",
        "without replay",
        "without exploration",
        "without critic",
    ]
    assert all(one["ratio"] > 0 for one in found["supervised only"])


def test_nothing_to_judge_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*argv(tmp_path), "--judged", "0"]) == 2
    assert "--judged 0: want 1 or more" in capsys.readouterr().err
