"""Turning a network of the placement slot that reads the graph into a model of kind graph."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from roost_engine.scoring import graph_columns as names
from roost_engine.scoring.graph_tree import batch_of
from roost_formats.models.loader import open_session
from roost_formats.models.onnx_file import read_onnx
from roost_formats.models.score import load_onnx_graph
from roost_formats.models.signature import GRAPH
from roost_train.environments.decisions import Decision
from roost_train.export.numpy_policy import run_all
from roost_train.networks.graph_net import GraphNet
from roost_train.networks.graph_onnx import MODEL_FILE, draw_canary, export_graph
from roost_train.networks.graph_placement_net import GraphPlacementNet
from roost_train.release.slot_release import Readings, compare, write_slot_model


def write_graph_placement(
    net: GraphPlacementNet, saved: Sequence[Decision], card: Mapping[str, object], folder: Path
) -> Path:
    """Write graph.onnx and graph.json; see slot_release, also for what it raises.

    Args:
        net: the network.
        saved: decisions on which the readings must agree.
        card: what the manifest says of data, training and results.
        folder: made if it is missing.
    """
    whole, canary = net.graph_net(), draw_canary()
    model = export_graph(whole)
    return write_slot_model(
        folder / MODEL_FILE,
        model,
        GRAPH,
        names.INPUT_COLUMNS,
        (canary, whole.answer(canary)),
        card,
        readings=_readings(whole, model, saved),
        features_version=GRAPH.schema_version,
        load=lambda path: load_onnx_graph(path, lambda: 0.0),
    )


def _readings(whole: GraphNet, model: bytes, saved: Sequence[Decision]) -> Readings:
    """Compare what torch, numpy and ONNX Runtime answer to decisions; see slot_release."""
    graph, session = read_onnx(model, GRAPH), open_session(model, GRAPH)
    width = len(names.CANDIDATE_COLUMNS)

    def answers(one: Decision) -> tuple[NDArray[np.float32], ...]:
        given = {names.CANDIDATES: one.jobs[:, :width], names.CONTEXT: one.jobs[:, width:]}
        call = {name: part.copy() for name, part in batch_of(given).items()}  # torch wants its own
        found = whole.answer(call), run_all(graph, call), session.run(call)
        return tuple(np.asarray(each[names.SCORE]).reshape(-1) for each in found)

    return compare(map(answers, saved))
