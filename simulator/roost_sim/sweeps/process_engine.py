"""The process engine: performs the cases of a sweep in processes of this machine.

The standard pools do not suffice: multiprocessing's hangs if a worker is killed, for example by the
OOM killer, and concurrent.futures' cannot drop runs that take minutes. Here each worker has a pipe;
a dead worker loses only its own case.
"""

import ctypes
import multiprocessing
import os
import signal
import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess

from roost_sim.sweeps.sweep import Case, Failed, Finished, Sweep

_STOP_S = 2.0
_PR_SET_PDEATHSIG = 1


def core_count() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0))


@dataclass(frozen=True, slots=True)
class ProcessEngine:
    """See roost_sim.sweeps.sweep.SweepEngine.

    Attributes:
        process_count: workers, at least 1.
    """

    process_count: int

    def perform(self, sweep: Sweep, cases: Sequence[Case]) -> Generator[Finished, None, None]:
        """See SweepEngine."""
        crew = _Crew(sweep)
        todo = list(reversed(cases))
        try:
            for _ in range(min(self.process_count, len(cases))):
                crew.hire().give(todo.pop())
            while crew.workers:
                for worker in crew.ready():
                    yield worker.finished()
                    if todo and worker.is_alive:
                        worker.give(todo.pop())
                        continue
                    crew.dismiss(worker)
                    if todo:
                        crew.hire().give(todo.pop())
        finally:
            crew.stop()


@dataclass(slots=True, eq=False)
class _Worker:
    process: SpawnProcess
    pipe: Connection
    case: Case | None = None
    is_alive: bool = True

    def give(self, case: Case) -> None:
        self.case = case
        try:
            self.pipe.send(case)
        except OSError:
            self.is_alive = False

    def finished(self) -> Finished:
        """Return the result of its case; Failed if the worker died."""
        assert self.case is not None
        try:
            finished: Finished = self.pipe.recv()
        except (EOFError, OSError):
            self.is_alive = False
            self.process.join(_STOP_S)
            return Failed(self.case, _epitaph(self.process.exitcode))
        return finished


@dataclass(slots=True)
class _Crew:
    sweep: Sweep
    workers: list[_Worker] = field(default_factory=list)

    def hire(self) -> _Worker:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(theirs, self.sweep), daemon=True)
        with without_interrupts():
            process.start()
            theirs.close()  # so that the end of the process is the end of the pipe
            worker = _Worker(process, ours)
            self.workers.append(worker)
        return worker

    def ready(self) -> list[_Worker]:
        """Wait for workers that have finished or died."""
        by_pipe = {worker.pipe: worker for worker in self.workers}
        return [by_pipe[pipe] for pipe in wait(list(by_pipe)) if isinstance(pipe, Connection)]

    def dismiss(self, worker: _Worker) -> None:
        self.workers.remove(worker)
        worker.pipe.close()
        worker.process.join(_STOP_S)

    def stop(self) -> None:
        for worker in self.workers:
            worker.process.terminate()
        while self.workers:
            self.dismiss(self.workers[0])


@contextmanager
def without_interrupts() -> Iterator[None]:
    """Block SIGINT for a moment here, and for good in the processes that are started meanwhile.

    A new process imports for a second before it ignores SIGINT: Ctrl-C would show its traceback.
    Another thread of this process may get the signal, and Python then calls the main thread's
    handler all the same: a process that is half started would show a traceback too. So the handler
    is called at the end.
    """
    resource_tracker.ensure_running()  # now: the first process starts it, which unblocks SIGINT
    met = list[int]()
    handler = signal.getsignal(signal.SIGINT)
    is_main = threading.current_thread() is threading.main_thread()
    if is_main:
        signal.signal(signal.SIGINT, lambda number, _frame: met.append(number))
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if is_main:
            signal.signal(signal.SIGINT, handler)
        if met and callable(handler):
            handler(signal.SIGINT, None)


def end_with_parent() -> None:
    """Let the kernel end this process when its parent is killed: a case may take hours."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _work(pipe: Connection, sweep: Sweep) -> None:
    """Perform cases until the other end of the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what Ctrl-C means
    end_with_parent()
    while True:
        try:
            case = pipe.recv()
            pipe.send(sweep.perform(case))
        except (EOFError, OSError):
            return


def _epitaph(exit_code: int | None) -> str:
    if exit_code is not None and exit_code < 0:
        cause = signal.Signals(-exit_code).name
        hint = "; was there too little memory?" if exit_code == -signal.SIGKILL else ""
        return f"its process was ended by {cause}{hint}"
    return f"its process ended with exit code {exit_code}"
