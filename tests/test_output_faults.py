"""Every program whose output cannot be written says so in one line, with an exit code of its own.

The disk is full (/dev/full), or the reader of a pipe has left.
"""

import os
import subprocess
import sys
from collections.abc import Mapping

import pytest

_BUFFERED = {key: text for key, text in os.environ.items() if key != "PYTHONUNBUFFERED"}
_PROGRAMS: Mapping[str, int] = {
    "roostctl": 1,
    "roost_sim": 2,
    "roostd": 74,
    "roost_slurm": 74,
    "roost_demo": 74,
    "roost_train": 74,
    "roost_probe": 1,
}
needs_full = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")


def _ended(
    package: str, option: str, stdout: int, environment: Mapping[str, str] = _BUFFERED
) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", f"{package}.start", option]
    return subprocess.run(
        argv, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False, env=environment
    )


@needs_full
@pytest.mark.parametrize(("package", "code"), _PROGRAMS.items())
def test_help_on_a_full_disk_is_one_line(package: str, code: int) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    ended = _ended(package, "--help", full)
    os.close(full)
    assert ended.returncode == code
    assert len(ended.stderr.splitlines()) == 1
    assert "No space left on device" in ended.stderr


@needs_full
@pytest.mark.parametrize("package", ["roostd", "roost_slurm", "roostctl"])
def test_output_without_a_buffer_is_one_line_too(package: str) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    ended = _ended(package, "--version", full, _BUFFERED | {"PYTHONUNBUFFERED": "1"})
    os.close(full)
    assert ended.returncode == _PROGRAMS[package]
    assert ended.stderr.endswith(": the output cannot be written: No space left on device\n")
    assert len(ended.stderr.splitlines()) == 1


@pytest.mark.parametrize("package", _PROGRAMS)
def test_a_reader_that_left_is_no_error(package: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    ended = _ended(package, "--help", writer)
    os.close(writer)
    assert ended.stderr == ""
