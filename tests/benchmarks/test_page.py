"""benchmarks/page.py: a browser paints, then draws every node; the daemon's loop is not held up."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.conftest import missing

REPOSITORY = Path(__file__).parents[2]


@pytest.mark.browser
def test_a_small_cluster_is_painted_and_drawn() -> None:
    if shutil.which("chromium") is None:
        missing("no chromium here; on Debian: apt-get install chromium")
    script = REPOSITORY / "benchmarks" / "page.py"
    command = [sys.executable, str(script), "--nodes", "20", "--repeats", "1", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=110)
    found = json.loads(done.stdout)
    # A busy browser first paints after the script has drawn all nodes.
    assert found["first_paint_ms"] > 0
    assert found["drawn_ms"] > 0
    assert found["longest_turn_cpu_ms"] <= found["build_cpu_ms"]
    assert found["nodes"] == 20
