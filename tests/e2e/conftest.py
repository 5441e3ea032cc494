"""Containers for the tests that need several machines, and the table that comes of them."""

from collections.abc import Iterator

import pytest
from tests.conftest import missing
from tests.e2e.containers import SUITES, ContainersUnavailable, Engine, running_engine

COMPARISON = pytest.StashKey[list[str]]()


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    try:
        with running_engine() as engine:
            yield engine
    except ContainersUnavailable as error:
        missing(str(error))


@pytest.fixture(scope="session")
def engine_with_images(engine: Engine) -> Engine:
    engine.build(SUITES, "slurm", "systemd")
    return engine


@pytest.fixture
def comparison(request: pytest.FixtureRequest) -> list[str]:
    """Lines of the table that is shown at the end."""
    return request.config.stash.setdefault(COMPARISON, [])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    lines = terminalreporter.config.stash.get(COMPARISON, [])
    if lines:
        terminalreporter.section("GPUs that plain Slurm and Roost choose")
        for line in lines:
            terminalreporter.write_line(line)
