"""The benchmark of forecasts on a replayed journal: its own, and one that is given."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.simulator.journals import WrittenJournal
from tests.simulator.simulated import arrival, cluster

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "eta_journal.py"
SMALL = ("--seed", "3", "--jobs", "400", "--cluster", "venus/10", "--load", "3", "--moments", "12")


def figures(*arguments: object) -> dict[str, Any]:
    argv = [sys.executable, str(SCRIPT), *map(str, arguments), "--json"]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("stack", ["roost-no-preemption", "default-no-preemption"])
def test_a_journal_of_a_simulation_is_replayed_and_asked(stack: str) -> None:
    found = figures(*SMALL, "--stack", stack)
    assert (found["stack"], found["moments"]) == (stack, 12)
    assert found["starts"] > 20
    assert 0 <= found["starts_inside_frac"] <= 1


def test_a_journal_with_jobs_of_one_length_is_foretold(tmp_path: Path) -> None:
    # 300 jobs of a node for 1,000 s each on two nodes, one every 450 s: the queue becomes longer.
    jobs = (arrival(str(number), number * 450.0, 1_000.0, 8) for number in range(300))
    with WrittenJournal(tmp_path) as journal:
        journal.simulate(cluster(2), *jobs)
    found = figures("--journal", journal.path, "--moments", 20)
    assert found["starts"] > 100
    assert found["starts_inside_frac"] > 0.7
    assert found["median_error_factor"] < 1.5
