"""Ctrl-C while roost-sim still imports."""

import signal
import subprocess
import sys

from roost_sim import exit_codes, start

# Interrupts itself as soon as the program is about to be imported.
INTERRUPTED = """
import os, signal, sys
from roost_sim.start import main

class Interrupts:
    def find_spec(self, name, path=None, target=None):
        if name == "roost_sim.cli":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupts())
main()
"""


def test_ctrl_c_during_the_imports_is_no_traceback() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")
    assert start.EXIT_INTERRUPTED == exit_codes.EXIT_INTERRUPTED == 128 + signal.SIGINT


def test_it_is_roost_sim() -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "roost_sim.start", "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout.startswith("roost-sim, version ")
