"""The comparison of ways to improve a selector, with a budget that ends after one iteration."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("onnxruntime")

from tests.training.run_time_traces import as_csv, repeating

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "same_budget.py"
pytestmark = pytest.mark.torch


@pytest.mark.parametrize("method", ["ppo", "evolution"])
def test_a_method_uses_its_budget_and_writes_a_model(method: str, tmp_path: Path) -> None:
    jobs = tmp_path / "jobs.csv"
    jobs.write_text(as_csv(repeating(200)))
    words = [method, "--trace", jobs, "--cluster", "small", "--decisions", "20", "--jobs", "80"]
    done = subprocess.run(
        [sys.executable, SCRIPT, *map(str, words), "--seed", "1", "-o", tmp_path],
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout)
    assert found["decisions"] >= 20
    assert Path(found["model"]) == tmp_path / f"{method}-1" / "selector.onnx"
    assert Path(found["model"]).exists()
