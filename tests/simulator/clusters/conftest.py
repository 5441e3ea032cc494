from pathlib import Path

import pytest
from tests.simulator.clusters.page import MATRIX, SAMPLE


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    (tmp_path / "other.txt").write_text(MATRIX)
    path = tmp_path / "mine.yaml"
    path.write_text(SAMPLE)
    return path
