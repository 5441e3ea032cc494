"""Turning a trained graph network into the two files that a daemon loads: model and manifest."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from roost_engine.scoring import graph_columns as names
from roost_formats.models.score import load_onnx_graph
from roost_formats.models.signature import GRAPH
from roost_train.export.model_files import library_versions, write_model_files
from roost_train.export.onnx_export import OPSET
from roost_train.graph.training import GraphFigures, GraphHyperParameters
from roost_train.networks.graph_net import GraphNet
from roost_train.networks.graph_onnx import MODEL_FILE, draw_canary, export_graph


def write_graph(
    net: GraphNet,
    parameters: GraphHyperParameters,
    figures: GraphFigures,
    folder: Path,
    command: str,
) -> Path:
    """Write graph.onnx and graph.json, and load them as the daemon would.

    Args:
        net: the trained network.
        parameters: of its training.
        figures: on held-out decisions.
        folder: made if it is missing.
        command: the command that repeats the training.

    Raises:
        PolicyError: the daemon would refuse the model.
        OSError: the folder cannot be written.
    """
    model = export_graph(net)
    canary = draw_canary()
    path, card = folder / MODEL_FILE, _card(parameters, figures, command)
    answers = canary, net.answer(canary)
    write_model_files(path, model, GRAPH, names.INPUT_COLUMNS, answers, card)
    load_onnx_graph(path, lambda: 0.0)
    return path


def _card(
    parameters: GraphHyperParameters, figures: GraphFigures, command: str
) -> Mapping[str, object]:
    return {
        "name": parameters.run_name,
        "training_data": "decisions of simulations on clusters drawn at random, with jobs like "
        "those of Helios, March to July; the target is a candidate's cost by the simulated world",
        "training_command": command,
        "hyper_parameters": asdict(parameters),
        "held_out": {key: round(value, 6) for key, value in asdict(figures).items()},
        "opset": OPSET,
        "versions": library_versions(),
    }
