"""The process that calls the driver, over its pipes."""

import os
import subprocess
import sys

import pytest
from tests.probes.conftest import FakeNodeFactory

from roost_probe.driver.readings import decode_facts, decode_load
from roost_probe.errors import DriverFault


def child(requests: bytes, pcie: str = "counters") -> subprocess.CompletedProcess[bytes]:
    """Run a child on these requests until its input ends."""
    command = [sys.executable, "-m", "roost_probe.driver.nvml_child", pcie]
    return subprocess.run(command, input=requests, capture_output=True, timeout=60, check=False)


def test_without_a_driver_each_request_is_answered_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    done = child(b"facts\nload\n")
    first, second = done.stdout.splitlines(keepends=True)
    for decode, line in ((decode_facts, first), (decode_load, second)):
        with pytest.raises(DriverFault, match=r"libnvidia-ml\.so\.1 was not found"):
            decode(line)
    assert done.returncode == 0


@pytest.mark.nvml
def test_requests_are_answered_in_order_and_the_end_of_input_ends_it(
    fake_node: FakeNodeFactory,
) -> None:
    fake_node("bridges4")
    done = child(b"load\nfacts\n")
    load, facts = done.stdout.splitlines(keepends=True)
    assert len(decode_load(load).gpus) == len(decode_facts(facts).gpus) == 4
    assert (done.returncode, done.stderr) == (0, b"")


def test_an_unknown_pcie_source_ends_the_child_without_an_answer() -> None:
    done = child(b"facts\n", pcie="guess")
    assert done.returncode != 0
    assert done.stdout == b""
    assert b"'guess' is not a valid PcieSource" in done.stderr


def test_a_parent_that_has_gone_is_no_error() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "roost_probe.driver.nvml_child", "counters"]
    done = subprocess.run(
        command, input=b"facts\n", stdout=writer, stderr=subprocess.PIPE, timeout=60, check=False
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")
