"""The placement slot that reads the graph, from the command line to a simulation."""

import tests.training.torch_library  # noqa: F401  (skips this module where torch is missing)

# isort: split
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.training.environments.small_episodes import cluster, trace

from roost_formats.models.score import load_score_policy
from roost_sim.catalogue.compositions import find_policy
from roost_sim.runs.simulation import Run, simulate
from roost_sim.traces.csv_file import write_csv
from roost_train.cli import main
from roost_train.environments.decisions import Decision
from roost_train.environments.slot_views import GRAPH_PLACEMENT_COLUMNS
from roost_train.errors import TrainError
from roost_train.networks.graph_placement_net import GraphPlacementNet
from roost_train.release.graph_placement_release import write_graph_placement

pytestmark = pytest.mark.torch

CONFIG = """
warm_start: residual
improvement: expert
iterations: 1
validated_episodes: 2
validate_every: 1
episodes:
  {slot: placement, reads: graph, job_count: 30, warm_count: 4, speed: measured,
   compute_scale: 0.5, teacher: fifo+wide-strict+open}
expert: {episode_count: 2, sampled_frac: 0.5, candidate_count: 2, passes: 1, ahead_s: 3600}
"""


def test_it_begins_at_the_heuristic_placement_and_becomes_a_model_of_kind_graph(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_csv(trace(), tmp_path / "jobs.csv")
    (tmp_path / "short.yaml").write_text(CONFIG)
    argv = ["selector", "--trace", str(tmp_path / "jobs.csv"), "--json", "--cluster", "small"]
    argv += ["--config", str(tmp_path / "short.yaml"), "--out", str(tmp_path / "out")]
    assert main(argv) == 0
    result, model = json.loads(capsys.readouterr().out), tmp_path / "out" / "graph.onnx"
    assert result["model"] == str(model)
    lines = [json.loads(line) for line in (tmp_path / "out" / "log.jsonl").read_text().splitlines()]
    first = next(line["validation"] for line in lines if "validation" in line)
    assert (first["iteration"], first["to_teacher"], first["to_teacher_error"]) == (0, 1.0, 0.0)
    iteration = next(line["iteration"] for line in lines if "iteration" in line)
    assert iteration["ahead_count"] > 0
    assert load_score_policy(str(model), lambda: 0.0)[1] is None
    policy = find_policy(f"fifo+graph-strict-4:{model}+open")
    report = simulate(Run(trace=trace(40), cluster=cluster(), policy=policy))
    assert all(job.ended_s is not None for job in report.outcome.jobs)


def test_a_model_of_a_net_that_has_learned_nothing_decides_as_the_heuristic(tmp_path: Path) -> None:
    torch.manual_seed(0)
    drawn = np.random.default_rng(0).random((6, len(GRAPH_PLACEMENT_COLUMNS))).astype(np.float32)
    saved = [Decision(drawn, np.zeros(3, dtype=np.float32), np.array([True] * 6 + [False]), 0)]
    path = write_graph_placement(GraphPlacementNet(), saved, {"made": "by a test"}, tmp_path)
    ends = []
    for placement in ("strict", "wide-strict", f"graph-strict:{path}"):
        policy = find_policy(f"fifo+{placement}+open")
        outcome = simulate(Run(trace=trace(150), cluster=cluster(), policy=policy)).outcome
        ends.append([job.ended_s for job in outcome.jobs])
    assert ends[0] == ends[1] == ends[2]


def test_without_a_decision_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(TrainError, match="no decision to compare"):
        write_graph_placement(GraphPlacementNet(), [], {}, tmp_path)
    assert not list(tmp_path.iterdir())
