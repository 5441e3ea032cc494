"""Metrics over HTTP: answered on loopback, with few connections at a time."""

import socket
import urllib.request
from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry

from roost_engine.domain.errors import ConfigError
from roostd.ops.metrics import Metrics
from roostd.ops.metrics_server import CONNECTION_LIMIT, MetricsServer, serve_metrics


@pytest.fixture
def server() -> Iterator[MetricsServer]:
    registry = CollectorRegistry()
    Metrics(registry).mismatches.inc()
    server = serve_metrics(registry, "127.0.0.1:0")
    yield server
    server.shutdown()
    server.server_close()


def scrape(server: MetricsServer) -> str:
    url = f"http://127.0.0.1:{server.server_port}/metrics"
    with urllib.request.urlopen(url, timeout=60) as answer:
        text: str = answer.read().decode()
    return text


def test_prometheus_is_answered_over_http(server: MetricsServer) -> None:
    for _ in range(2 * CONNECTION_LIMIT):  # each connection is given back
        assert "roost_allocation_mismatches_total 1.0" in scrape(server)


def test_an_address_of_version_6_is_served() -> None:
    server = serve_metrics(CollectorRegistry(), "[::1]:0")
    try:
        with socket.create_connection(("::1", server.server_port), timeout=60) as connection:
            connection.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            assert connection.recv(12) == b"HTTP/1.0 200"
    finally:
        server.shutdown()
        server.server_close()


def test_idle_connections_take_no_more_than_a_few_threads(server: MetricsServer) -> None:
    address = ("127.0.0.1", server.server_port)
    idle = [socket.create_connection(address, timeout=60) for _ in range(CONNECTION_LIMIT)]
    more = [socket.create_connection(address, timeout=60) for _ in range(20)]
    try:
        assert [connection.recv(1) for connection in more] == [b""] * len(more)  # turned away
    finally:
        for connection in (*idle, *more):
            connection.close()


def test_an_address_that_cannot_be_used_is_named(server: MetricsServer) -> None:
    with pytest.raises(ConfigError, match=r"listen.metrics: 127.0.0.1:\d+: Address already"):
        serve_metrics(CollectorRegistry(), f"127.0.0.1:{server.server_port}")
