"""Limits by calling host, and connections that say nothing."""

import os
import socket
from collections.abc import Iterator

import pytest
from tests.daemon.rpc.probes import hello
from tests.daemon.rpc.served import ManualClock, Served
from tests.daemon.rpc.services.test_telemetry import Probe

from roost_proto.v1 import operator_pb2
from roostd.ops.files import RESERVED_FILE_COUNT, file_limit
from roostd.rpc.access.limits import MOST_PEERS, MOST_SILENT_STREAMS, probe_options
from roostd.rpc.access.peers import LOCAL_HOST, Peers, host_of

CONNECTION_LIMIT = 8


@pytest.mark.parametrize(
    ("peer", "host"),
    [
        ("ipv4:10.0.0.7:4711", "10.0.0.7"),
        ("ipv4:127.0.0.1:4711", LOCAL_HOST),
        ("ipv4:127.8.9.1:4711", LOCAL_HOST),
        ("ipv6:%5B::1%5D:4711", LOCAL_HOST),
        ("ipv6:[::1]:4711", LOCAL_HOST),
        ("ipv6:%5B::ffff:10.0.0.7%5D:4711", "10.0.0.7"),
        ("ipv6:%5B::ffff:127.0.0.1%5D:4711", LOCAL_HOST),
        ("ipv6:%5Bfe80::1%25eth0%5D:4711", "fe80::1"),
        ("ipv6:[fe80::0001%25eth0]:4711", "fe80::1"),
        ("unix:", ""),
        ("", ""),
    ],
)
def test_a_caller_s_host_is_found_in_grpc_s_name_of_it(peer: str, host: str) -> None:
    assert host_of(peer) == host


def test_what_is_remembered_of_hosts_is_bounded() -> None:
    peers = Peers(ManualClock().now_s)
    for number in range(MOST_PEERS + 1_000):
        peers.admit_hello(str(number))
        peers.admit_line(str(number))
        assert peers.admit_silent_stream(str(number))
        peers.end_silence(str(number))

    assert len(peers._peers) == MOST_PEERS
    assert not peers._silent


def test_a_host_has_so_many_silent_streams_and_another_host_its_own() -> None:
    peers = Peers(ManualClock().now_s)
    assert all(peers.admit_silent_stream("a") for _ in range(MOST_SILENT_STREAMS))
    assert not peers.admit_silent_stream("a")
    assert peers.admit_silent_stream("b")
    peers.end_silence("a")
    assert peers.admit_silent_stream("a")


@pytest.mark.parametrize(
    ("node_count", "files", "connections"),
    [(12_000, 1 << 20, 24_256), (12_000, 65_536, 24_256), (12_000, 1_024, 324), (3, 500, 1)],
)
def test_no_more_connections_are_taken_than_there_are_files_for(
    node_count: int, files: int, connections: int
) -> None:
    options = dict(probe_options(node_count, files))
    assert options["grpc.max_allowed_incoming_connections"] == connections


@pytest.fixture
def few_files(monkeypatch: pytest.MonkeyPatch) -> None:
    limit = RESERVED_FILE_COUNT + CONNECTION_LIMIT
    monkeypatch.setattr("roostd.rpc.server.file_limit", lambda: limit)


@pytest.fixture
def silent_connections() -> Iterator[list[socket.socket]]:
    opened: list[socket.socket] = []
    yield opened
    for connection in opened:
        connection.close()


async def test_idle_connections_do_not_use_up_the_daemon_s_files(
    few_files: None, served: Served, silent_connections: list[socket.socket]
) -> None:
    """1,324 of them against 1,024 files once left none for scontrol, which stopped placement."""
    first = Probe(served)
    await first.greet(hello())
    before = open_file_count()
    for _ in range(10 * CONNECTION_LIMIT):
        address = ("127.0.0.1", served.servers.probe_port)
        silent_connections.append(socket.create_connection(address, timeout=60))

    refused_count = sum(map(is_closed, silent_connections[CONNECTION_LIMIT:]))

    assert refused_count == len(silent_connections) - CONNECTION_LIMIT
    served_count = open_file_count() - before - len(silent_connections)
    assert served_count <= CONNECTION_LIMIT
    status = await served.operator().GetStatus(operator_pb2.GetStatusRequest())
    assert status.version == "9.9"


def is_closed(connection: socket.socket) -> bool:
    """Whether the server closes it, rather than say its own HTTP/2 settings."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def open_file_count() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_the_file_limit_is_this_process_s() -> None:
    assert 0 < file_limit() <= 1 << 20
