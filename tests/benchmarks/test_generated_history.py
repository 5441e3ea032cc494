"""The figures of generated histories: the real trace is one that is generated, too."""

import json
import subprocess
import sys
from pathlib import Path

from roost_sim.traces.csv_file import write_csv
from roost_sim.traces.fitted_histories import HELIOS_USERS
from roost_sim.traces.fitted_traces import HELIOS
from roost_sim.traces.histories import generate_history

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "generated_history.py"


def test_prints_errors_of_the_trace_and_of_each_seed(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    write_csv(generate_history(HELIOS, HELIOS_USERS, 800, 0), path)
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(path), "--seeds", "2", "--json"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    found = json.loads(done.stdout)
    assert found["jobs"] == 800
    assert found["generated_by_seed"][0] == found["trace"]
    assert found["generated_by_seed"][1] != found["trace"]
    assert found["worst_gap_of_a_seed_frac"] >= found["worst_gap_of_mean_frac"] > 0
    assert found["independent_jobs"]["mean_of_2_of_user"] > found["trace"]["mean_of_2_of_user"]
