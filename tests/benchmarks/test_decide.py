"""benchmarks/decide.py on a small cluster: its figures are there, and what they rest on."""

import json
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]


def test_the_learned_order_is_measured_with_a_full_history_and_a_queue() -> None:
    script = str(REPOSITORY / "benchmarks" / "decide.py")
    sizes = ("--nodes", "48", "--runs", "40", "--waiting", "60")
    command = [sys.executable, script, *sizes, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    figures = json.loads(done.stdout)
    assert 1_900 <= figures["prediction_kinds"] <= 2_500
    assert figures["prediction_us"] <= figures["prediction_p99_us"]
    assert figures["queue_waiting"] >= 40
    for name in ("prediction_add_us", "priority_order_event_us", "learned_order_key_us"):
        assert figures[name] > 0
    # A key is one prediction and some sums; an event under that order makes about one key.
    assert figures["learned_order_event_us"] > figures["prediction_us"]
