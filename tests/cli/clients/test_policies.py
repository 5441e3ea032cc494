"""clients.policies: an older daemon has no shadow to tell of; other faults are told."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest

from roostctl.clients.calls import CallFailed
from roostctl.clients.policies import PolicyAdminClient, PolicyClient


def test_an_older_daemon_knows_no_shadow_and_no_policies(socket_path: Path) -> None:
    server = grpc.server(ThreadPoolExecutor(max_workers=1))
    server.add_insecure_port(f"unix:{socket_path}")
    server.start()
    with PolicyClient(f"unix:{socket_path}", 5.0) as client:
        assert not client.explain_shadow("1").is_known
        with pytest.raises(CallFailed, match="older than this roostctl"):
            client.list_policies()
    server.stop(grace=None).wait()


def test_a_daemon_that_is_not_there_is_named(tmp_path: Path) -> None:
    address = f"unix:{tmp_path}/admin.sock"
    with PolicyAdminClient(address, 5.0) as client, pytest.raises(CallFailed, match="--admin"):
        client.rollback("", "ann")
    with PolicyClient(address, 5.0) as policies, pytest.raises(CallFailed, match="--daemon"):
        policies.explain_shadow("1")
