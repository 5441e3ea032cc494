import multiprocessing
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from tests.simulator.sweeps.cases import Scripted, sweep, template

from roost_sim.sweeps.process_engine import ProcessEngine, without_interrupts
from roost_sim.sweeps.sweep import Case, Done, Failed, InProcess


def cases(*names: str) -> list[Case]:
    return [Case(name, seed, None) for seed, name in enumerate(names)]


def test_processes_come_to_what_one_process_comes_to() -> None:
    todo = [Case(name, seed, 1.5) for seed in (0, 1) for name in ("fifo", "random-order")]
    figures = []
    for engine in (InProcess(), ProcessEngine(2)):
        runs = [run for run in engine.perform(sweep(20), todo) if isinstance(run, Done)]
        by_case = {
            run.case: (
                {
                    name: value
                    for name, value in run.document.items()
                    if name != "wall_s" and not name.startswith("decision_")
                },
                run.curves,
            )
            for run in runs
        }
        figures.append([by_case[case] for case in todo])
    assert figures[0] == figures[1]


def test_a_worker_that_dies_costs_its_case_only() -> None:
    todo = cases("dies", "works", "fails", "leaves", "works")
    finished = list(ProcessEngine(2).perform(Scripted(template=template()), todo))
    assert sorted(run.case for run in finished) == sorted(todo)
    reasons = {run.case.policy: run.reason for run in finished if isinstance(run, Failed)}
    assert reasons == {
        "dies": "its process was ended by SIGKILL; was there too little memory?",
        "leaves": "its process ended with exit code 3",
        "fails": "as told",
    }
    assert sum(isinstance(run, Done) for run in finished) == 2


def test_closing_gives_up_the_rest() -> None:
    running = ProcessEngine(2).perform(Scripted(template=template()), cases(*["works"] * 50))
    assert isinstance(next(running), Done)
    running.close()
    assert list(running) == []


def test_no_case_needs_no_process() -> None:
    assert list(ProcessEngine(2).perform(sweep(), [])) == []


def test_ctrl_c_never_reaches_a_worker() -> None:
    before = set(multiprocessing.active_children())
    running = ProcessEngine(1).perform(Scripted(template=template()), cases("works", "works"))
    next(running)
    (worker,) = set(multiprocessing.active_children()) - before
    status = Path(f"/proc/{worker.pid}/status").read_text()
    running.close()
    blocked = re.search(r"^SigBlk:\s*(\w+)", status, re.MULTILINE)
    assert blocked is not None
    assert int(blocked[1], 16) >> (signal.SIGINT - 1) & 1
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


SLEEPER = """
import multiprocessing
import threading
from tests.simulator.sweeps.test_process_engine import cases, ProcessEngine, Scripted, template

if __name__ == "__main__":
    running = ProcessEngine(1).perform(Scripted(template=template()), cases("works", "sleeps"))
    next(running)
    (worker,) = multiprocessing.active_children()
    threading.Timer(0.5, lambda: print(worker.pid, flush=True)).start()
    next(running)  # the worker sleeps by the time that it is named
"""


def test_ctrl_c_that_another_thread_gets_waits_until_the_processes_are_started() -> None:
    """Python calls the main thread's handler, whichever thread the kernel has chosen."""
    is_over, done = threading.Event(), list[str]()
    thread = threading.Thread(target=is_over.wait)
    thread.start()

    def interrupted() -> None:
        assert thread.ident is not None
        with without_interrupts():
            signal.pthread_kill(thread.ident, signal.SIGINT)
            time.sleep(0.2)
            done.append("started")

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            interrupted()
        assert done == ["started"]
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
        is_over.set()
        thread.join()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_workers_end_with_a_parent_that_is_killed(tmp_path: Path, number: signal.Signals) -> None:
    script = tmp_path / "sleeper.py"
    script.write_text(SLEEPER)
    root = Path(__file__).parents[3]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    with subprocess.Popen(
        [sys.executable, str(script)], env=environment, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        worker = parent.stdout.readline().strip()
        assert "spawn_main" in command_of(worker)
        parent.send_signal(number)
    deadline_s = time.monotonic() + 60.0
    while command_of(worker):
        assert time.monotonic() < deadline_s
        time.sleep(0.05)


def command_of(pid: str) -> str:
    """Return the command line of a process; "" when it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""
