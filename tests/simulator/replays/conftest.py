from pathlib import Path

import pytest
from tests.simulator.journals import WrittenJournal
from tests.simulator.simulated import arrival, cluster


@pytest.fixture
def three_jobs(tmp_path: Path) -> Path:
    """Three jobs that need the one node whole, the last the shortest, in order of submission."""
    with WrittenJournal(tmp_path) as journal:
        jobs = (arrival("1", 0.0, 100.0, 8), arrival("2", 10.0, 80.0, 8), arrival("3", 20.0, 40, 8))
        journal.simulate(cluster(1), *jobs)
        return journal.path
