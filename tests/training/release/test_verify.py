import tests.training.torch_library  # noqa: F401  (skips this module where torch is missing)

# isort: split
import json
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from roost_engine.cluster.features import COLUMNS
from roost_formats.models.score import BUILTIN_MODEL
from roost_formats.testing.onnx_models import ModelParts, install_model
from roost_train.cli import main
from roost_train.distillation.groups import LARGEST_GROUP, SMALLEST_GROUP
from roost_train.release.score_release import torch_scores
from roost_train.release.verify import TOLERANCE, Verdict, _batches, verify

pytestmark = pytest.mark.torch


def test_shipped_model_verifies() -> None:
    assert verify(BUILTIN_MODEL).worst_difference <= 1e-5


def test_verify_says_when_torch_cannot_read_a_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", str(install_model(tmp_path, ModelParts().encode()))]) == 2
    assert "a file of roost-train has" in capsys.readouterr().err


def test_verify_refuses_what_the_daemon_would(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", str(tmp_path / "policy.onnx")]) == 2
    assert "policy.json cannot be read" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("difference", "is_same"),
    [(0.0, True), (TOLERANCE, True), (TOLERANCE * 1.01, False), (np.nan, False)],
)
def test_readings_are_the_same_up_to_the_tolerance(difference: float, is_same: bool) -> None:
    assert Verdict(candidate_count=1, worst_difference=difference).is_same is is_same


@pytest.mark.parametrize("shift", [0.25, np.nan])
def test_a_reading_that_differs_is_found(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], shift: float
) -> None:
    def shifted(model: bytes, features: NDArray[np.float32]) -> NDArray[np.float32]:
        scores = torch_scores(model, features)
        scores[-1] += np.float32(shift)
        return scores

    monkeypatch.setattr("roost_train.release.verify.torch_scores", shifted)
    verdict = verify(BUILTIN_MODEL)
    assert verdict.worst_difference == pytest.approx(shift, abs=1e-4, nan_ok=True)
    assert not verdict.is_same
    assert main(["verify", str(BUILTIN_MODEL)]) == 1
    shown = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert (shown["worst_difference"] is None, shown["same"]) == (bool(np.isnan(shift)), False)


def test_batches_have_the_corners_of_the_range_and_groups_of_both_extreme_sizes() -> None:
    canary, corners, *groups = _batches(BUILTIN_MODEL)
    assert canary.shape[1] == len(COLUMNS)
    assert (corners[0].max(), corners[1].min()) == (0.0, 1.0)
    assert corners[2:].sum(axis=0).tolist() == [1.0] * len(COLUMNS)
    assert {len(groups[0]), len(groups[-1])} == {SMALLEST_GROUP, LARGEST_GROUP}
