import sys
from pathlib import Path

import pytest
from tests.training.environments.small_episodes import trace

from roost_sim.traces.csv_file import write_csv
from roost_train.cli import main


@pytest.mark.parametrize("name", ["torch", "onnx", "onnxruntime"])
def test_missing_library_is_named_with_the_cure(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for library in ("torch", "onnx", "onnxruntime"):
        monkeypatch.setitem(sys.modules, library, sys)
    monkeypatch.setitem(sys.modules, name, None)
    assert main(["verify", "policy.onnx"]) == 2
    message = capsys.readouterr().err
    assert message == (f"roost-train: {name} is not installed; run: pip install 'roost[train]'\n")


def test_unknown_command_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["teach"])
    assert stopped.value.code == 2
    assert "distil" in capsys.readouterr().err


def test_options_of_ray_need_ray(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    write_csv(trace(), tmp_path / "jobs.csv")
    argv = ["selector", "--trace", str(tmp_path / "jobs.csv"), "--cluster", "small"]
    assert main([*argv, "--out", str(tmp_path), "--processes", "2"]) == 2
    assert "--ray-address and --processes go with --engine ray" in capsys.readouterr().err
    assert main([*argv, "--out", str(tmp_path), "--engine", "ray", "--processes", "0"]) == 2
    assert "--processes 0: want 1 or more" in capsys.readouterr().err
