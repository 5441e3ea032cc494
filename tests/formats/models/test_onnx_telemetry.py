"""ONNX Runtime does not report to its vendor, whichever part of Roost loads it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from roost_formats.models import onnx_telemetry

ROOT = Path(__file__).parents[3]
SOURCES = ("benchmarks", "daemon", "deploy", "engine", "formats", "simulator", "training")
LOAD = (
    "from roost_formats.models.score import load_score_policy\n"
    "assert load_score_policy('builtin')\n"
    "import sys; assert 'onnxruntime' in sys.modules"
)


def test_the_variable_is_set_for_children_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(onnx_telemetry.VARIABLE, raising=False)
    onnx_telemetry.switch_off()
    shown = subprocess.run(["env"], capture_output=True, text=True, check=True).stdout
    assert f"{onnx_telemetry.VARIABLE}=1\n" in shown


def test_one_module_imports_the_runtime() -> None:
    pattern = re.compile(r"(?m)^\s*(?:import onnxruntime|from onnxruntime)\b")
    found = [
        path.relative_to(ROOT).as_posix()
        for folder in SOURCES
        for path in (ROOT / folder).rglob("*.py")
        if pattern.search(path.read_text())
    ]
    assert found == ["formats/roost_formats/models/onnx_runtime.py"]


def test_loading_a_model_leaves_no_trace_of_telemetry(tmp_path: Path) -> None:
    unset = {key: value for key, value in os.environ.items() if key != onnx_telemetry.VARIABLE}
    done = subprocess.run(
        [sys.executable, "-c", LOAD],
        env={**unset, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert [*tmp_path.rglob("*")] == []
