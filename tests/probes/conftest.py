"""A node with a fake driver below the real binding."""

import random
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio
from tests.conftest import missing

from roost_probe.driver.nvml_process import NvmlProcess
from roost_probe.testing.description import NodeDescription, load_topology, parse_description
from roost_probe.testing.fake_driver import FakeDriver, make_sysfs
from roost_probe.testing.library import build_library, find_compiler
from roost_probe.testing.server import FakeDaemon


@dataclass(frozen=True)
class FakeNode:
    driver: FakeDriver
    sysfs: Path
    environment: dict[str, str]


FakeNodeFactory = Callable[[str | NodeDescription], FakeNode]
ProcessFactory = Callable[..., NvmlProcess]


@pytest.fixture(scope="session")
def library_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if find_compiler() is None:
        missing("no C compiler for the fake NVML driver")
    folder = tmp_path_factory.mktemp("nvml")
    build_library(folder)
    return folder


@pytest.fixture
def fake_node(
    library_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[FakeNodeFactory]:
    """Makes the node that processes started from here see, from a sample name or description."""
    drivers = list[FakeDriver]()

    def make(what: str | NodeDescription) -> FakeNode:
        description = what
        if isinstance(description, str):
            is_yaml = ":" in description
            description = (
                parse_description(description)
                if is_yaml
                else NodeDescription(topology=load_topology(description))
            )
        driver = FakeDriver.create(description, tmp_path / "state", seed="node")
        drivers.append(driver)
        sysfs = tmp_path / "sys"
        make_sysfs(description, sysfs)
        environment = driver.environment(library_folder)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        return FakeNode(driver, sysfs, environment)

    yield make
    for driver in drivers:
        driver.close()


@pytest_asyncio.fixture
async def nvml_process() -> AsyncIterator[ProcessFactory]:
    """Makes NVML processes that end with the test."""
    made = list[NvmlProcess]()

    def make(
        pcie: str = "counters",
        load_timeout_s: float = 20.0,
        clock: Callable[[], float] | None = None,
    ) -> NvmlProcess:
        process = (
            NvmlProcess(pcie, 20.0, load_timeout_s, random.Random(1))
            if clock is None
            else NvmlProcess(pcie, 20.0, load_timeout_s, random.Random(1), clock)
        )
        made.append(process)
        return process

    yield make
    for process in made:
        await process.close()


@pytest_asyncio.fixture
async def fake_daemon() -> AsyncIterator[FakeDaemon]:
    daemon = FakeDaemon()
    await daemon.start()
    yield daemon
    await daemon.stop()
