"""worker_process: messages to a process, and what becomes of one that dies or hangs."""

import os
from collections.abc import AsyncIterator

import pytest

from roostd.ops.worker_process import WorkerProcess

# Answers each message with itself, but for "die" and "hang".
ECHO = """
import sys, time
from roostd.ops.worker_process import LENGTH
while head := sys.stdin.buffer.read(LENGTH.size):
    body = sys.stdin.buffer.read(LENGTH.unpack(head)[0])
    if body == b"die":
        sys.exit(3)
    if body == b"hang":
        time.sleep(3600)
    sys.stdout.buffer.write(head + body)
    sys.stdout.buffer.flush()
"""


@pytest.fixture
async def worker() -> AsyncIterator[WorkerProcess]:
    worker = WorkerProcess(("-c", ECHO))
    yield worker
    await worker.stop()


async def test_one_process_answers_one_message_after_the_other(worker: WorkerProcess) -> None:
    assert worker.pid is None
    assert await worker.ask(b"one", 30.0) == b"one"
    pid = worker.pid
    assert await worker.ask(b"", 30.0) == b""
    assert worker.pid == pid is not None


async def test_ctrl_c_in_the_terminal_of_the_daemon_does_not_reach_it(
    worker: WorkerProcess,
) -> None:
    await worker.ask(b"one", 30.0)
    assert worker.pid is not None
    assert os.getsid(worker.pid) == worker.pid != os.getsid(0)


async def test_after_a_death_the_next_message_has_another_process(worker: WorkerProcess) -> None:
    await worker.ask(b"one", 30.0)
    pid = worker.pid
    with pytest.raises((OSError, EOFError)):
        await worker.ask(b"die", 30.0)
    await worker.stop()
    assert await worker.ask(b"two", 30.0) == b"two"
    assert worker.pid != pid


async def test_a_process_that_hangs_is_left_after_the_limit(worker: WorkerProcess) -> None:
    await worker.ask(b"one", 30.0)
    with pytest.raises(TimeoutError):
        await worker.ask(b"hang", 0.1)
    await worker.stop()
    assert worker.pid is None
