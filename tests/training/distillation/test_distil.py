import tests.training.torch_library  # noqa: F401  (skips this module where torch is missing)

# isort: split
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from roost_engine.cluster.features import COLUMNS, HEURISTIC_WEIGHTS
from roost_engine.domain.errors import PolicyError
from roost_engine.scoring.heuristic import HeuristicScore
from roost_formats.models.onnx_file import read_onnx
from roost_formats.models.score import BUILTIN_MODEL
from roost_formats.models.signature import SCORE
from roost_train.cli import main
from roost_train.distillation.distil import (
    GAP_FLOOR,
    HyperParameters,
    distil,
    distillation_loss,
    fit_skip,
    teacher_scores,
)
from roost_train.networks.score_net import ScoreNet
from roost_train.networks.score_onnx import export_onnx

pytestmark = pytest.mark.torch

SHORT = HyperParameters(steps=60, batch_candidates=256, fit_candidates=2000)


@pytest.fixture(scope="module")
def short_net() -> ScoreNet:
    return distil(SHORT)


def test_loss_of_a_perfect_student_is_zero() -> None:
    teacher = torch.tensor([[1.0, 3.0, 2.0]], dtype=torch.float64)
    assert float(distillation_loss(teacher, teacher, 1.0)) == 0.0


def test_loss_by_hand() -> None:
    teacher = torch.tensor([[0.0, 1.0, 1.5]], dtype=torch.float64)
    student = torch.tensor([[0.0, 1.0, 2.5]], dtype=torch.float64)
    # Regression 1/3. Gaps 1 and 0.5, off by 0 and 1: relative errors 0 and 2, smooth L1 0 and 1.5.
    assert float(distillation_loss(student, teacher, 0.1)) == pytest.approx(1 / 3 + 0.1 * 0.75)


def test_loss_counts_a_small_gap_as_much_as_a_large_one() -> None:
    def swapped(gap: float) -> float:
        teacher = torch.tensor([[0.0, gap]], dtype=torch.float64)
        return float(distillation_loss(-teacher, teacher, 1.0)) - 2 * gap**2

    assert swapped(1e-3) == pytest.approx(swapped(0.5))
    assert swapped(GAP_FLOOR / 10) < swapped(0.5)


def test_least_squares_finds_the_heuristic() -> None:
    skip = fit_skip(np.random.default_rng(0), SHORT)
    np.testing.assert_allclose(skip, HEURISTIC_WEIGHTS, rtol=0, atol=1e-9)


def test_teacher_is_the_heuristic() -> None:
    features = np.random.default_rng(0).random((50, len(COLUMNS))).astype(np.float32)
    np.testing.assert_allclose(
        teacher_scores(features.astype(np.float64)),
        HeuristicScore().score(features),
        rtol=0,
        atol=2e-6,
    )


def test_same_seed_same_file(short_net: ScoreNet) -> None:
    assert export_onnx(distil(SHORT)) == export_onnx(short_net)


def test_other_seed_other_file_and_other_name(short_net: ScoreNet) -> None:
    other = replace(SHORT, seed=1)
    assert export_onnx(distil(other)) != export_onnx(short_net)
    assert (SHORT.run_name, other.run_name) == ("distil-h32-n60-seed0", "distil-h32-n60-seed1")


def test_training_makes_the_student_better() -> None:
    losses = list[float]()
    distil(replace(SHORT, steps=300), lambda step, loss: losses.append(loss))
    assert len(losses) == 300
    assert np.mean(losses[-20:]) < np.mean(losses[:20]) / 10


def test_our_reader_sees_what_onnx_sees() -> None:
    model = BUILTIN_MODEL.read_bytes()
    ours, theirs = read_onnx(model, SCORE), onnx.load_model_from_string(model).graph
    assert [node.operator for node in ours.nodes] == [node.op_type for node in theirs.node]
    assert [list(node.inputs) for node in ours.nodes] == [list(node.input) for node in theirs.node]
    assert set(ours.weights) == {weight.name for weight in theirs.initializer}
    for weight in theirs.initializer:
        np.testing.assert_array_equal(ours.weights[weight.name], numpy_helper.to_array(weight))


def test_reader_refuses_what_onnx_writes_beyond_a_score_model() -> None:
    weight = numpy_helper.from_array(HEURISTIC_WEIGHTS[:, None], "weight")
    body = helper.make_graph([], "body", [], [])
    spoiled = {
        "external": [helper.make_node("MatMul", ["features", "weight"], ["score"])],
        "'Loop'": [helper.make_node("Loop", ["", ""], ["score"], body=body)],
        "'com.microsoft.FusedMatMul'": [
            helper.make_node(
                "FusedMatMul", ["features", "weight"], ["score"], domain="com.microsoft"
            )
        ],
        "'Constant'": [helper.make_node("Constant", [], ["score"], value=weight)],
    }
    ends = [
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["candidate", width])]
        for name, width in (("features", len(COLUMNS)), ("score", 1))
    ]
    for message, nodes in spoiled.items():
        model = helper.make_model(
            helper.make_graph(nodes, "graph", *ends, [weight]),
            opset_imports=[helper.make_opsetid("", 17)],
        )
        if message == "external":
            onnx.external_data_helper.set_external_data(model.graph.initializer[0], "weights.bin")
            message = "lies in another file"
        with pytest.raises(PolicyError, match=message):
            read_onnx(model.SerializeToString(), SCORE)


def test_command_trains_and_verifies(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["distil", "--seed", "4", "--steps", "20", "--output", str(tmp_path)]) == 0
    trained = json.loads(capsys.readouterr().out)
    assert trained["run"] == "distil-h32-n20-seed4"
    manifest = json.loads((tmp_path / "policy.json").read_text())
    command = manifest["card"]["training_command"]
    assert command == "roost-train distil --seed 4 --steps 20 --output DIR"
    assert main(["verify", trained["model"]]) == 0
    assert json.loads(capsys.readouterr().out)["same"] is True
