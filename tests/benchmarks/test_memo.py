"""benchmarks/memo.py: a memo of a minute is small beside one of all that was learned."""

import json
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]


def test_a_minute_is_small_beside_all() -> None:
    script = REPOSITORY / "benchmarks" / "memo.py"
    command = [sys.executable, str(script), "--jobs", "1000", "--ends", "5", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    found = json.loads(done.stdout)
    assert found["minute_entries"] < found["all_entries"] / 20
    assert found["minute_bytes"] < found["all_bytes"] / 20
