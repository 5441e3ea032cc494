import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import pytest

from roostd.ops import log_lines
from roostd.ops.log_lines import LogLines
from roostd.ops.logs import configure_logs

FULL = Path("/dev/full")


@contextmanager
def pipe() -> Iterator[tuple[int, TextIO]]:
    """A pipe without a reader so far: its end for reading, and the stream that writes to it."""
    reads, writes = os.pipe()
    with os.fdopen(writes, "w") as stream:
        yield reads, stream
    os.close(reads)


def everything(reads: int, until: bytes) -> str:
    """Read a pipe up to a text."""
    found = b""
    while until not in found:
        found += os.read(reads, 1 << 20)
    return found.decode()


def test_lines_come_whole_and_in_order() -> None:
    with pipe() as (reads, stream), LogLines(stream) as lines:
        for number in range(1000):
            lines.write(f"line {number} \u00e9\udc80\n")
        shown = everything(reads, b"line 999 ").splitlines()

    assert shown == [f"line {number} \u00e9\\udc80" for number in range(1000)]
    assert lines.dropped_count == 0


def test_a_pipe_that_is_not_read_does_not_block_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_lines, "MOST_QUEUED_BYTES", 100_000)
    with pipe() as (reads, stream), LogLines(stream) as lines:
        configure_logs("info", stream=lines)
        for _ in range(1000):
            lines.write("x" * 999 + "\n")  # 1 MB: a pipe takes 64 KiB
        assert lines.dropped_count > 700
        told = everything(reads, b"log_lines_dropped")

    assert f"count={lines.dropped_count}" in told


@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
def test_a_full_disk_keeps_the_lines_until_it_has_space(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_lines, "_RETRY_S", 0.01)
    with pipe() as (reads, stream), LogLines(stream) as lines:
        kept = os.dup(stream.fileno())
        full = os.open(FULL, os.O_WRONLY)
        os.dup2(full, stream.fileno())
        lines.write("one\n")
        lines.write("two\n")
        time.sleep(0.1)
        os.dup2(kept, stream.fileno())
        shown = everything(reads, b"two\n")
        os.close(kept)
        os.close(full)

    assert shown == "one\ntwo\n"


def test_a_reader_that_is_gone_is_no_error_and_the_end_does_not_wait_for_it() -> None:
    reads, writes = os.pipe()
    stream = os.fdopen(writes, "w")
    os.close(reads)
    began_s = time.monotonic()
    with LogLines(stream) as lines:
        lines.write("lost\n")
    assert time.monotonic() - began_s < 10.0
    stream.close()


def test_a_program_without_standard_error_logs_nowhere() -> None:
    with LogLines(None) as lines:
        assert lines.write("lost\n") == 5
        lines.flush()
