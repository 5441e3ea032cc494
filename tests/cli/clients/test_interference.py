"""clients.interference: a daemon that is not there is named."""

from pathlib import Path

import pytest

from roostctl.clients.calls import CallFailed
from roostctl.clients.interference import InterferenceClient


def test_a_daemon_that_is_not_there_is_named(tmp_path: Path) -> None:
    address = f"unix:{tmp_path}/operator.sock"
    with InterferenceClient(address, 5.0) as client, pytest.raises(CallFailed, match="--daemon"):
        client.get_interference(0)
