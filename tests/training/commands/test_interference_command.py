import tests.training.torch_library  # noqa: F401  (skips this module where torch is missing)

# isort: split
import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="needs scikit-learn (the train extra)")

from tests.training.interference_tables import write_tables

from roost_engine.prediction.interference.interference_model import UNKNOWN
from roost_engine.testing.interference_cases import case_of
from roost_formats.models.interference import load_onnx_interference
from roost_formats.models.manifest import manifest_path
from roost_train.cli import main
from roost_train.commands.interference_command import read_sources, run
from roost_train.interference.measured_pairs import read_measured
from roost_train.interference.pair_tables import read_pair_tables
from roost_train.interference.pairs import Split, join, read_pairs
from roost_train.interference.training import train


def test_the_command_writes_a_model_that_the_daemon_loads(tmp_path: Path) -> None:
    pairs = read_pairs(write_tables(tmp_path / "data"))
    more = [Path("tables/a100.csv")]
    found = json.loads(run(pairs, tmp_path / "out", 0, as_json=True, more=more))
    assert found["pairs"] == 128
    assert len(found["rows"]) == len(Split) * 7
    model = load_onnx_interference(Path(found["model"]), lambda: 0.0)
    answer = model.slowdowns(pairs.cases())
    wanted = train(pairs).model.slowdowns(pairs.cases())
    np.testing.assert_allclose(answer.mean, wanted.mean, atol=1e-5)
    np.testing.assert_allclose(answer.spread, wanted.spread, atol=1e-5)
    assert model.slowdowns(case_of(UNKNOWN, {})).mean[0] == pytest.approx(0, abs=1e-6)
    card = json.loads(manifest_path(Path(found["model"])).read_text())["card"]
    assert "one measurement" in card["training_data"]
    assert card["training_data"].endswith("; a100.csv")
    assert "--data DATA --pairs a100.csv --seed 0" in card["training_command"]
    assert card["not_met"] == found["not_met"]


def test_pairs_come_from_the_public_tables_and_from_our_own(tmp_path: Path) -> None:
    pairs = read_sources(write_tables(tmp_path))
    assert len(pairs) == 128 + len(read_measured())
    assert {job.gpu_type for job in pairs.a} == {"p100", "k80", "h200"}


def test_more_tables_are_learned_from_and_judged_as_types_of_their_own(tmp_path: Path) -> None:
    data, pairs, alone = write_tables(tmp_path), tmp_path / "a100.csv", tmp_path / "profiles.csv"
    pairs.write_text("GPU Type;Job A;Job B;Speed A;Speed B\nA100;llm;diffusion;0.8;0.7\n")
    alone.write_text("gpu_type,model,iteration_ms,gpu_ms\nA100,llm,400,300\n")
    assert len(read_sources(data, [pairs], [alone])) == 128 + len(read_measured()) + 2
    few = join([read_pairs(data), read_pair_tables([pairs], [alone])])
    found = json.loads(run(few, None, 0, as_json=True))
    unseen = [row for row in found["rows"] if row["split"] == Split.GPU]
    assert {row["case_count"] for row in unseen} == {130}
    assert [row["parts"] for row in unseen] == [[["a100", 2], ["k80", 64], ["p100", 64]]] * 7


def test_a_bad_table_is_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    data, pairs = write_tables(tmp_path), tmp_path / "a100.csv"
    pairs.write_text("model_a,model_b,speed_ratio_a\nllm,cnn,0.8\nllm,llm,85\n")
    assert main(["interference", "--data", str(data), "--pairs", str(pairs)]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert "a100.csv:3: speed ratio 85; want the fraction of the speed alone, 0 to 1" in line


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--data", "data", "--alone", "a.csv"], "--alone says more of the jobs of --pairs"),
        (["--journal", "j", "--pairs", "a.csv"], "--pairs and --alone add to the tables of --data"),
    ],
)
def test_a_table_that_would_not_be_read_is_refused(
    capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert main(["interference", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_a_missing_folder_is_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["interference", "--data", str(tmp_path / "nowhere")]) == 2
    assert "No such file or directory; which tables are read: docs/" in capsys.readouterr().err
