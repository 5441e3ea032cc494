import sys
from errno import ENOSPC

import pytest

from roost_train import cli
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


def test_a_full_disk_is_named_without_a_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(name: str) -> None:
        raise OSError(ENOSPC, "No space left on device")

    monkeypatch.setattr(cli, "_need", fail)
    assert main(["verify", "policy.onnx"]) == 2
    assert capsys.readouterr().err == "roost-train: No space left on device\n"


def test_unknown_command_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["teach"])
    assert stopped.value.code == 2
    assert "distil" in capsys.readouterr().err
