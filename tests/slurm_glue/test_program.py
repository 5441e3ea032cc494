"""How the programs start and end with Ctrl-C, and with a reader that leaves."""

import os
import signal
import subprocess
import sys

import pytest

from roost_slurm.program import EXIT_INTERRUPTED, EXIT_NOT_READ

PROGRAM = """
import os, signal, sys
from roost_slurm.program import run_program

if "ignored" in sys.argv:
    signal.signal(signal.SIGINT, signal.SIG_IGN)

def interrupt(where):
    if where in sys.argv:
        os.kill(os.getpid(), signal.SIGINT)

def run():
    interrupt("run")
    print("done")
    return 7

def load():
    interrupt("load")
    return run

code = run_program(load)
interrupt("end")
sys.exit(code)
"""


@pytest.mark.parametrize(
    ("words", "code", "printed"),
    [
        ([], 7, "done\n"),
        (["load"], -signal.SIGINT, ""),
        (["run"], EXIT_INTERRUPTED, ""),
        (["end"], -signal.SIGINT, "done\n"),
        (["ignored", "load", "run", "end"], 7, "done\n"),
    ],
)
def test_ctrl_c_ends_a_program_quietly(words: list[str], code: int, printed: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-uc", PROGRAM, *words], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (code, printed, "")


def test_its_exit_code_is_what_shells_report() -> None:
    shell = subprocess.run(
        ["sh", "-c", '"$0" -c "$1" load; exit $?', sys.executable, PROGRAM],
        env=os.environ,
        check=False,
    )
    assert shell.returncode == EXIT_INTERRUPTED == 128 + signal.SIGINT


def test_a_name_that_the_locale_lacks_is_printed_as_an_escape() -> None:
    program = (
        "from roost_slurm.program import run_program; run_program(lambda: lambda: print('训'))"
    )
    shown = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONIOENCODING": "latin-1"},
    )
    assert shown.stdout == "\\u8bad\n"


@pytest.mark.parametrize(("line_count", "code"), [(1, 7), (100_000, EXIT_NOT_READ)])
def test_a_reader_that_leaves_is_no_traceback(line_count: int, code: int) -> None:
    program = (
        "import sys; from roost_slurm.program import run_program\n"
        "def run():\n"
        "    for _ in range(int(sys.argv[1])): print('line')\n"
        "    return 7\n"
        "sys.exit(run_program(lambda: run))"
    )
    reader, writer = os.pipe()
    os.close(reader)  # as `| true` does
    with open(writer, "wb") as output:
        ended = subprocess.run(
            [sys.executable, "-c", program, str(line_count)],
            stdout=output,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            env={key: text for key, text in os.environ.items() if key != "PYTHONUNBUFFERED"},
        )
    assert (ended.returncode, ended.stderr) == (code, "")


def test_a_broken_pipe_that_is_not_its_output_is_an_error() -> None:
    program = (
        "import os; from roost_slurm.program import run_program\n"
        "def run():\n"
        "    reader, writer = os.pipe()\n"
        "    os.close(reader)\n"
        "    os.write(writer, b'x')\n"
        "run_program(lambda: run)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 1
    assert ended.stderr.endswith("BrokenPipeError: [Errno 32] Broken pipe\n")
