"""Ctrl-C and SIGTERM while roostctl still imports."""

import signal

import pytest
from tests.early_signals import assert_ends_quietly


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_during_the_imports_is_no_traceback(number: signal.Signals) -> None:
    assert_ends_quietly("roostctl.start", "roostctl.clients.operator", number)
