"""What `roostctl jobs` costs with a crowd of jobs: processor time of the command as a whole.

A fake roostd in this process answers over a UNIX socket; `roostctl` runs as a process of its own,
into a pipe and on terminals of 200 and 60 columns. The bar
is 0.5 s of processor time with 10,000 jobs; each figure is the median of the rounds.
"""

import argparse
import contextlib
import os
import pty
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import median

import _harness

from roost_proto.v1 import operator_pb2 as pb
from roostctl.testing import FakeOperator, build_job, serve

STATES = (pb.JOB_STATE_RUNNING, pb.JOB_STATE_WAITING, pb.JOB_STATE_WAITING, pb.JOB_STATE_LET_GO)


def crowd(count: int) -> FakeOperator:
    """Make a daemon that knows `count` jobs of 50 users in every state."""
    operator = FakeOperator()
    for number in range(count):
        state = STATES[number % len(STATES)]
        waits = state == pb.JOB_STATE_WAITING
        job = build_job(
            str(number),
            state,
            gpu_count=4,
            shares={f"gpu{number % 1000:04}": (0, 1, 2, 3)},
            reason="waits for 4 GPUs on one node; nodes are reserved for it" if waits else "",
            link_scores=(880, 880),
            user_id=60_000 + number % 50,
            turn=pb.Turn(position=number + 1, of_count=count) if waits else None,
        )
        job.name, job.account, job.priority = f"train-{number % 97}", "vision", 4_294_000 - number
        operator.add_job(job)
    return operator


def processor_s(argv: Sequence[str], columns: str, cache: str, on_terminal: bool) -> float:
    """Run a command and return the processor time that it took, user's and system's."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    # pip and the packages compile what they install; a checkout may not be compiled.
    compiled = {"PYTHONPYCACHEPREFIX": cache, "PYTHONDONTWRITEBYTECODE": ""}
    environment = os.environ | {"COLUMNS": columns, "TERM": "xterm-256color"} | compiled
    reader, writer = pty.openpty() if on_terminal else os.pipe()
    with subprocess.Popen(argv, stdout=writer, env=environment) as command:
        os.close(writer)
        with contextlib.suppress(OSError):  # EIO: the last writer of a terminal has gone
            while os.read(reader, 65_536):
                pass
    os.close(reader)
    assert command.returncode == 0
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=_harness.whole, default=10_000)
    parser.add_argument("--rounds", type=_harness.whole, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    figures: dict[str, object] = {"job_count": options.jobs}
    with (
        tempfile.TemporaryDirectory(prefix="roost-") as folder,
        serve(crowd(options.jobs), Path(folder) / "operator.sock") as address,
    ):
        command = [sys.executable, "-m", "roostctl.main", "--daemon", address, "jobs"]
        for name, more, columns in (
            ("pipe", (), ""),
            ("terminal", (), "200"),
            ("narrow_terminal", (), "60"),
            ("json", ("--json",), ""),
            ("one_user", ("--user", "60007"), ""),
        ):
            run = partial(processor_s, [*command, *more], columns, folder, bool(columns))
            run()  # compiles
            taken = [run() for _ in range(options.rounds)]
            figures[f"{name}_processor_s"] = round(median(taken), 3)
    _harness.report(figures, as_json=options.json)


if __name__ == "__main__":
    main()
