"""Models of kind graph, from the file to the engine's choice."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from roost_engine.domain.errors import PolicyError
from roost_engine.domain.events import JobQueued, NodeSeen
from roost_engine.engine import Engine, EngineConfig
from roost_engine.placement.wide_search import WideSearch
from roost_engine.plugins.plugins import Policies
from roost_engine.scoring import graph_columns as names
from roost_engine.scoring.graph_score import GraphScore
from roost_engine.scoring.graph_tree import batch_of
from roost_engine.testing.builders import job, node, nvswitch, placed, topology
from roost_formats.models.loader import kind_of, load_model
from roost_formats.models.manifest import Manifest, manifest_path
from roost_formats.models.score import (
    BUILTIN_MODEL,
    GRAPH_MODEL,
    OnnxGraphModel,
    load_onnx_graph,
    load_score_policy,
)
from roost_formats.models.signature import GRAPH


def engine_with(score: GraphScore) -> Engine:
    engine = Engine(EngineConfig(), Policies(score=score, candidates=WideSearch()))
    for number in range(40):
        engine.step(NodeSeen(at_s=0.0, node=node(f"n{number:02d}", 8, rack=f"r{number // 8}")))
        engine.step(topology(f"n{number:02d}", nvswitch()))
    return engine


def test_the_shipped_graph_model_is_named_by_the_key_of_score_models() -> None:
    policy, fault = load_score_policy("graph")
    assert fault is None
    assert isinstance(policy, GraphScore)
    assert policy.name.startswith("onnx:")


def test_a_path_is_loaded_as_the_kind_that_its_manifest_states(tmp_path: Path) -> None:
    for path in (GRAPH_MODEL, manifest_path(GRAPH_MODEL)):
        shutil.copy(path, tmp_path / path.name)
    policy, fault = load_score_policy(str(tmp_path / "graph.onnx"))
    assert fault is None
    assert isinstance(policy, GraphScore)
    assert (kind_of(GRAPH_MODEL), kind_of(BUILTIN_MODEL)) == ("graph", "score")


@pytest.mark.parametrize("text", ["no json", "[]", '{"kind": 7}'])
def test_a_wrong_manifest_leaves_the_heuristic(tmp_path: Path, text: str) -> None:
    (tmp_path / "m.json").write_text(text)
    (tmp_path / "m.onnx").write_bytes(b"")
    policy, fault = load_score_policy(str(tmp_path / "m.onnx"))
    assert policy.name == "heuristic"
    assert fault is not None


def test_a_model_for_other_columns_is_refused(tmp_path: Path) -> None:
    shutil.copy(GRAPH_MODEL, tmp_path / "graph.onnx")
    body = json.loads(manifest_path(GRAPH_MODEL).read_text())
    body["columns"]["racks"][0] = "busy_frac"
    (tmp_path / "graph.json").write_text(json.dumps(body))
    with pytest.raises(PolicyError, match="trained for schema"):
        load_onnx_graph(tmp_path / "graph.onnx", lambda: 0.0)


def test_it_places_jobs_of_every_size() -> None:
    engine = engine_with(load_onnx_graph(GRAPH_MODEL, lambda: 0.0))
    for number, (gpus, nodes) in enumerate([(1, 1), (2, 1), (8, 1), (8, 4), (4, 12)]):
        spec = job(str(number), gpus=gpus, nodes=nodes)
        assert placed(engine.step(JobQueued(at_s=float(number), job=spec)))
    assert engine.fallback_count == 0


def test_levels_that_are_not_asked_about_have_no_items() -> None:
    model = OnnxGraphModel(load_model(GRAPH_MODEL, GRAPH.kind, lambda: 0.0))
    rows = np.full((3, len(names.POD_COLUMNS)), 0.5, dtype=np.float32)
    rest = np.zeros((3, names.HIDDEN), dtype=np.float32)
    answer = model.ask(batch_of({names.PODS: rows, names.POD_REST: rest}))
    assert answer[names.POD_EMBEDDINGS].shape == (3, names.HIDDEN)
    assert answer[names.GPU_EMBEDDINGS].shape == (0, names.HIDDEN)
    assert answer[names.SCORE].shape == (0,)


def test_a_slow_model_is_taken_out_of_service_and_the_heuristic_decides() -> None:
    times = iter(range(10_000))
    engine = engine_with(load_onnx_graph(GRAPH_MODEL, lambda: float(next(times))))
    for number in range(4):
        assert placed(engine.step(JobQueued(at_s=1.0, job=job(str(number)))))
    assert engine.fallback_count > 0


def test_shipped_models_are_small() -> None:
    files = [*BUILTIN_MODEL.parent.glob("*.onnx"), *BUILTIN_MODEL.parent.glob("*.json")]
    assert sum(path.stat().st_size for path in files) <= 2_000_000


def test_the_shipped_card_says_how_it_was_made() -> None:
    card = Manifest.from_json(manifest_path(GRAPH_MODEL).read_text(), GRAPH).card
    assert str(card["training_command"]).startswith("roost-train graph --seed")
