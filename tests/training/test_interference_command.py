import tests.training.torch_library  # noqa: F401  (skips this module where torch is missing)

# isort: split
import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="needs scikit-learn (the train extra)")

from tests.training.interference_tables import write_tables

from roost_engine.prediction.interference_model import UNKNOWN, case_of
from roost_formats.models.interference import load_onnx_interference
from roost_formats.models.manifest import manifest_path
from roost_train.cli import main
from roost_train.interference_measured import read_measured
from roost_train.interference_pairs import Split, join, read_pairs
from roost_train.interference_training import train


def test_the_command_writes_a_model_that_the_daemon_loads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, out = write_tables(tmp_path / "data"), tmp_path / "out"
    assert main(["interference", "--data", str(data), "--out", str(out), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["pairs"] == 128 + 266
    assert len(found["rows"]) == len(Split) * 7
    model = load_onnx_interference(Path(found["model"]), lambda: 0.0)
    pairs = join([read_pairs(data), read_measured()])
    answer = model.slowdowns(pairs.cases())
    wanted = train(pairs).model.slowdowns(pairs.cases())
    np.testing.assert_allclose(answer.mean, wanted.mean, atol=1e-5)
    np.testing.assert_allclose(answer.spread, wanted.spread, atol=1e-5)
    assert model.slowdowns(case_of(UNKNOWN, {})).mean[0] == pytest.approx(0, abs=1e-6)
    card = json.loads(manifest_path(Path(found["model"])).read_text())["card"]
    assert "one measurement" in card["training_data"]
    assert card["not_met"] == found["not_met"]


def test_a_missing_folder_is_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["interference", "--data", str(tmp_path / "nowhere")]) == 2
    assert "--data names the folder of the public tables" in capsys.readouterr().err
