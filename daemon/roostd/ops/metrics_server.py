"""Answers over HTTP, from threads of their own: to Prometheus, and for the web page."""

import socket
import threading
from collections.abc import Callable
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app

from roost_engine.domain.errors import ConfigError

# Each connection costs a file and a thread, and placement needs both for Slurm's commands. A few
# scrapers connect at the same time; an idle connection is closed after SILENCE_S.
CONNECTION_LIMIT = 16
SILENCE_S = 10.0


class MetricsServer(ThreadingMixIn, WSGIServer):
    """A server that closes connections beyond CONNECTION_LIMIT at once."""

    daemon_threads = True

    def __init__(self, *arguments: Any) -> None:
        self._slots = threading.BoundedSemaphore(CONNECTION_LIMIT)
        super().__init__(*arguments)

    def process_request(self, request: Any, client_address: Any) -> None:
        """See socketserver: takes a connection."""
        if not self._slots.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._slots.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """See socketserver: serves a connection to its end."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._slots.release()

    def close(self) -> None:
        """Stop to listen, within half a second."""
        self.shutdown()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """See socketserver: a lost connection is not logged."""


class _Server6(MetricsServer):
    address_family = socket.AF_INET6


class _Handler(WSGIRequestHandler):
    timeout = SILENCE_S

    def log_message(self, format: str, *arguments: Any) -> None:
        """Log nothing: standard error is for the daemon's events."""


def serve_metrics(registry: CollectorRegistry, address: str) -> MetricsServer:
    """Answer Prometheus on HOST:PORT until the process ends or the server is shut down.

    Raises:
        ConfigError: the address cannot be listened on.
    """
    try:
        return serve_wsgi(make_wsgi_app(registry), address, "metrics")
    except (OSError, UnicodeError) as error:  # a label of a name that is too long
        why = getattr(error, "strerror", None) or error
        raise ConfigError([f"listen.metrics: {address}: {why}"]) from error


def serve_wsgi(app: Callable[..., Any], address: str, thread_name: str) -> MetricsServer:
    """Serve an application on HOST:PORT until the process ends or the server is shut down.

    Raises:
        OSError: the address cannot be listened on.
    """
    host, _, port = address.rpartition(":")
    kind = _Server6 if ":" in host else MetricsServer
    server = make_server(host.strip("[]"), int(port), app, kind, _Handler)
    threading.Thread(target=server.serve_forever, name=thread_name, daemon=True).start()
    return server
