"""clients.modes: an administrator's socket that is not there is named with its options."""

from pathlib import Path

import pytest

from roost_proto.v1 import operator_pb2
from roostctl.clients.calls import CallFailed
from roostctl.clients.modes import ModesClient


def test_a_socket_that_is_not_there_is_named_with_its_options(tmp_path: Path) -> None:
    address = f"unix:{tmp_path}/admin.sock"
    with (
        ModesClient(address, 5.0) as client,
        pytest.raises(CallFailed, match="with --admin or ROOST_ADMIN"),
    ):
        client.set_mode("gpu", operator_pb2.MODE_SHADOW, "root")
