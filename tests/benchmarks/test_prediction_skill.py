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
    rank, saved_frac = _skill(path)
    noisy_rank, noisy_saved_frac = _skill(path, "--sigma", "3")
    assert rank > 0.8
    assert saved_frac > 0.5
    assert noisy_rank < rank - 0.2
    assert noisy_saved_frac < 0


def _skill(path: Path, *options: str) -> tuple[float, float]:
    """Return the means of both measures."""
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(path), "--last", "200", *options],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    found = json.loads(done.stdout)
    assert found["ended"] > 350
    return found["rank"][0], found["loss_saved_frac"][0]
