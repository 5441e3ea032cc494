"""Turning a network of the gate slot into the two files that a daemon loads."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from roost_engine.gate.offer_features import CONTEXT_COLUMNS, OFFER_COLUMNS, SCHEMA_VERSION
from roost_formats.models.gate import CONTEXT_NAME, OFFER_NAME, RANK_NAME, load_onnx_gate
from roost_formats.models.loader import open_session
from roost_formats.models.onnx_file import read_onnx
from roost_formats.models.signature import GATE
from roost_train.environments.decisions import Decision
from roost_train.errors import TrainError
from roost_train.export.numpy_policy import run_all
from roost_train.export.onnx_export import serialized
from roost_train.networks.slot_net import SlotNet
from roost_train.release.slot_release import Readings, compare, write_slot_model

MODEL_FILE = "gate.onnx"
_CANARY_OFFERS = 16

_Inputs = Mapping[str, NDArray[np.float32]]


def write_gate(
    net: SlotNet, saved: Sequence[Decision], card: Mapping[str, object], folder: Path
) -> Path:
    """Write gate.onnx and gate.json; see slot_release, also for what it raises.

    Args:
        net: the network.
        saved: decisions on which the readings must agree; some of them become the canary.
        card: what the manifest says of data, training and results.
        folder: made if it is missing.
    """
    if not saved:
        raise TrainError("no decision to compare the readings on: take more jobs")
    model, inputs = export_gate(net), _inputs(saved)
    canary = {name: lines[:_CANARY_OFFERS] for name, lines in inputs.items()}
    return write_slot_model(
        folder / MODEL_FILE,
        model,
        GATE,
        {OFFER_NAME: OFFER_COLUMNS, CONTEXT_NAME: CONTEXT_COLUMNS},
        (canary, {RANK_NAME: _torch_ranks(net, canary)}),
        card,
        readings=compare_ranks(net, model, inputs),
        features_version=SCHEMA_VERSION,
        load=lambda path: load_onnx_gate(path, lambda: 0.0),
    )


def compare_ranks(net: SlotNet, model: bytes, inputs: _Inputs) -> Readings:
    """Compare what torch, numpy and ONNX Runtime answer to offers."""
    graph, session = read_onnx(model, GATE), open_session(model, GATE)
    answers = (
        _torch_ranks(net, inputs),
        run_all(graph, inputs)[graph.outputs[0].name].reshape(-1),
        session.run(inputs)[RANK_NAME].reshape(-1),
    )
    return compare([answers])


def export_gate(net: SlotNet) -> bytes:
    """Return the net as an ONNX file; the same weights give the same bytes."""
    node = helper.make_node
    nodes = [
        _layer(CONTEXT_NAME, "context", "context_raw"),
        node("Relu", ["context_raw"], ["context_active"]),
        node("Concat", [OFFER_NAME, "context_active"], ["both"], axis=1),
        _layer("both", "head1", "hidden_raw"),
        node("Relu", ["hidden_raw"], ["hidden"]),
        _layer("hidden", "head2", "take"),
        _layer("context_active", "none", "wait"),
        node("Sub", ["take", "wait"], [RANK_NAME]),
    ]
    value = helper.make_tensor_value_info
    weights = {name.replace(".", "_"): one.numpy() for name, one in net.state_dict().items()}
    graph = helper.make_graph(
        nodes,
        "roost_gate",
        [
            value(OFFER_NAME, TensorProto.FLOAT, ["offer", len(OFFER_COLUMNS)]),
            value(CONTEXT_NAME, TensorProto.FLOAT, ["offer", len(CONTEXT_COLUMNS)]),
        ],
        [value(RANK_NAME, TensorProto.FLOAT, ["offer", 1])],
        [numpy_helper.from_array(weights[name], name) for name in sorted(weights)],
    )
    return serialized(graph)


def _layer(given: str, name: str, answer: str) -> onnx.NodeProto:
    """Return one linear layer; torch keeps its weights as [out, in], hence transB."""
    return helper.make_node("Gemm", [given, f"{name}_weight", f"{name}_bias"], [answer], transB=1)


def _inputs(saved: Sequence[Decision]) -> _Inputs:
    return {
        OFFER_NAME: np.concatenate([one.jobs for one in saved]),
        CONTEXT_NAME: np.stack([one.cluster for one in saved]),
    }


def _torch_ranks(net: SlotNet, inputs: _Inputs) -> NDArray[np.float32]:
    offers, context = (torch.from_numpy(inputs[name]) for name in (OFFER_NAME, CONTEXT_NAME))
    with torch.inference_mode():
        ranks: NDArray[np.float32] = net(offers[:, None], context)[:, 0].numpy()
    return ranks
