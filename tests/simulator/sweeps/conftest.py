from pathlib import Path

import pytest
from tests.simulator.sweeps.cases import csv_of, jobs
from tests.simulator.sweeps.program import printed


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trace") / "jobs.csv"
    path.write_text(csv_of(jobs(60)))
    return path


@pytest.fixture(scope="module")
def expected(trace: Path) -> str:
    """From one process."""
    return printed(trace, "0", "--processes", "1")
