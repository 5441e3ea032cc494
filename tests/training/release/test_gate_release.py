"""The gate slot from the command line to a model that decides in a simulation."""

import tests.training.torch_library  # noqa: F401  (skips this module where torch is missing)

# isort: split
import json
from pathlib import Path

import numpy as np
import pytest
import torch

from roost_engine.domain.errors import PolicyError
from roost_engine.gate.model_gate import ModelGate
from roost_engine.gate.offer_features import CONTEXT_COLUMNS, OFFER_COLUMNS
from roost_engine.plugins.plugins import Plugins
from roost_engine.policies.canary import Slot
from roost_engine.scoring.heuristic import HeuristicScore
from roost_formats.models.gate import load_onnx_gate
from roost_sim.catalogue.compositions import find_policy
from roost_sim.clusters.cluster_file import load_cluster
from roost_sim.runs.simulation import Run, simulate
from roost_sim.traces.csv_file import write_csv
from roost_sim.traces.trace import Trace, make_trace
from roost_sim.worlds.world_spec import Speed, WorldSpec
from roost_train.cli import main
from roost_train.environments.decisions import Decision
from roost_train.errors import TrainError
from roost_train.networks.slot_net import SlotNet, SlotSizes
from roost_train.release.gate_release import write_gate
from roostd.app.promotion.promoted_policies import plugins_with
from roostd.config.config import Config
from roostd.config.policy_names import FOLDER
from roostd.config.policy_names import find_policy as find_in_daemon

pytestmark = pytest.mark.torch

SIZES = SlotSizes(option=len(OFFER_COLUMNS), context=len(CONTEXT_COLUMNS))

CONFIG = """
iterations: 1
imitated_episodes: 2
validated_episodes: 2
validate_every: 1
episodes: {job_count: 60, warm_count: 4, speed: measured, teacher: fifo+consolidation+delay}
imitation: {passes: 1}
ppo: {episode_count: 2, passes: 1, critic_iterations: 0, batch_count: 16}
"""


CLUSTER = """
tiers:
  node: {gbytes_per_s: 300}
  rack: {gbytes_per_s: 25}
  pod: {gbytes_per_s: 25, oversubscription: 4}
node_kinds: {big: {links: a100x8}}
racks: {r0: {nodes: {big: 2}}, r1: {nodes: {big: 2}}, r2: {nodes: {big: 2}}}
"""


def nodes_and_pairs(count: int = 120) -> Trace:
    """Jobs of one node, and of two, which are in one rack or in two."""
    rng = np.random.default_rng(3)
    gpus = [8, 8, 16] * (count // 3)
    times_s = [np.cumsum(rng.exponential(900.0, count)), rng.exponential(3_600.0, count)]
    return make_trace("made up", times_s[0].tolist(), times_s[1].tolist(), gpus)


def test_from_the_command_line_to_the_slot(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_csv(nodes_and_pairs(), tmp_path / "jobs.csv")
    (tmp_path / "racks.yaml").write_text(CLUSTER)
    (tmp_path / "short.yaml").write_text(CONFIG)
    out = tmp_path / FOLDER  # of a roostd whose state is in tmp_path
    argv = ["selector", "--slot", "gate", "--trace", str(tmp_path / "jobs.csv"), "--json"]
    argv += ["--cluster", str(tmp_path / "racks.yaml"), "--out", str(out)]
    argv += ["--config", str(tmp_path / "short.yaml")]
    assert main(argv) == 0
    model = out / "gate.onnx"
    assert json.loads(capsys.readouterr().out)["model"] == str(model)
    # roostd, `roostctl policy promote gate:gate`; on a fault every offer is taken.
    named = find_in_daemon("gate:gate", tmp_path)
    assert (named.slot, named.path) == (Slot.GATE, str(model))
    plugins, models = plugins_with(named, Config(), (), Plugins())
    gate = plugins.policies(HeuristicScore(), models=models).gate
    assert isinstance(gate, ModelGate)
    assert plugins.gate_model == gate.name == load_onnx_gate(model).name
    # A simulation, under the name of the file.
    found = find_policy(f"fifo+consolidation+patient-model:{model}")
    cluster, world = load_cluster(str(tmp_path / "racks.yaml")), WorldSpec(speed=Speed.MEASURED)
    run = Run(trace=nodes_and_pairs(), cluster=cluster, policy=found, world=world)
    report = simulate(run)
    assert all(job.ended_s is not None for job in report.outcome.jobs)


def saved() -> list[Decision]:
    rng, mask = np.random.default_rng(0), np.array([True, True])
    offers = rng.random((20, 1, len(OFFER_COLUMNS)), dtype=np.float32)
    contexts = rng.random((20, len(CONTEXT_COLUMNS)), dtype=np.float32)
    return [Decision(one, line, mask, 0) for one, line in zip(offers, contexts, strict=True)]


def test_a_damaged_model_is_refused(tmp_path: Path) -> None:
    torch.manual_seed(0)
    path = write_gate(SlotNet(SIZES), saved(), {"made": "by a test"}, tmp_path)
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(PolicyError, match="sha256"):
        load_onnx_gate(path)


def test_without_a_decision_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(TrainError, match="no decision to compare"):
        write_gate(SlotNet(SIZES), [], {}, tmp_path)
    assert not list(tmp_path.iterdir())
