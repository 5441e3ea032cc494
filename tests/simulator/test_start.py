"""Ctrl-C and SIGTERM while roost-sim still imports, and locales that lack our signs."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.early_signals import assert_ends_quietly

from roost_sim import exit_codes


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_during_the_imports_is_no_traceback(number: signal.Signals) -> None:
    assert_ends_quietly("roost_sim.start", "roost_sim.cli", number)
    assert exit_codes.EXIT_INTERRUPTED == 128 + signal.SIGINT


def test_it_is_roost_sim() -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "roost_sim.start", "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout.startswith("roost-sim, version ")


def test_a_locale_that_lacks_a_sign_gets_an_escape_not_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text("submit_s,duration_s,num_gpus\n0,10,1\n")
    words = "compare --trace jobs.csv --cluster small --policies fifo --seeds 0 --processes 1"
    shown = subprocess.run(
        [sys.executable, "-m", "roost_sim.start", *words.split()],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=os.environ | {"PYTHONIOENCODING": "ascii", "COLUMNS": "10"},
    )
    assert (shown.returncode, "\\xf7 fifo" in shown.stdout) == (0, True)
    assert shown.stderr == "roost-sim: 1 of 1 runs\n"
