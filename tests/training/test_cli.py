import io
import sys

import pytest

from roost_train.cli import main
from roost_train.progress import ProgressBar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


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


def test_progress_ends_full_and_on_a_line_of_its_own() -> None:
    terminal = Terminal()
    bar = ProgressBar(1000, terminal)
    for step in range(1, 1001):
        bar(step, 0.5)
    assert terminal.getvalue().endswith(f"\r[{'#' * 32}] 1000/1000 loss 5.00e-01\n")
    assert terminal.getvalue().count("\r") == 200


def test_progress_is_silent_in_a_pipe() -> None:
    pipe = io.StringIO()
    ProgressBar(10, pipe)(10, 0.5)
    assert pipe.getvalue() == ""
