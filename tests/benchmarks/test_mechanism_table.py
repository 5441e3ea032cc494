"""benchmarks/mechanism_table.py: ratios to leases, paired over seeds."""

import json
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]


def run_of(mechanism: str, seed: int, hours: float) -> dict[str, object]:
    figures = {"avg_jct_s": 3600 * hours, "large_p99_queue_s": 7200.0, "occupancy_loss": 0.1}
    names = {"policy": "roost", "load": 0.9, "seed": seed, "mechanism": mechanism}
    return names | figures | {"pins_per_job": 1.5, "standing_pins": 3}


def test_ratios_are_to_leases(tmp_path: Path) -> None:
    lease, pinned = tmp_path / "mix-lease-0.json", tmp_path / "mix-one-pin-10.json"
    lease.write_text(json.dumps([run_of("lease", 0, 2.0), run_of("lease", 1, 4.0)]))
    pinned.write_text(json.dumps([run_of("one-pin", 0, 3.0), {"summary": True}]))
    table = REPOSITORY / "benchmarks" / "mechanism_table.py"
    command = [sys.executable, str(table), str(lease), str(pinned)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    lines = done.stdout.splitlines()
    assert lines[0] == "### Mix, load 0.9"
    # Three hours against two of the same seed.
    assert lines[4:6] == [
        "| `roost` | lease | 3.00 | 1 | 2.0 | 1 | 0.100 | 1 | 1.50 | 3 |",
        "| `roost` | one-pin, 10 s | 3.00 | 1.50 | 2.0 | 1.00 | 0.100 | 1.00 | 1.50 | 3 |",
    ]
