"""The page of a state without Slurm, served from an event loop in a thread of the test's."""

import asyncio
import contextlib
import threading
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from roostd.ops.metrics_server import serve_wsgi
from roostd.page.app import PageApp
from roostd.page.server import LiveAnswers
from roostd.state import DaemonState


@dataclass(frozen=True, slots=True)
class Page:
    """Where a page is served."""

    port: int
    answers: LiveAnswers
    loop: asyncio.AbstractEventLoop

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def get(self, path: str) -> bytes:
        with urllib.request.urlopen(f"{self.url}{path.lstrip('/')}", timeout=60) as answer:
            body: bytes = answer.read()
        return body


@contextlib.contextmanager
def served_page(state: DaemonState, wrap: Any = lambda app: app) -> Iterator[Page]:
    """Serve a state's page; `wrap` may put an application around that of the page."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    answers = LiveAnswers(state, loop)
    server = serve_wsgi(wrap(PageApp(answers)), "127.0.0.1:0", "page")
    try:
        yield Page(server.server_port, answers, loop)
    finally:
        server.close()
        loop.call_soon_threadsafe(loop.stop)
        thread.join(60)
        loop.close()
