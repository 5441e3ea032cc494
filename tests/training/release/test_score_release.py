import tests.training.torch_library  # noqa: F401  (skips this module where torch is missing)

# isort: split
import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from tests.training.random_net import random_net

from roost_engine.cluster.features import COLUMNS
from roost_formats.models.manifest import Manifest, manifest_path
from roost_formats.models.score import BUILTIN_MODEL, INPUT_NAME, OUTPUT_NAME
from roost_formats.models.signature import SCORE
from roost_formats.testing.onnx_models import ModelParts
from roost_train.distillation.agreement import Agreement
from roost_train.distillation.distil import HyperParameters
from roost_train.distillation.groups import LARGEST_GROUP, SMALLEST_GROUP
from roost_train.errors import ModelError
from roost_train.networks.score_onnx import export_onnx
from roost_train.release.score_release import (
    CANARY_COUNT,
    held_out_agreement,
    torch_scores,
    write_release,
)
from roost_train.release.verify import verify

pytestmark = pytest.mark.torch


SHORT = HyperParameters(steps=60, batch_candidates=256, fit_candidates=2000)


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Agreement]:
    """A release in a folder that was not there before, and its figures."""
    folder = tmp_path_factory.mktemp("release") / "new" / "folder"
    return write_release(random_net(), SHORT, folder, "roost-train distil")


def test_release_loads_and_verifies(released: tuple[Path, Agreement]) -> None:
    path, agreement = released
    verdict = verify(path)
    assert verdict.is_same
    assert verdict.candidate_count > 1000
    card = json.loads(path.with_suffix(".json").read_text())["card"]
    assert card["name"] == "distil-h32-n60-seed0"
    assert card["hyper_parameters"]["steps"] == 60
    assert card["held_out"]["choice_frac"] == pytest.approx(agreement.choice_frac)


def test_shipped_figures_are_those_of_the_shipped_model() -> None:
    card = json.loads(BUILTIN_MODEL.with_suffix(".json").read_text())["card"]
    agreement = held_out_agreement(BUILTIN_MODEL.read_bytes(), groups_per_size=40)
    assert agreement.choice_frac == pytest.approx(card["held_out"]["choice_frac"], abs=1e-3)
    assert agreement.clear_choice_frac == card["held_out"]["clear_choice_frac"] == 1.0
    assert agreement.worst_error == pytest.approx(card["held_out"]["worst_error"], rel=0.5)


def test_the_manifest_describes_the_model_beside_it(released: tuple[Path, Agreement]) -> None:
    path, _ = released
    manifest = Manifest.from_json(manifest_path(path).read_text(), SCORE)
    model = path.read_bytes()
    assert manifest.sha256 == hashlib.sha256(model).hexdigest()
    assert manifest.size_bytes == len(model)
    canary = manifest.canary_inputs[INPUT_NAME]
    assert canary.shape == (CANARY_COUNT, len(COLUMNS))
    np.testing.assert_array_equal(manifest.canary_outputs[OUTPUT_NAME], torch_scores(model, canary))


def test_a_model_that_is_the_heuristic_agrees_with_it() -> None:
    agreement = held_out_agreement(export_onnx(random_net(gain=0.0)), groups_per_size=4)
    assert agreement.clear_choice_frac == 1.0
    assert agreement.worst_error < 1e-5
    assert agreement.group_count == 4 * 2 * (LARGEST_GROUP - SMALLEST_GROUP + 1)


def test_a_model_that_prefers_the_worst_candidate_disagrees() -> None:
    net = random_net(gain=0.0)
    net.skip = -net.skip
    agreement = held_out_agreement(export_onnx(net), groups_per_size=4)
    assert agreement.choice_frac < 0.1
    assert agreement.clear_choice_frac < 0.1
    assert agreement.worst_regret > 0.1


def test_scores_of_a_model_of_another_origin_are_refused() -> None:
    with pytest.raises(ModelError, match="a file of roost-train has"):
        torch_scores(ModelParts().encode(), np.zeros((1, len(COLUMNS)), np.float32))
