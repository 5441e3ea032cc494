"""The benchmark of environments, small enough for every test run."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import tests.training.torch_library  # noqa: F401  (skips this module where torch is missing)

pytestmark = pytest.mark.torch

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "environment.py"


def test_reports_decisions_for_each_cpu_second_and_a_profile() -> None:
    done = subprocess.run(
        [sys.executable, SCRIPT, "--json", "--jobs", "40", "--runs", "2"],
        capture_output=True,
        text=True,
        check=True,
    )
    figures = json.loads(done.stdout)
    assert figures["decisions_per_cpu_s"] == pytest.approx(
        figures["decisions"] / figures["cpu_s"], rel=0.05
    )
    assert figures["jobs_per_decision"] >= 1
    assert len(figures["profile"]) == 12
