import tests.training.torch_library  # noqa: F401  (skips this module where torch is missing)

# isort: split
import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="needs scikit-learn (the train extra)")

from tests.training.run_time_traces import as_csv, repeating

from roost_formats.models.manifest import manifest_path
from roost_formats.models.run_times import load_onnx_run_times
from roost_train.cli import main
from roost_train.errors import TooFewJobs
from roost_train.runtimes.run_time_jobs import ReplayedJobs, replay
from roost_train.runtimes.run_time_net import RunTimeHyperParameters
from roost_train.runtimes.run_time_training import as_table, choose_epochs, train_and_compare

pytestmark = pytest.mark.torch

FEW = RunTimeHyperParameters(hidden=8, most_epochs=3)


@pytest.fixture(scope="module")
def jobs() -> ReplayedJobs:
    return replay(repeating())


def test_history_and_blend_are_better_than_every_number(jobs: ReplayedJobs) -> None:
    _, report = train_and_compare(jobs, "made", FEW)
    loss = {row.predictor: row.pinball_ln for row in report.rows}
    names = ["history", "model", "blend"]
    assert list(loss)[:3] == names
    others = set(loss) - set(names)
    assert len(others) == 4
    best = min(loss["history"], loss["blend"])
    assert best == loss[report.best]
    assert best < min(loss[name] for name in others)
    assert report.test_count == 600
    assert as_table(report).count("\n") == len(report.rows) + 1


def test_the_number_of_passes_does_not_depend_on_the_jobs_of_the_report(
    jobs: ReplayedJobs,
) -> None:
    train, asked = np.arange(100, 500), list[int]()
    epochs = choose_epochs(jobs, train, FEW, lambda done, loss: asked.append(done))
    assert 1 <= epochs <= 3
    assert asked == [1, 2, 3]
    changed = jobs.run_s.copy()
    changed[500:] = 1.0
    fields = {name: getattr(jobs, name) for name in ReplayedJobs.__dataclass_fields__}
    assert choose_epochs(ReplayedJobs(**fields | {"run_s": changed}), train, FEW) == epochs


def test_too_few_jobs_are_an_error_with_the_cure(jobs: ReplayedJobs) -> None:
    with pytest.raises(TooFewJobs, match="made: 100 jobs with GPUs; want 400 or more: take a"):
        train_and_compare(replay(repeating(100)), "made", FEW)


def test_the_command_writes_a_model_that_the_daemon_loads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "jobs.csv"
    trace.write_text(as_csv(repeating()), encoding="utf-8")
    command = ["runtimes", "--trace", str(trace), "--epochs", "2", "--seed", "3"]
    assert main([*command, "--jobs", "800", "--out", str(tmp_path / "model"), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    path = Path(printed["model"])
    assert load_onnx_run_times(path, lambda: 0.0).name.startswith("onnx:")
    card = json.loads(manifest_path(path).read_text(encoding="utf-8"))["card"]
    repeated = "roost-train runtimes --trace jobs.csv --jobs 800 --epochs 2 --seed 3 --out DIR"
    assert card["training_command"] == repeated
    assert card["held_out"] == printed["rows"]
    assert printed["test_count"] == 400
    assert main([*command, "--jobs", "800"]) == 0
    assert f"better on these jobs: the {printed['best']}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "more", "message"),
    [
        ("", [], "jobs.csv: the file is empty"),
        ("a,b\n1,2\n", [], "jobs.csv:1: "),
        ("submit_s,duration_s,num_gpus\n1,60,1\nx,60,1\n", [], "jobs.csv:3: "),
        ("submit_s,duration_s,num_gpus\n1,60,1\n", [], "1 jobs with GPUs; want 400 or more"),
        ("submit_s,duration_s,num_gpus\n1,60,1\n", ["--jobs", "0"], "--jobs 0: want 1 or more"),
        ("submit_s,duration_s,num_gpus\n1,60,1\n", ["--epochs", "0"], "--epochs 0: want 1"),
    ],
)
def test_bad_input_names_the_file_the_place_and_what_would_be_right(
    text: str,
    more: list[str],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    trace = tmp_path / "jobs.csv"
    trace.write_text(text, encoding="utf-8")
    assert main(["runtimes", "--trace", str(trace), *more]) == 2
    assert message in capsys.readouterr().err


def test_a_missing_file_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runtimes", "--sacct", str(tmp_path / "none")]) == 2
    assert capsys.readouterr().err.startswith("roost-train: ")
