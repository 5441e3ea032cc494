"""Ctrl-C and SIGTERM while roost-sim still imports."""

import signal
import subprocess
import sys

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
