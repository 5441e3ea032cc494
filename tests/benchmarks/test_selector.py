"""The benchmark of the job selector, small enough for every test run."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import tests.training.torch_library  # noqa: F401  (skips this module where torch is missing)

pytestmark = pytest.mark.torch

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "selector.py"


def test_reports_the_time_of_an_order() -> None:
    arguments = ["--json", "--jobs", "20", "--nodes", "4", "--count", "5"]
    done = subprocess.run(
        [sys.executable, SCRIPT, *arguments], capture_output=True, text=True, check=True
    )
    figures = json.loads(done.stdout)
    assert (figures["jobs"], figures["nodes"]) == (20, 4)
    assert 0 < figures["model_p50_ms"] <= figures["model_p99_ms"]
    assert figures["model_bytes"] > 10_000
    assert 0 < figures["again_p50_ms"] <= figures["again_p99_ms"]
