"""The process that plays the queue forward: its answers, its death, and what the daemon sees."""

import asyncio
import os
import pickle
import signal
import threading
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from tests.engine.forecast.scenes import running, snapshot, waiting, wish

from roost_engine.domain.model import JobId
from roostd.app.forecast import forecast_worker as module
from roostd.app.forecast.forecast_worker import (
    ForecastTask,
    ForecastWorker,
    WorkerFailed,
    compute,
)


@pytest.fixture
def task() -> ForecastTask:
    found = snapshot(
        free=[0], wishes=[wish(1)], waiting=[waiting(1)], running=[running("r", (0, 1))]
    )
    return ForecastTask(snapshot=found, draws=20, budget_s=5.0, seed=1)


@pytest.fixture
async def worker() -> AsyncIterator[ForecastWorker]:
    worker = ForecastWorker()
    yield worker
    await worker.stop()


async def test_the_process_answers_as_a_call_would(
    worker: ForecastWorker, task: ForecastTask
) -> None:
    found = await worker.compute(task)
    assert found == compute(task)
    assert found.jobs[JobId("1")].start is not None
    pid = worker.pid
    assert await worker.compute(task) == found
    assert worker.pid == pid != os.getpid()


async def test_a_long_queue_is_pickled_beside_the_loop(
    worker: ForecastWorker, task: ForecastTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pickling the snapshot of 15,000 jobs takes a tenth of a second, and its answer too."""
    threads = list[threading.Thread]()

    class NotingThreads:
        PickleError = pickle.PickleError

        @staticmethod
        def dumps(what: object) -> bytes:
            threads.append(threading.current_thread())
            return pickle.dumps(what)

        @staticmethod
        def loads(data: bytes) -> object:
            threads.append(threading.current_thread())
            return pickle.loads(data)

    monkeypatch.setattr(module, "pickle", NotingThreads)
    assert await worker.compute(task) == compute(task)
    assert len(threads) == 2
    assert threading.main_thread() not in threads


async def test_a_killed_process_fails_one_call_and_the_next_starts_another(
    worker: ForecastWorker, task: ForecastTask
) -> None:
    found = await worker.compute(task)
    pid = worker.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(WorkerFailed, match="the process ended"):
        await worker.compute(task)
    assert await worker.compute(task) == found
    assert worker.pid != pid


async def test_a_stopped_process_is_given_up(
    worker: ForecastWorker, task: ForecastTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    await worker.compute(task)
    pid = worker.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    monkeypatch.setattr(module, "_START_S", 0.1)
    with pytest.raises(WorkerFailed, match=r"no answer in 0.2 s"):
        await worker.compute(replace(task, budget_s=0.01))
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_a_fault_in_the_process_comes_back_as_text(
    worker: ForecastWorker, task: ForecastTask
) -> None:
    broken = replace(task, snapshot=replace(task.snapshot, wishes=()))
    with pytest.raises(WorkerFailed, match="IndexError"):
        await worker.compute(broken)
    assert await worker.compute(task) == compute(task)


def test_a_spent_budget_ends_the_plays_but_not_before_there_are_a_few(task: ForecastTask) -> None:
    assert compute(task).play_count == 20
    assert compute(replace(task, budget_s=1e-9)).play_count == 3
    assert compute(replace(task, budget_s=1e-9, draws=2)).play_count == 2


async def test_stopping_twice_is_harmless(worker: ForecastWorker) -> None:
    await worker.stop()
    await asyncio.sleep(0)
    assert worker.pid is None
