"""The real probe, on a node whose wall clock is a day off, against the daemon's own servers."""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.conftest import missing
from tests.daemon.rpc.served import Served
from tests.e2e.test_local_clock import Clock

from roost_engine.domain.model import NodeName
from roost_probe.testing.description import NodeDescription, load_topology
from roost_probe.testing.fake_driver import FakeDriver
from roost_probe.testing.library import build_library, find_compiler
from roostd.state import DaemonState

pytestmark = [pytest.mark.nvml]

DAY_S = 86_400
N1 = NodeName("n1")


@pytest.fixture
def clock(tmp_path: Path) -> Clock:
    """The clock of the node, which the probe's processes preload."""
    if find_compiler() is None:
        missing("no C compiler for the fake NVML driver and the clock")
    return Clock(tmp_path)


@contextlib.asynccontextmanager
async def probe(clock: Clock, folder: Path, *arguments: str) -> AsyncIterator[Path]:
    """A probe of eight GPUs under that clock; yields the file of its log."""
    description = NodeDescription(topology=load_topology("bridges8"))
    build_library(folder)
    driver, log = FakeDriver.create(description, folder / "state", seed="n1"), folder / "log"
    argv = ["-m", "roost_probe.start", "--node", "n1", "--interval-s", "0.2", *arguments]
    environ = os.environ | driver.environment(folder) | clock.environment
    with log.open("w") as output:
        process = await asyncio.create_subprocess_exec(
            sys.executable, *argv, env=environ, stderr=output
        )
    try:
        yield log
    finally:
        process.terminate()
        await process.wait()
        driver.close()


async def samples_after(state: DaemonState, sequence: int, count: int = 3) -> int:
    """Return the number of a sample, once so many more than the given one have come."""
    async with asyncio.timeout(30):
        while True:
            report = state.board.report(N1)
            if report is not None and report.sample is not None:
                assert len(report.hello.gpus) == 8
                assert report.faults == {}
                if report.sample.sequence >= sequence + count:
                    return int(report.sample.sequence)
            await asyncio.sleep(0.02)


async def test_a_probe_reports_whatever_its_clock_says_and_when_it_is_set(
    served: Served, clock: Clock, tmp_path: Path
) -> None:
    clock.set(DAY_S, 0.0)
    async with probe(clock, tmp_path, "--daemon", f"127.0.0.1:{served.servers.probe_port}"):
        ahead = await samples_after(served.state, 0)
        clock.set(-DAY_S, 0.0)
        behind = await samples_after(served.state, ahead)
        clock.set(0, 0.0)
        await samples_after(served.state, behind)

    assert served.count("roost_telemetry_resyncs_total") == 0
    assert not [
        sample
        for family in served.metrics.registry.collect()
        for sample in family.samples
        if sample.name == "roost_telemetry_rejected_total" and sample.value
    ]
