"""worker_process: messages to a process, and what becomes of one that dies or hangs."""

import os
import pickle
import sys
from collections.abc import AsyncIterator
from io import BytesIO, TextIOWrapper

import pytest

from roostd.ops.worker_process import LENGTH, WorkerProcess, serve, work

# Answers each request with itself, but for "die" and "hang".
ECHO = """
import os, time
from roostd.ops.worker_process import work

def answer(request):
    if request == "die":
        os._exit(3)
    if request == "hang":
        time.sleep(3600)
    return request

work(answer)
"""
JUNK = LENGTH.pack(4) + b"junk"


@pytest.fixture
async def worker() -> AsyncIterator[WorkerProcess]:
    worker = WorkerProcess(("-c", ECHO))
    yield worker
    await worker.stop()


async def test_one_process_answers_one_message_after_the_other(worker: WorkerProcess) -> None:
    assert worker.pid is None
    assert await worker.ask("one", 30.0) == "one"
    pid = worker.pid
    assert await worker.ask("", 30.0) == ""
    assert worker.pid == pid is not None


async def test_ctrl_c_in_the_terminal_of_the_daemon_does_not_reach_it(
    worker: WorkerProcess,
) -> None:
    await worker.ask("one", 30.0)
    assert worker.pid is not None
    assert os.getsid(worker.pid) == worker.pid != os.getsid(0)


async def test_after_a_death_the_next_message_has_another_process(worker: WorkerProcess) -> None:
    await worker.ask("one", 30.0)
    pid = worker.pid
    with pytest.raises((OSError, EOFError)):
        await worker.ask("die", 30.0)
    await worker.stop()
    assert await worker.ask("two", 30.0) == "two"
    assert worker.pid != pid


async def test_a_process_that_hangs_is_left_after_the_limit(worker: WorkerProcess) -> None:
    await worker.ask("one", 30.0)
    with pytest.raises(TimeoutError):
        await worker.ask("hang", 0.1)
    await worker.stop()
    assert worker.pid is None


def test_the_process_ends_with_its_input_and_answers_a_fault_with_a_text() -> None:
    answers = BytesIO()
    serve(BytesIO(JUNK[:3]), answers, str)
    assert answers.getvalue() == b""
    serve(BytesIO(JUNK), answers, str)
    assert b"UnpicklingError" in answers.getvalue()


def test_a_process_that_may_not_yield_to_others_answers_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(increment: int) -> int:
        raise PermissionError(increment)

    answers, request = BytesIO(), pickle.dumps("one")
    message = LENGTH.pack(len(request)) + request
    monkeypatch.setattr(os, "nice", refuse)
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(message)))
    monkeypatch.setattr(sys, "stdout", TextIOWrapper(answers))
    work(str.upper)
    assert pickle.loads(answers.getvalue()[LENGTH.size :]) == "ONE"
