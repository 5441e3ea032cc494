"""clients.waste: a daemon that is not there is named."""

from pathlib import Path

import pytest

from roostctl.clients.calls import CallFailed
from roostctl.clients.waste import WasteClient


def test_a_daemon_that_is_not_there_is_named(tmp_path: Path) -> None:
    address = f"unix:{tmp_path}/operator.sock"
    with WasteClient(address, 5.0) as client, pytest.raises(CallFailed, match="--daemon"):
        client.get_waste(0)
