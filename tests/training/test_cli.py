import sys

import pytest

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
