"""Fixtures: engines whose invariants are checked after every test, and link matrices."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from roost_engine.domain.topology import LinkMatrix, parse_topo_matrix
from roost_engine.testing.builders import EngineHarness
from roost_probe.testing.matrix import sample_names, sample_text

HarnessFactory = Callable[..., EngineHarness]


@pytest.fixture
def make_harness() -> Iterator[HarnessFactory]:
    """Make engine harnesses; the invariants of each engine are checked after the test."""
    harnesses: list[EngineHarness] = []

    def make(*args: object, **options: object) -> EngineHarness:
        harnesses.append(EngineHarness(*args, **options))  # type: ignore[arg-type]
        return harnesses[-1]

    yield make
    for harness in harnesses:
        harness.engine.check_invariants()


@pytest.fixture(params=sample_names())
def sample_matrix(request: pytest.FixtureRequest) -> LinkMatrix:
    """Return each matrix that roost_probe ships: 4, 6, 8, 10 and 16 GPUs."""
    return parse_topo_matrix(sample_text(request.param), f"{request.param}.txt")


@pytest.fixture(scope="session")
def public_topology_dir() -> Path:
    """Return the folder of public `nvidia-smi topo -m` outputs."""
    default = Path(__file__).parents[3] / "shared" / "data"
    folder = Path(os.environ.get("ROOST_DATA_DIR", default)) / "topology"
    if not folder.is_dir():
        pytest.skip(f"no public matrices in {folder}; set ROOST_DATA_DIR")
    return folder
