"""The skill of predictions: high where each user's jobs are alike, and less with noise."""

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "prediction_skill.py"


def test_noise_takes_skill_away(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    rows = [f"{job},{100 * job},{(60, 20_000)[job % 2]},1,{job % 2}" for job in range(600)]
    path.write_text("job_id,submit_s,duration_s,num_gpus,user\n" + "\n".join(rows) + "\n")
    right, noisy = (_skill(path, *options) for options in ((), ("--sigma", "3")))
    assert right["rank"][0] > 0.8
    assert right["loss_saved_frac"][0] > 0.5
    assert right["ended"] == noisy["ended"] > 350
    assert noisy["rank"][0] < right["rank"][0] - 0.2
    assert noisy["loss_saved_frac"][0] < 0


def _skill(path: Path, *options: str) -> dict[str, list[float]]:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(path), "--last", "200", *options],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    found: dict[str, list[float]] = json.loads(done.stdout)
    return found
