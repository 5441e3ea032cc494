"""The placement slot from the command line to a model that scores in a simulation."""

import tests.training.torch_library  # noqa: F401  (skips this module where torch is missing)

# isort: split
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.training.environments.small_episodes import cluster, trace

from roost_engine.cluster.features import COLUMNS
from roost_formats.models.score import load_score_policy
from roost_sim.catalogue.compositions import find_policy
from roost_sim.runs.simulation import Run, simulate
from roost_sim.traces.csv_file import write_csv
from roost_train.cli import main
from roost_train.environments.decisions import Decision
from roost_train.errors import TrainError
from roost_train.networks.placement_net import PlacementNet
from roost_train.release.placement_release import write_placement

pytestmark = pytest.mark.torch

CONFIG = """
iterations: 1
imitated_episodes: 2
validated_episodes: 2
validate_every: 1
episodes: {job_count: 30, warm_count: 4}
imitation: {passes: 1}
ppo: {episode_count: 2, passes: 1, critic_iterations: 0, batch_count: 16}
"""


def test_from_the_command_line_to_the_slot(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_csv(trace(), tmp_path / "jobs.csv")
    (tmp_path / "short.yaml").write_text(CONFIG)
    argv = ["selector", "--slot", "placement", "--trace", str(tmp_path / "jobs.csv"), "--json"]
    argv += ["--cluster", "small", "--config", str(tmp_path / "short.yaml")]
    assert main([*argv, "--out", str(tmp_path / "out")]) == 0
    result = json.loads(capsys.readouterr().out)
    model = tmp_path / "out" / "placement.onnx"
    assert result["model"] == str(model)
    # roostd, `policy.model: PATH`: the heuristic answers where the file is refused.
    policy, problem = load_score_policy(str(model), lambda: 0.0)
    assert problem is None
    assert policy.name.startswith("onnx:")
    # A simulation, under the name of the file.
    found = find_policy(f"fifo+consolidation:{model}+open")
    report = simulate(Run(trace=trace(40), cluster=cluster(), policy=found))
    assert all(job.ended_s is not None for job in report.outcome.jobs)


def test_a_damaged_model_is_refused_and_the_heuristic_answers(tmp_path: Path) -> None:
    torch.manual_seed(0)
    options = np.random.default_rng(0).random((6, len(COLUMNS))).astype(np.float32)
    mask = np.array([True] * 6 + [False])
    saved = [Decision(options, np.zeros(3, dtype=np.float32), mask, 0)]
    path = write_placement(PlacementNet(), saved, {"made": "by a test"}, tmp_path)
    assert load_score_policy(str(path))[1] is None
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    policy, problem = load_score_policy(str(path))
    assert policy.name == "heuristic"
    assert "the heuristic answers instead" in str(problem)


def test_without_a_decision_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(TrainError, match="no decision to compare"):
        write_placement(PlacementNet(), [], {}, tmp_path)
    assert not list(tmp_path.iterdir())
