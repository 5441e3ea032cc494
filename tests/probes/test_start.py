"""Ctrl-C and SIGTERM while roost-probe still imports."""

import asyncio
import os
import signal

import pytest
from tests.early_signals import assert_ends_quietly, program_with_signal
from tests.probes.conftest import FakeNodeFactory

from roost_probe.testing.server import FakeDaemon


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_during_the_imports_is_no_traceback(number: signal.Signals) -> None:
    assert_ends_quietly("roost_probe.start", "roost_probe.driver.nvml_process", number)


@pytest.mark.nvml
async def test_a_hangup_during_the_imports_does_not_end_it(
    fake_node: FakeNodeFactory, fake_daemon: FakeDaemon
) -> None:
    node = fake_node("bridges4")
    options = ["--daemon", fake_daemon.target, "--node", "n1", "--interval-s", "0.05"]
    program = program_with_signal("roost_probe.start", "asyncio", signal.SIGHUP, *options)
    probe = await asyncio.create_subprocess_exec(*program, env={**os.environ, **node.environment})
    await fake_daemon.received(hello_count=1, sample_count=2)
    probe.terminate()

    assert await probe.wait() == 0
